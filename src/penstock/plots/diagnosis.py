"""The page of a diagnosis: batches, tasks of the worst batch, causes and cures of each query."""

from collections.abc import Sequence
from html import escape

import numpy as np
from matplotlib.axes import Axes

from penstock.diagnosis.analysis import Diagnosis, QueryDiagnosis
from penstock.diagnosis.causes import Cause
from penstock.diagnosis.tasks import Tasks
from penstock.diagnosis.words import EXPLAINED
from penstock.plots import style
from penstock.plots.page import picture, sheet, table

# Queries of an application that get a section.
_MOST_QUERIES = 5
_MOST_BATCHES = 60
_MOST_TASKS = 2_000
_MOST_CURES = 6
_EXECUTORS_NAMED = 16

COLOURS = {
    Cause.TOO_FEW_TASKS: style.PURPLE,
    Cause.TASK_OVERHEAD: "#5d4037",
    Cause.HOT_KEYS: style.RED,
    Cause.UNEVEN_COSTS: style.ORANGE,
    Cause.SLOW_EXECUTOR: "#c2185b",
    Cause.CROWDED_STATE: style.TEAL,
    Cause.LOCALITY_WAIT: "#37474f",
    Cause.GARBAGE_COLLECTION: style.LIGHT_GREEN,
    Cause.DISK_SPILL: "#9e9d24",
    Cause.FETCH_WAIT: style.LIGHT_BLUE,
    Cause.PYTHON_START: "#f9c440",
    Cause.FAILED_TASKS: "black",
    Cause.LATE_TASKS: "#c9c9c9",
}
_PHASES = {
    "planning": "#bdbdbd",
    "offsets, commits": style.GREY,
    "scheduling": style.LIGHT_BLUE,
    "stages": style.BLUE,
}


def diagnosis_page(found: Sequence[Diagnosis], *, footer: str) -> bytes:
    """Return one self-contained page for the diagnoses of some applications.

    Args:
        found: diagnoses, one for each application.
        footer: last line of the page.
    """
    parts = []
    for one in found:
        if len(found) > 1:
            parts.append(f"<h2>{escape(one.name)}</h2>")
        parts += [f"<p>{escape(note)}</p>" for note in one.notes]
        for query in one.queries[:_MOST_QUERIES]:
            parts += _section(query, one.executors)
        more = len(one.queries) - _MOST_QUERIES
        if more > 0:
            parts.append(f"<p>{more} more queries took less time.</p>")
    names = found[0].name if len(found) == 1 else f"{len(found)} applications"
    return sheet(f"Diagnosis of {names}", parts, footer)


def _section(query: QueryDiagnosis, executors: Sequence[str]) -> list[str]:
    count = len(query.examined)
    noun = "batch" if query.streaming else "run"
    text = (
        f"Main cause: {query.main_cause}, {EXPLAINED[query.main_cause]}. A {noun} takes "
        f"{query.duration_s / count:.2f} s on average; its work needs "
        f"{query.time_s['ideal'] / count:.2f} s on all {query.slots} slots."
    )
    parts = [f"<h2>{escape(query.name)}</h2><p>{escape(text)}</p>"]
    parts += [f"<p>{escape(note)}</p>" for note in query.notes]
    if query.cures:
        rows = [
            {
                "cure": cure.cure,
                "gain": f"{cure.gain:.2f}",
                "between": f"{cure.low:.2f} and {cure.high:.2f}",
                "what to do": cure.what,
            }
            for cure in query.cures
        ]
        parts.append(table(rows))
    else:
        parts.append("<p>There is nothing to gain here.</p>")
    parts.append(picture(draw_diagnosis(query, executors), f"Time of {query.name}"))
    return parts


def draw_diagnosis(query: QueryDiagnosis, executors: Sequence[str]) -> bytes:
    """Draw a query in four panels: batches, tasks of the worst batch, causes, cures.

    Args:
        query: diagnosis of the query.
        executors: names of all executors of the application.
    """
    figure, (batches, tasks, causes, cures) = style.panels(2, 2, (13.0, 8.6))
    _draw_batches(batches, query)
    _draw_tasks(tasks, query, executors)
    _draw_causes(causes, query)
    _draw_cures(cures, query)
    return style.png(figure, dpi=110)


def _places(query: QueryDiagnosis) -> list[int]:
    """Return the places of batches that fit into a panel: the last ones."""
    return list(range(len(query.examined)))[-_MOST_BATCHES:]


def _draw_batches(panel: Axes, query: QueryDiagnosis) -> None:
    chosen = [query.examined[place] for place in _places(query)]
    heights = {
        "planning": [batch.planning_ms for batch in chosen],
        "offsets, commits": [batch.offsets_ms for batch in chosen],
        "scheduling": [batch.scheduling_ms for batch in chosen],
        "stages": [batch.stages_ms for batch in chosen],
    }
    bottom = np.zeros(len(chosen))
    for name, values in heights.items():
        seconds = np.array(values) / 1000
        if seconds.sum() > 0:
            at = range(len(chosen))
            panel.bar(at, seconds, bottom=bottom, color=_PHASES[name], label=name, width=0.8)
        bottom += seconds
    ideal = [sum(one.ideal_ms for one in query.splits[place]) / 1000 for place in _places(query)]
    panel.plot(ideal, color="black", lw=1, ls="--", marker="_", ms=8, label="work / slots")
    noun = "batch" if query.streaming else "run"
    panel.set(ylabel=f"duration of a {noun} (s)", xlabel=noun, ylim=(0, 1.25 * bottom.max()))
    _name_batches(panel, [batch.number for batch in chosen])
    panel.set_title("Where the time goes", size=12, weight="bold")
    _legend_below(panel)


