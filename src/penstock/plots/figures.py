"""Figures from results in the JSON form."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

COLOURS = {
    "round_robin": "#8c8c8c",
    "posg_as_published": "#d1822c",
    "posg": "#1565c0",
    "posg_frugal": "#5fa8e8",
    "full_knowledge": "#2e7d32",
    "key_hash": "#c62828",
    "pkg": "#d1822c",
    "potc": "#8e24aa",
    "porc": "#5fa8e8",
    "bounded_hash": "#00838f",
    "cg_as_published": "#d1822c",
    "cg": "#1565c0",
    "random_drop": "#8c8c8c",
    "mean_cost": "#c62828",
    "las_as_published": "#d1822c",
    "las": "#1565c0",
    "las_cheap_first": "#8e24aa",
    "full_knowledge_cheap_first": "#7cb342",
    "minimum": "#8c8c8c",
    "expert": "#2e7d32",
    "threshold": "#c62828",
    "rate_based": "#8e24aa",
    "preventive_as_published": "#d1822c",
    "preventive": "#1565c0",
    "flux": "#c62828",
    "lower_bound": "#2e7d32",
    "highs": "#d1822c",
    "local_search": "#1565c0",
    "local_search_of_10": "#5fa8e8",
    "unrestricted": "#2e7d32",
    "drain_first": "#d1822c",
    "cola": "#c62828",
    "albic_as_published": "#d1822c",
    "albic": "#1565c0",
}
LABELS = {
    "completion_ms": "mean completion time (ms)",
    "speedup": "speed-up over round robin",
    "steady_speedup": "speed-up over round robin, steady state",
    "queue_spread": "queue: longest - shortest (records)",
    "latency_spread_ms": "latency: largest - smallest (ms)",
    "imbalance": "imbalance (max - mean) / mean",
    "memory": "memory: places per key",
    "late_imbalance": "imbalance, second half",
    "late_completion_ms": "mean completion time, second half (ms)",
    "queue_at_end": "longest queue at the end",
    "moves": "virtual workers moved",
    "throughput_per_s": "records per second",
    "batch_ms": "batch duration (ms)",
    "queuing_ms": "mean waiting time (ms)",
    "dropped_ratio": "share of records dropped",
    "shedding_ratio": "dropped, relative to Base Line",
    "waiting_ms": "mean waiting time (ms)",
    "rate_per_s": "input (records/s)",
    "instances": "instances of all operators",
    "latency_s": "latency (s)",
    "mean_latency_s": "mean latency (s)",
    "instances_ratio": "instances, relative to the expert's",
    "distance": "load distance (points)",
    "undrained": "key groups left to drain",
    "migrations": "key groups moved",
    "pause_s": "pauses of key groups (s)",
    "collocation": "collocation (% of traffic)",
    "load_index": "load index (%)",
}
_ABREAST = 3
# So many values of x at most get a tick each, on a logarithmic axis if they are far apart.
_TICKS = 15
_SPARE = ("#8e24aa", "#c2185b", "#00838f", "#5d4037")

Document = dict[str, Any]


def draw(document: Document, title: str, x_label: str, metrics: Sequence[str]) -> bytes:
    """Draw one panel a metric and one line a series, two standard errors shaded; as PNG."""
    rows = 1 if len(metrics) <= _ABREAST else 2
    columns = -(-len(metrics) // rows)
    size = 5.6 * columns, 4.4 * rows
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for panel, metric in zip(panels.flat, metrics, strict=False):
        _panel(panel, document, metric)
        panel.set_xlabel(x_label)
    lines = {
        name: line
        for panel in panels.flat
        for line, name in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), frameon=False
    )
    params = document["params"]
    shown = f"mean of {params['streams']} streams, two standard errors shaded"
    figure.suptitle(f"{title}\n{shown}", size=11)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    plt.close(figure)
    return image.getvalue()


def _panel(panel: Axes, document: Document, metric: str) -> None:
    rows = [row for row in document["rows"] if row["metric"] == metric]
    xs = list(dict.fromkeys(row["x"] for row in rows))
    names = all(isinstance(x, str) for x in xs)
    place = {x: i if names else x for i, x in enumerate(xs)}
    spare = iter(_SPARE * len(rows))
    largest = 0.0
    for series in dict.fromkeys(row["series"] for row in rows):
        own = [row for row in rows if row["series"] == series]
        at = [place[row["x"]] for row in own]
        colour = COLOURS.get(series) or next(spare)
        wide = (
            2.4 if series in ("posg", "cg", "las", "preventive", "local_search", "albic") else 1.5
        )
        means = [row["mean"] for row in own]
        mark = "o" if len(own) < 40 else ""
        panel.plot(at, means, color=colour, lw=wide, marker=mark, ms=3, label=series)
        low = [row["mean"] - 2 * row["se"] for row in own]
        high = [row["mean"] + 2 * row["se"] for row in own]
        panel.fill_between(at, low, high, color=colour, alpha=0.18, lw=0)
        largest = max(largest, *means)
    if names:
        panel.set_xticks(range(len(xs)), xs, rotation=30)
    elif len(xs) <= _TICKS and min(xs) > 0 and max(xs) / min(xs) > 50:
        panel.set_xscale("log")
        panel.set_xticks(xs, [f"{x:g}" for x in xs], minor=False)
        panel.minorticks_off()
    if "speedup" in metric:
        panel.axhline(1, color="black", lw=0.6)
        panel.set_ylim(0, 1.15 * largest)
    elif metric.endswith("ratio"):
        least = min(row["mean"] for row in rows)
        panel.set_ylim(1.15 * min(0.0, least), max(1.15 * largest, 0.01))
    elif largest > 0 and largest > 50 * min(row["mean"] for row in rows if row["mean"] > 0):
        panel.set_yscale("log")
    else:
        panel.set_ylim(0, 1.25 * largest)
    panel.set_ylabel(_label(metric))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def _label(metric: str) -> str:
    """Return what a metric is called; a number at its end says how many bins or workers."""
    name, _, number = metric.rpartition("_")
    if number.isdecimal():
        return f"{LABELS.get(name, name)}: {int(number):,}"
    return LABELS.get(metric, metric.replace("_", " "))
