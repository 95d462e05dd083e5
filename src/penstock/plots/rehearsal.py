"""Outcomes of a rehearsal: latency over cost, and the frontier."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from penstock.plots import style
from penstock.rehearsal import Outcome, frontier, recommended

# Room above the slowest setting that keeps up; others are drawn at the upper edge.
_ROOM = 1.2


def draw_rehearsal(outcomes: Sequence[Outcome], *, target_s: float | None, title: str) -> bytes:
    """Draw the latency of each setting over its slots, with the frontier and the target.

    Args:
        outcomes: outcomes of settings.
        target_s: limit of the mean latency; None without a target.
        title: title above the picture.
    """
    figure, [panel] = style.panels(1, 1, (8.4, 5.2))
    shown = [one.latency_s for one in outcomes if one.keeps_up]
    top_s = _ROOM * max([*shown, target_s or 0.0]) or 1.0
    _draw_settings(panel, outcomes, top_s)
    best = frontier([one for one in outcomes if not one.shedder])
    slots, latency_s = [one.slots for one in best], [one.latency_s for one in best]
    label = "frontier without shedding"
    panel.plot(slots, latency_s, color="black", lw=1, alpha=0.6, label=label, zorder=2)
    chosen = recommended(outcomes)
    if chosen is not None:
        panel.scatter(
            [chosen.slots],
            [chosen.latency_s],
            s=260,
            facecolors="none",
            edgecolors=style.GREEN,
            linewidths=2,
            label="recommended",
            zorder=4,
        )
    if target_s is not None:
        panel.axhline(target_s, color=style.RED, lw=1, ls="--", label="target")
    panel.set(xlabel="slots (cost)", ylabel="mean latency (s), simulated", ylim=(0, top_s))
    style.whole_numbers(panel.xaxis)
    style.legend_below(figure, [panel])
    style.headline(figure, title)
    return style.png(figure)


def _draw_settings(panel: Axes, outcomes: Sequence[Outcome], top_s: float) -> None:
    """Draw one mark for each setting: colours are groupings, triangles shed."""
    spare = list(style.SPARE)
    colours = {}
    for name in dict.fromkeys(one.grouping for one in outcomes):
        colours[name] = style.COLOURS.get(name) or (spare.pop(0) if spare else style.GREY)
    drawn = set()
    for one in outcomes:
        label = f"{one.grouping}, {one.shedder}" if one.shedder else one.grouping
        label = label if one.keeps_up else f"{label} (does not keep up)"
        panel.scatter(
            [one.slots],
            [one.latency_s if one.keeps_up else top_s],
            s=60,
            marker="^" if one.shedder else "o",
            facecolors=colours[one.grouping] if one.keeps_up else "none",
            edgecolors=colours[one.grouping],
            label=None if label in drawn else label,
            clip_on=False,
            zorder=3,
        )
        drawn.add(label)
