"""Batches of a stream: the duration of each batch, and the busy time of the slots."""

from collections.abc import Sequence

import numpy as np

from penstock.plots import style
from penstock.policies.kernels import Float64

SERIES = (style.GREY, style.BLUE, style.ORANGE)


def draw_batches(
    names: Sequence[str],
    durations_ms: Sequence[Float64],
    busy_ms: Sequence[Float64],
    *,
    ideal_ms: Float64,
    title: str,
) -> bytes:
    """Draw the duration of every batch, and the busy time of slots relative to the mean.

    Args:
        names: names of the trials.
        durations_ms: duration of each batch, for each trial.
        busy_ms: busy time of each slot in each batch, for each trial; one row for each batch.
        ideal_ms: ideal duration of each batch.
        title: title above both panels.
    """
    figure, (left, right) = style.panels(1, 2, (11.2, 4.6))
    width = 0.8 / len(names)
    for i, (name, durations, busy) in enumerate(zip(names, durations_ms, busy_ms, strict=True)):
        colour = SERIES[i % len(SERIES)]
        left.plot(durations / 1000, color=colour, lw=2, marker="o", ms=3, label=name)
        share = np.sort(busy / busy.mean(axis=1, keepdims=True), axis=1)[:, ::-1].mean(axis=0)
        at = np.arange(1, share.size + 1) + (i - (len(names) - 1) / 2) * width
        right.bar(at, share, width, color=colour)
    left.plot(ideal_ms / 1000, color="black", lw=1, ls="--", label="ideal batch")
    # The first batch starts Python workers: it is off the scale, and of no interest here.
    highest = max(float(durations[1:].max()) for durations in durations_ms) / 1000
    left.set(xlabel="batch", ylabel="duration of the batch (s)", ylim=(0, 1.2 * highest))
    style.whole_numbers(left.xaxis)
    right.axhline(1, color="black", lw=1, ls="--")
    right.set(xlabel="slots, busiest first", ylabel="busy time / mean of all slots")
    right.grid(visible=False, axis="x")
    right.set_xticks(range(1, max(busy.shape[1] for busy in busy_ms) + 1))
    style.legend_below(figure, [left, right])
    style.headline(figure, title)
    return style.png(figure)


def draw_busy_tasks(
    names: Sequence[str],
    busy_ms: Sequence[Float64],
    durations_ms: Sequence[float],
    *,
    ideal_ms: float,
    caption: str,
) -> bytes:
    """Draw the busy time of all slots in one batch, with one panel for each trial.

    Args:
        names: names of the trials.
        busy_ms: busy time of each slot, for each trial.
        durations_ms: duration of the batch, for each trial.
        ideal_ms: ideal duration of the batch.
        caption: line below the panels, such as the kind of the operator.
    """
    figure, drawn = style.panels(1, len(names), (10.0, 3.8))
    longest = max(ideal_ms, *durations_ms, *(float(busy.max()) for busy in busy_ms)) / 1000
    for i, (panel, name, busy) in enumerate(zip(drawn, names, busy_ms, strict=True)):
        colour = SERIES[i % len(SERIES)]
        panel.barh(np.arange(1, busy.size + 1), busy / 1000, 0.7, color=colour)
        panel.axvline(ideal_ms / 1000, color="black", lw=1.2, ls="--")
        panel.set_title(f"{name}: batch of {durations_ms[i] / 1000:.2f} s", size=13, weight="bold")
        panel.set(xlim=(0, 1.04 * longest), xlabel="busy time in this batch (s)")
        panel.set_yticks(np.arange(1, busy.size + 1))
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        panel.spines["left"].set_visible(False)
        panel.tick_params(left=False)
    drawn[0].set_ylabel("slot")
    figure.supxlabel(f"{caption} Dashed line: duration of the ideal batch.", size=10)
    return style.png(figure, dpi=100)
