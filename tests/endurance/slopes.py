"""Whether a series is flat: its slope after the first tenth, and what chance makes of it."""

import math
from dataclasses import dataclass

import numpy as np

SKIPPED = 0.1
WINDOWS = 9  # what is left after the first tenth, in tenths


@dataclass(frozen=True)
class Slope:
    """The slope of a series after its first tenth.

    Attributes:
        start: fitted value at the beginning.
        growth: growth from there to the end.
        error: standard error of the growth.
    """

    start: float
    growth: float
    error: float

    def flat(self, share: float) -> bool:
        """Whether the growth is at most a share of the start, unless chance explains the rest.

        A series with too few values is not flat.
        """
        return bool(self.growth - 2 * self.error <= share * abs(self.start))


def slope(at: np.ndarray, values: np.ndarray) -> Slope:
    """Fit a line to the medians of nine windows.

    Medians leave out single peaks, and windows make what is left nearly independent.

    Args:
        at: numbers of batches.
        values: measured values; NaN where there is none. With fewer than nine the slope is NaN.
    """
    begin = at[0] + SKIPPED * (at[-1] - at[0])
    kept = (at >= begin) & ~np.isnan(values)
    if np.count_nonzero(kept) < WINDOWS:
        return Slope(start=math.nan, growth=math.nan, error=math.nan)
    parts = np.array_split(np.flatnonzero(kept), WINDOWS)
    x = np.array([at[part].mean() for part in parts])
    y = np.array([np.median(values[part]) for part in parts])
    (inclination, offset), covariance = np.polyfit(x, y, 1, cov=True)
    span = at[-1] - begin
    return Slope(
        start=float(inclination * begin + offset),
        growth=float(inclination * span),
        error=float(np.sqrt(covariance[0, 0]) * span),
    )
