"""Batches of a stream: how long each took, and how busy the instances were."""

import io
from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt

from penstock.plots.figures import COLOURS
from penstock.policies.kernels import Float64

SERIES = (COLOURS["round_robin"], COLOURS["posg"], COLOURS["posg_as_published"])


def draw_batches(
    names: Sequence[str],
    durations_ms: Sequence[Float64],
    busy_ms: Sequence[Float64],
    ideal_ms: Float64,
    title: str,
) -> bytes:
    """Draw the duration of every batch, and how far each instance's load was from the mean."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.2, 4.2), layout="constrained")
    for name, durations, colour in zip(names, durations_ms, SERIES, strict=False):
        left.plot(durations / 1000, color=colour, lw=2, marker="o", ms=3, label=name)
    left.plot(ideal_ms / 1000, color="black", lw=1, ls="--", label="least possible")
    # The first batch starts Python workers: it is off the scale, and not the point.
    highest = max(float(durations[1:].max()) for durations in durations_ms) / 1000
    left.set(xlabel="batch", ylabel="duration (s)", ylim=(0, 1.3 * highest))
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False)
    width = 0.8 / len(names)
    for i, (name, busy, colour) in enumerate(zip(names, busy_ms, SERIES, strict=False)):
        share = np.sort(busy / busy.mean(axis=1, keepdims=True), axis=1)[:, ::-1].mean(axis=0)
        at = np.arange(share.size) + (i - (len(names) - 1) / 2) * width
        right.bar(at, share, width, color=colour, label=name)
    right.axhline(1, color="black", lw=1, ls="--")
    right.set(xlabel="instances, the busiest first", ylabel="busy time / mean", xticks=[])
    right.legend(frameon=False)
    for panel in (left, right):
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, size=11)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    plt.close(figure)
    return image.getvalue()
