"""Figures of experiments, from results in the JSON form."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes

from penstock.plots import style

LABELS = {
    "completion_ms": "mean completion time (ms)",
    "speedup": "speed-up over the baseline",
    "steady_speedup": "speed-up over the baseline, steady state",
    "queue_spread": "longest - shortest queue (records)",
    "latency_spread_ms": "largest - smallest latency (ms)",
    "imbalance": "imbalance (max - mean) / mean",
    "imbalance_of_bins": "imbalance of bins (max - mean) / mean",
    "memory": "memory (places of a key)",
    "memory_of_bins": "memory of bins (places of a key)",
    "late_imbalance": "imbalance, second half",
    "late_completion_ms": "mean completion time, second half (ms)",
    "queue_at_end": "longest queue at the end (records)",
    "moves": "virtual workers moved",
    "throughput_per_s": "throughput (records/s)",
    "batch_ms": "batch duration (ms)",
    "busiest_over_mean": "busy time, busiest / mean instance",
    "queuing_ms": "mean waiting time (ms)",
    "dropped_ratio": "share of records dropped",
    "shedding_ratio": "drops, relative to random_drop",
    "waiting_ms": "mean waiting time (ms)",
    "rate_per_s": "input rate (records/s)",
    "instances": "instances of all operators",
    "latency_s": "latency (s)",
    "mean_latency_s": "mean latency (s)",
    "instances_ratio": "instances, relative to the expert's",
    "reconfigurations": "changes of the configuration",
    "distance": "load distance (points)",
    "undrained": "key groups left to drain",
    "migrations": "key groups moved",
    "pause_s": "pauses of key groups (s)",
    "collocation": "collocation (% of traffic)",
    "load_index": "load index (%)",
}
# Metrics that count things: their axes have whole numbers.
COUNTS = frozenset(
    {"instances", "migrations", "moves", "queue_at_end", "queue_spread", "reconfigurations"}
    | {"throughput_per_s", "undrained"}
)
# What Penstock recommends is drawn with a thicker line.
RECOMMENDED = frozenset({"posg", "cg", "las", "preventive", "local_search", "albic"})

_ABREAST = 3
# Up to so many values of x get a tick each, on a logarithmic axis if they are far apart.
_TICKS = 15
# From so many points on a line has no markers.
_DENSE = 40
# Values with a larger ratio are far apart: their axis is logarithmic.
_FAR = 50

Document = dict[str, Any]
Rows = list[dict[str, Any]]


def draw(
    document: Document, title: str, x_label: str, *, metrics: Sequence[str], part: str = "{}"
) -> bytes:
    """Draw one panel for each metric and one line for each series, and return a PNG.

    Args:
        document: result of an experiment in the JSON form.
        title: title above all panels.
        x_label: label of all x axes.
        metrics: metrics to draw.
        part: meaning of a number at the end of a metric's name, such as "{} workers".
    """
    rows = 1 if len(metrics) <= _ABREAST else 2
    columns = -(-len(metrics) // rows)
    figure, drawn = style.panels(rows, columns, (5.6 * columns, 4.4 * rows))
    for panel, metric in zip(drawn, metrics, strict=False):
        _panel(panel, [row for row in document["rows"] if row["metric"] == metric], metric)
        panel.set_xlabel(x_label)
        panel.set_ylabel(label(metric, part))
    for panel in drawn[len(metrics) :]:
        panel.set_visible(False)
    style.legend_below(figure, drawn)
    streams = document["params"]["streams"]
    shown = f"mean of {streams} streams, two standard errors shaded" if streams > 1 else "1 stream"
    style.headline(figure, title, shown)
    return style.png(figure)


def label(metric: str, part: str = "{}") -> str:
    """Return the label of a metric; a number at its end is named by `part`.

    Example:
        >>> label("distance_60", "{} workers")
        'load distance (points), 60 workers'
        >>> label("p99_latency_s")
        'p99 latency s'
    """
    name, _, number = metric.rpartition("_")
    if number.isdecimal():
        return f"{label(name)}, {part.format(f'{int(number):,}')}"
    return LABELS.get(metric, metric.replace("_", " "))


def _panel(panel: Axes, rows: Rows, metric: str) -> None:
    xs = list(dict.fromkeys(row["x"] for row in rows))
    names = all(isinstance(x, str) for x in xs)
    place = {x: i if names else x for i, x in enumerate(xs)}
    spare = cycle(style.SPARE)
    for series in dict.fromkeys(row["series"] for row in rows):
        own = [row for row in rows if row["series"] == series]
        _line(panel, [place[row["x"]] for row in own], own, spare=spare)
    if names:
        panel.set_xticks(range(len(xs)), xs, rotation=30)
    else:
        _scale_x(panel, [float(x) for x in xs])
    _scale_y(panel, rows, metric)


def _line(panel: Axes, at: Sequence[float], own: Rows, *, spare: Iterator[str]) -> None:
    series = own[0]["series"]
    colour = style.COLOURS.get(series) or next(spare)
    panel.plot(
        at,
        [row["mean"] for row in own],
        color=colour,
        lw=2.4 if series in RECOMMENDED else 1.5,
        marker="o" if len(own) < _DENSE else "",
        ms=3,
        label=series,
    )
    low = [row["mean"] - 2 * row["se"] for row in own]
    high = [row["mean"] + 2 * row["se"] for row in own]
    panel.fill_between(at, low, high, color=colour, alpha=0.18, lw=0)


def _scale_x(panel: Axes, xs: list[float]) -> None:
    if len(xs) <= _TICKS and min(xs) > 0 and max(xs) / min(xs) > _FAR:
        panel.set_xscale("log")
        panel.set_xticks(xs, [f"{x:,g}" for x in xs], minor=False)
        panel.minorticks_off()
    elif all(x.is_integer() for x in xs):
        style.whole_numbers(panel.xaxis)


def _scale_y(panel: Axes, rows: Rows, metric: str) -> None:
    means = [row["mean"] for row in rows]
    largest = max(0.0, *means)
    name, _, number = metric.rpartition("_")
    if "speedup" in metric:
        panel.axhline(1, color="black", lw=0.6)
        panel.set_ylim(0, 1.15 * largest)
    elif metric.endswith("ratio"):
        panel.set_ylim(1.15 * min(0.0, *means), max(1.15 * largest, 0.01))
    elif largest > 0 and largest > _FAR * min(mean for mean in means if mean > 0):
        panel.set_yscale("log")
        # Shaded errors that reach zero do not stretch the axis.
        panel.set_ylim(bottom=0.5 * min(mean for mean in means if mean > 0))
        style.plain_numbers(panel.yaxis)
    else:
        panel.set_ylim(0, 1.25 * largest)
        if (name if number.isdecimal() else metric) in COUNTS:
            style.whole_numbers(panel.yaxis)
