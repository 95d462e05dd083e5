r"""Outliers: costs that are far from the line of their key are winsorised before a line is learnt.

The records of a key in one batch get a line. The ratios of their costs to it are divided by their
median. Ratios outside of $[1 / m, m]$ are moved to the nearer end, and the line is fitted again
(Huber's winsorised residuals, four passes). The limit $m$ is the square of the ratio within which
95% of the records are, or 2 if that is more. For lognormal costs it is at 3.3 standard deviations.
Costs of which more than 5% are expensive, such as those of missed caches, stay as they are.
"""

import numpy as np

from penstock.policies.costs.lines import (
    LINE,
    Line,
    Lines,
    add,
    are_sizes,
    empty,
    own_slope,
    weight_of,
)
from penstock.policies.kernels import Float64, Int64, kernel

# Records of a key from which on their own line shows which costs are outliers.
LEAST = 8
# Share of the records that are never outliers, and the least ratio to the line that may be one.
_USUAL, _LEAST_RATIO = 0.95, 2.0
# Ratio up to which the mean of several records is believed, in standard deviations of one record.
_DEVIATIONS = 4.0
_PASSES = 4


def factors_of(keys: Int64, costs_ms: Float64, sizes: Float64, typical: float) -> Float64:
    """Return the factors that move outliers of each key towards the line of the key.

    Args:
        keys: keys of the records.
        costs_ms: costs of the records.
        sizes: sizes of the records.
        typical: typical size, for weights.
    """
    out = np.ones(costs_ms.size)
    known = np.flatnonzero(are_sizes(sizes) & (costs_ms > 0))
    if known.size >= LEAST:
        order = known[np.argsort(keys[known], kind="stable")]
        _winsorise(keys, order, costs_ms, sizes, typical, np.zeros(1, dtype=LINE), out)
    return out


@kernel
def _winsorise(
    keys: Int64,
    order: Int64,
    costs_ms: Float64,
    sizes: Float64,
    typical: float,
    scratch: Lines,
    out: Float64,
) -> None:
    start = 0
    while start < order.size:
        stop = start + 1
        while stop < order.size and keys[order[stop]] == keys[order[start]]:
            stop += 1
        if stop - start >= LEAST:
            for _ in range(_PASSES):
                _winsorise_key(order[start:stop], costs_ms, sizes, typical, scratch[0], out)
        start = stop


@kernel
def _winsorise_key(
    chosen: Int64, costs_ms: Float64, sizes: Float64, typical: float, line: Line, out: Float64
) -> None:
    """Fit a line to the believed costs of a key, and move outliers towards it."""
    empty(line)
    for i in chosen:
        add(line, sizes[i], costs_ms[i] * out[i], weight_of(sizes[i], typical))
    steepest = line.ms / line.size if line.size > 0 else np.inf
    slope = min(max(own_slope(line), 0.0), steepest)
    # The least cost on the line avoids a division by 0.
    least_ms = 1e-6 * line.ms
    ratios = np.empty(chosen.size)
    for p in range(chosen.size):
        expected_ms = max(line.ms + slope * (sizes[chosen[p]] - line.size), least_ms)
        ratios[p] = costs_ms[chosen[p]] / expected_ms
    middle = np.median(ratios)
    if not 0 < middle < np.inf:  # costs that are too small for single precision
        return
    ratios /= middle
    most = _limit(ratios)
    for p in range(chosen.size):
        if ratios[p] > 0:
            out[chosen[p]] = min(max(ratios[p], 1 / most), most) / ratios[p]


@kernel
def _limit(ratios: Float64) -> float:
    """Return the largest believed ratio to the line."""
    apart = np.sort(np.maximum(ratios, 1 / ratios))
    usual = apart[int(_USUAL * (apart.size - 1))]
    return float(max(usual * usual, _LEAST_RATIO))


@kernel
def believed(ratio: float, noise: float) -> float:
    """Return the factor by which costs are believed that differ by a ratio from a known line.

    Args:
        ratio: measured costs over those of the line.
        noise: variance of costs, relative to the line.
    """
    most = max(1 + _DEVIATIONS * np.sqrt(noise), _LEAST_RATIO)
    return float(min(max(ratio, 1 / most), most) / ratio)