def _legend_below(panel: Axes) -> None:
    panel.legend(
        frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize=9
    )


def _name_batches(panel: Axes, numbers: Sequence[int]) -> None:
    step = -(-len(numbers) // 12)
    panel.set_xticks(range(0, len(numbers), step), [str(n) for n in numbers[::step]])
    panel.set_xlim(-0.7, max(len(numbers), 5) - 0.3)


def _draw_tasks(panel: Axes, query: QueryDiagnosis, executors: Sequence[str]) -> None:
    """Draw the tasks of the worst batch as bars, on one line for each slot."""
    batch = query.examined[query.worst]
    runs = [run for group in batch.groups for run in group.runs]
    title = f"Tasks of batch {batch.number}, the worst (red: failed)"
    panel.set_title(title, size=12, weight="bold")
    panel.set_xlabel("time from the start of the batch (s)")
    if not runs:
        return
    tasks = Tasks.together([run.tasks for run in runs])
    order = np.argsort(tasks.launch_ms, kind="stable")[:_MOST_TASKS]
    tasks = tasks.chosen(order)
    stage = np.concatenate([np.full(run.tasks.size, i) for i, run in enumerate(runs)])[order]
    lines = _lines(tasks)
    start_s = (tasks.launch_ms - batch.start_ms) / 1000
    palette = (style.BLUE, style.ORANGE, style.TEAL, style.PURPLE, style.GREEN)
    colours = [
        style.RED if failed else palette[int(number) % len(palette)]
        for number, failed in zip(stage, tasks.failed, strict=True)
    ]
    panel.barh(
        lines, tasks.duration_ms / 1000, 0.8, left=start_s, color=colours, edgecolor="white", lw=0.3
    )
    panel.set_xlim(left=0)
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    if len(np.unique(tasks.executor)) <= _EXECUTORS_NAMED:
        places, names = [], []
        for executor in np.unique(tasks.executor):
            own = lines[tasks.executor == executor]
            places.append((own.min() + own.max()) / 2)
            names.append(executors[int(executor)])
            panel.axhline(own.max() + 0.5, color="#dddddd", lw=0.8)
        panel.set_yticks(places, names)
    else:
        panel.set_yticks([])
    panel.set_ylabel("executor, one line a slot")


def _lines(tasks: Tasks) -> np.ndarray:
    """Return the line of each task: tasks of an executor that overlap get lines of their own."""
    lines = np.zeros(tasks.size)
    first = 0
    for executor in np.unique(tasks.executor):
        free_ms: list[float] = []
        for task in np.flatnonzero(tasks.executor == executor):
            fits = [n for n, end in enumerate(free_ms) if end <= tasks.launch_ms[task]]
            line = fits[0] if fits else len(free_ms)
            free_ms[line : line + 1] = [float(tasks.finish_ms[task])]
            lines[task] = first + line
        first += len(free_ms)
    return lines


def _draw_causes(panel: Axes, query: QueryDiagnosis) -> None:
    """Draw the time above the ideal of each batch, stacked by cause."""
    places = _places(query)
    bottom = np.zeros(len(places))
    for cause, colour in COLOURS.items():
        seconds = np.array(
            [sum(one.causes_ms.get(cause, 0.0) for one in query.splits[p]) for p in places]
        )
        seconds /= 1000
        if seconds.sum() > 0.01 * query.duration_s:
            at = range(len(places))
            panel.bar(at, seconds, bottom=bottom, color=colour, label=str(cause), width=0.8)
            bottom += seconds
    panel.set_title("Time above the ideal, by cause", size=12, weight="bold")
    noun = "batch" if query.streaming else "run"
    panel.set(ylabel="time above work / slots (s)", xlabel=noun)
    panel.set_ylim(0, max(1.35 * bottom.max(), 1e-3))
    _name_batches(panel, [query.examined[place].number for place in places])
    if panel.get_legend_handles_labels()[0]:
        _legend_below(panel)


def _draw_cures(panel: Axes, query: QueryDiagnosis) -> None:
    panel.set_title("Predicted gains", size=12, weight="bold")
    cures = query.cures[:_MOST_CURES]
    if not cures:
        panel.text(0.5, 0.5, "nothing to gain here", ha="center", transform=panel.transAxes)
        panel.set_axis_off()
        return
    at = np.arange(len(cures))
    gains = np.array([cure.gain for cure in cures])
    errors = np.array([[c.gain - c.low for c in cures], [c.high - c.gain for c in cures]])
    panel.barh(at, gains, 0.5, color=style.BLUE)
    panel.errorbar(gains, at, xerr=np.maximum(errors, 0), fmt="none", ecolor="black", capsize=4)
    panel.axvline(1, color="black", lw=0.8, ls="--")
    panel.set_yticks(at, [cure.cure for cure in cures])
    panel.set(xlim=(0, 1.1 * max(cure.high for cure in cures)), ylim=(len(cures) - 0.4, -0.6))
    panel.set_xlabel("times as fast; lines show the interval")
    panel.grid(visible=False, axis="y")
