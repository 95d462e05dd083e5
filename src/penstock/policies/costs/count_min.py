"""The paper's pair of Count-Min matrices: frequencies and cumulated costs."""

import math

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs.base import CostModel
from penstock.policies.hashing import HashFamily, hash_one
from penstock.policies.kernels import Float64, Int64, UInt64, kernel
from penstock.policies.validation import between, int64_keys, non_negatives, whole

# Largest number of cells of a matrix: both matrices take a gigabyte.
_MOST_CELLS = 2**26


class CountMin(CostModel):
    r"""Two matrices that share their hash functions: frequencies F and cumulated costs W.

    Every executed record t with cost $l$ adds to one cell of each row $i$ (Listing III.1):

    $$F[i, h_i(t)] \mathrel{+}= 1, \qquad W[i, h_i(t)] \mathrel{+}= l$$

    and the estimate is read from the row with the fewest collisions (Listing III.2):

    $$\hat w_t = W[i^*, h_{i^*}(t)] / F[i^*, h_{i^*}(t)], \qquad
      i^* = \arg\min_i F[i, h_i(t)]$$

    The estimate lies between the smallest and the largest cost seen (Eq. 6). It is good for skewed
    keys, because frequent keys own their cells. For uniform keys it is near the mean cost.

    Args:
        epsilon: precision, in (0, 1); ceil(e / epsilon) columns.
        delta: probability of a larger error, in (0, 1); ceil(log2(1 / delta)) rows.
        seed: seed of the hash functions; only models with equal seeds can be merged.

    Example:
        >>> model = CountMin(epsilon=0.05, delta=0.1)
        >>> model.rows, model.columns
        (4, 55)
        >>> model.update([1, 1, 2], [10.0, 10.0, 4.0])
        >>> model.estimate([1, 2, 99])
        array([10.,  4.,  8.])

    References:
        POSG (Rivetti et al., 2015), sections III-A, III-B and IV-B.

    Deviations:
        The number of rows uses the logarithm to base 2: 4 rows for delta = 0.1, like the paper's
        set-up; the natural logarithm gives 3. There are 55 columns; the paper has 54. The listing
        divides by zero for an unseen key (F = 0 in some row); here the mean of all records is its
        estimate.
    """

    name = "count_min"

    def __init__(self, epsilon: float = 0.05, delta: float = 0.1, seed: int = 0) -> None:
        self.epsilon = between("epsilon", epsilon, 0, 1)
        self.delta = between("delta", delta, 0, 1)
        self.seed = whole("seed", seed, least=0)
        self.columns = math.ceil(math.e / self.epsilon)
        self.rows = max(1, math.ceil(-math.log2(self.delta)))
        if self.rows * self.columns > _MOST_CELLS:
            raise PenstockError(
                f"epsilon must be larger: its matrices would have {self.rows} x {self.columns:,} "
                f"cells, of at most {_MOST_CELLS:,}; got {self.epsilon:g}"
            )
        self._hashes = HashFamily(self.rows, self.columns, self.seed)
        self.clear()

    @property
    def coefficients(self) -> UInt64:
        """Hash functions of the rows, for kernels that estimate record by record."""
        return self._hashes.coefficients

    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Add executed records to both matrices (Listing III.1)."""
        array = int64_keys("keys", keys)
        costs = non_negatives("costs_ms", costs_ms, array.size)
        _update(array, costs, self.coefficients, self.frequency, self.cumulated_ms)

    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Estimate by the row with the smallest frequency (Listing III.2)."""
        array = int64_keys("keys", keys)
        out = np.empty(array.size)
        _estimate(array, self.coefficients, self.frequency, self.cumulated_ms, self.mean_ms(), out)
        return out

    def mean_ms(self) -> float:
        """Return the mean cost of all records; 0 before the first one."""
        # Every row holds every record once, so any row gives the same sums.
        records = float(self.frequency[0].sum())
        return float(self.cumulated_ms[0].sum()) / records if records else 0.0

    def cell_means(self) -> Float64:
        """Return W / F of each cell, NaN for empty cells: the snapshot S of section III-B."""
        with np.errstate(invalid="ignore"):
            return np.where(self.frequency > 0, self.cumulated_ms / self.frequency, np.nan)

    def merge(self, other: "CountMin") -> None:
        """Add the matrices of a model with the same parameters."""
        if self != other:
            raise PenstockError(
                f"only equal parameters can be merged; this is {self!r}, got {other!r}"
            )
        self.frequency += other.frequency
        self.cumulated_ms += other.cumulated_ms

    def decay(self, factor: float) -> None:
        """Scale both matrices: estimates stay the same, and new records weigh more."""
        weight = between("factor", factor, 0, 1, closed="high")
        self.frequency *= weight
        self.cumulated_ms *= weight

    def clear(self) -> None:
        """Set all cells to 0."""
        self.frequency: Float64 = np.zeros((self.rows, self.columns))
        self.cumulated_ms: Float64 = np.zeros((self.rows, self.columns))

    def _state(self) -> Arrays:
        return {"frequency": self.frequency, "cumulated_ms": self.cumulated_ms}


@kernel
def _update(
    keys: Int64, costs: Float64, coefficients: UInt64, frequency: Float64, cumulated: Float64
) -> None:
    rows, columns = frequency.shape
    for i in range(keys.size):
        for row in range(rows):
            column = hash_one(keys[i], coefficients[row], columns)
            frequency[row, column] += 1
            cumulated[row, column] += costs[i]


@kernel
def estimate_one(
    key: np.int64, coefficients: UInt64, frequency: Float64, cumulated: Float64, unseen_ms: float
) -> float:
    """Estimate a key (Listing III.2, lines 10 and 11); `unseen_ms` if one of its cells is empty."""
    rows, columns = frequency.shape
    fewest = np.inf
    total = 0.0
    for row in range(rows):
        column = hash_one(key, coefficients[row], columns)
        if frequency[row, column] < fewest:
            fewest = frequency[row, column]
            total = cumulated[row, column]
    return total / fewest if fewest > 0 else unseen_ms


@kernel
def _estimate(
    keys: Int64,
    coefficients: UInt64,
    frequency: Float64,
    cumulated: Float64,
    unseen_ms: float,
    out: Float64,
) -> None:
    for i in range(keys.size):
        out[i] = estimate_one(keys[i], coefficients, frequency, cumulated, unseen_ms)
