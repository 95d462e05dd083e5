"""Costs by key and size: a table of frequent keys, each with a line of cost by size."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs import line_fit, lines, sized_table
from penstock.policies.costs.line_fit import MEAN_SIZE, NUMBERS, USEFUL, Fit
from penstock.policies.costs.lines import LINE, Lines
from penstock.policies.costs.outliers import factors_of
from penstock.policies.costs.sized_table import Sized
from penstock.policies.costs.space_saving import SpaceSaving
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import between, float64s, int64_keys, non_negatives, positive

# Sized records of a batch from which on their mean size is the typical one.
_TYPICAL = 16


class BySize(SpaceSaving):
    r"""A table of the heaviest keys, each with a line of its cost by the size of a record.

    The cost of a record of key $t$ and size $s$ is estimated by

    $$\hat w_t(s) = a_t + b_t s, \qquad a_t, b_t \ge 0$$

    Lines of keys with few records are drawn towards one common line, which is also that of unknown
    keys (see `line_fit`). Large records count less, because their costs vary more. Outliers of a
    key are winsorised (see `outliers`). A record of unknown size counts as one of mean size.

    The common slope must explain 2% of the variance of costs, and be significant. Otherwise all
    estimates are those of `SpaceSaving`, which this table learns as well, from unchanged costs.

    Args:
        capacity: number of entries, 1 to 65,535; 60 bytes each.
        seed: seed of the hash function of the table's index; it changes no estimate.
        spread: whether to keep how much the costs of a key differ, in 4 more bytes an entry.

    Example:
        >>> model = BySize(capacity=4)
        >>> sizes = np.arange(20.0)
        >>> model.update(np.full(20, 7), 3 + 2 * sizes, sizes)
        >>> model.estimate([7, 7, 8], [0.0, 100.0, 50.0]).round(3)
        array([  3., 203., 103.])

    References:
        B. Efron and C. Morris, "Stein's estimation rule and its competitors", JASA 68, 1973, for
        the shrinkage; P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2009, section 7.8, for
        winsorised residuals.

    Deviations:
        The variances are moments over the table, and not fitted by maximum likelihood.
    """

    name = "by_size"

    def update(
        self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> None:
        """Learn from executed records.

        Args:
            keys: keys of the records.
            costs_ms: cost of each record.
            sizes: size of each record; NaN or negative if it is unknown. None if all are.
        """
        array = int64_keys("keys", keys)
        costs = non_negatives("costs_ms", costs_ms, array.size)
        known = self._sizes(sizes, array.size)
        typical = self._typical(known)
        factors = factors_of(array, costs, known, typical)
        sized_table.update(self.sized, array, costs, known, factors, typical, self.fitted)
        self._fit()

    def estimate(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return the expected cost of a record of each key and size.

        Args:
            keys: keys of the records.
            sizes: size of each record, as in `update`.
        """
        array = int64_keys("keys", keys)
        known = self._sizes(sizes, array.size)
        if not self.useful:
            return super().estimate(array)
        out = np.empty(array.size)
        line_fit.estimate(self.lines, self._found(array), known, self.fitted, out)
        return out

    def spread_ms(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return how far a record's cost may be from the estimate (standard deviation)."""
        if not self.useful or not self.spread:
            return super().spread_ms(keys)
        array = int64_keys("keys", keys)
        costs_ms = self.estimate(array, sizes)
        out = np.empty(array.size)
        line_fit.spread(self.lines, self._found(array), costs_ms, self.fitted, out)
        return out

    def merge(self, other: SpaceSaving, scale: float = 1.0) -> None:
        """Learn the entries and lines of another table, with its costs multiplied by `scale`."""
        if not isinstance(other, SpaceSaving):
            raise PenstockError(f"only a SpaceSaving can be merged; got {other!r}")
        factor = positive("scale", scale)
        sized_table.merge(self.sized, sized_of(other), factor, self.fitted)
        self._fit()

    def decay(self, factor: float) -> None:
        """Multiply the weight of all records by `factor`."""
        weight = between("factor", factor, 0, 1, closed="high")
        super().decay(weight)
        lines.age(self.lines, weight, 1.0)
        self._fit()

    def clear(self) -> None:
        """Empty the table."""
        super().clear()
        self.lines: Lines = np.zeros(self.capacity, dtype=LINE)
        self.fitted: Fit = np.zeros(NUMBERS)
        self.sized: Sized = (self.table, self.lines)

    @property
    def useful(self) -> bool:
        """Whether sizes explain costs, so that lines are used."""
        return bool(self.fitted[USEFUL])

    @property
    def message_bytes(self) -> int:
        """Bytes of the entries and lines in use, and of the totals."""
        return super().message_bytes + LINE.itemsize * len(self)

    def _sizes(self, sizes: npt.ArrayLike | None, length: int) -> Float64:
        return np.full(length, np.nan) if sizes is None else float64s("sizes", sizes, length)

    def _typical(self, sizes: Float64) -> float:
        """Return the size whose weight is 1: that of a large batch itself, or of all records."""
        known = sizes[lines.are_sizes(sizes)]
        if known.size >= _TYPICAL or not self.fitted[MEAN_SIZE]:
            return float(known.mean()) if known.size else 0.0
        return float(self.fitted[MEAN_SIZE])

    def _found(self, keys: Int64) -> Int64:
        out = np.empty(keys.size, dtype=np.int64)
        sized_table.find(self.table, keys, out)
        return out

    def _fit(self) -> None:
        line_fit.fit(self.lines, len(self), self.fitted)

    def _state(self) -> Arrays:
        moments = {f"line.{name}": self.lines[name] for name in LINE.names or ()}
        return {**super()._state(), **moments, "fitted": self.fitted}


def sized_of(table: SpaceSaving) -> Sized:
    """Return a table with its lines; empty ones if it has none."""
    if isinstance(table, BySize):
        return table.sized
    return table.table, np.zeros(table.capacity, dtype=LINE)
