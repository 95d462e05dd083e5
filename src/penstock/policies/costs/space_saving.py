"""Costs of the frequent keys in a bounded table, and the mean of the rest."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs import heavy_hitters
from penstock.policies.costs.base import CostModel
from penstock.policies.costs.entries import ENTRY
from penstock.policies.costs.heavy_hitters import MAX_CAPACITY, Table
from penstock.policies.costs.totals import RECORDS, SIZE, TOTALS, TOTALS_OF_SPREAD, mean_of_rest
from penstock.policies.hashing import HashFamily
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import between, int64_keys, non_negatives, positive, whole


class SpaceSaving(CostModel):
    r"""A table of the heaviest keys with their mean costs (Space-Saving).

    A record of a key in the table raises the key's count by 1 and moves its mean. A record of
    another key takes a free entry or, in a full table, the entry with the smallest count $c$. Its
    count is then $c + 1$, of which only 1 is its own. For $m$ records and $s$ entries

    $$f_t \le \hat f_t \le f_t + m / s$$

    and every key with $f_t > m / s$ is in the table. Keys outside of the table are estimated by the
    mean of the rest $\bar w$. It is the mean cost of the records that met a table without their
    key. A key in the table is estimated from its own records since it entered, $n_t$ of them with
    the mean $\bar w_t$:

    $$\hat w_t = \bar w + (\bar w_t - \bar w) \frac{n_t}{n_t + \lambda}, \qquad
      \lambda = \frac{\text{variance of the costs of one key}}{\text{variance between keys}}$$

    If a key always costs the same, $\lambda = 0$ and its mean is believed at once. If costs do not
    depend on keys, $\lambda$ is large and few records of a key change its estimate little.

    It clearly beats a pair of Count-Min matrices of the same memory on skewed keys, because
    frequent keys are exact. On uniform keys it is no worse than the mean cost.

    Args:
        capacity: number of entries, 1 to 65,535; 28 bytes each.
        seed: seed of the hash function of the table's index; it changes no estimate.
        spread: whether to keep how much the costs of a key differ, in 4 more bytes an entry.

    Example:
        >>> model = SpaceSaving(capacity=2)
        >>> model.update([7, 7, 7, 8, 9], [10.0, 10.0, 10.0, 2.0, 6.0])
        >>> model.estimate([7, 9, 8])
        array([10.,  6.,  6.])

    References:
        A. Metwally, D. Agrawal and A. El Abbadi, "Efficient computation of frequent and top-k
        elements in data streams", ICDT 2005.

    Deviations:
        Counts are real numbers, so that they can fade; they have 32 bits, and without decay they
        stop at 2**24. A heap finds the smallest count. The estimate is drawn towards the mean of
        the rest.
    """

    name = "space_saving"

    def __init__(self, capacity: int = 240, seed: int = 0, spread: bool = False) -> None:
        self.capacity = whole("capacity", capacity, least=1, most=MAX_CAPACITY)
        self.seed = whole("seed", seed, least=0)
        self.spread = bool(spread)
        self._coefficients = HashFamily(1, 1, self.seed).coefficients[0]
        self.clear()

    def __len__(self) -> int:
        return int(self._totals[SIZE])

    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Learn from executed records: count each key, and move its mean."""
        array = int64_keys("keys", keys)
        costs = non_negatives("costs_ms", costs_ms, array.size)
        heavy_hitters.update(self.table, array, costs)

    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Return the estimate of each key in the table, and the mean of the rest for all others."""
        array = int64_keys("keys", keys)
        out = np.empty(array.size)
        heavy_hitters.estimate(self.table, array, out)
        return out

    def spread_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return how far a record's cost may be from the estimate (standard deviation).

        The spread of a key with few records is drawn towards the spread of all keys.
        """
        array = int64_keys("keys", keys)
        if not self.spread:
            raise PenstockError("spread must be True to ask for it; got False")
        out = np.empty(array.size)
        heavy_hitters.spread(self.table, array, out)
        return out

    def merge(self, other: "SpaceSaving", scale: float = 1.0) -> None:
        """Learn the entries of another table, with its costs multiplied by `scale`."""
        if not isinstance(other, SpaceSaving):
            raise PenstockError(f"only a SpaceSaving can be merged; got {other!r}")
        heavy_hitters.merge(self.table, other.table, positive("scale", scale))

    def decay(self, factor: float) -> None:
        """Multiply the weight of all records by `factor`."""
        weight = between("factor", factor, 0, 1, closed="high")
        heavy_hitters.age(self.table, weight, 1.0)

    def clear(self) -> None:
        """Empty the table."""
        self._entries = np.zeros(self.capacity, dtype=ENTRY)
        self._index = np.zeros(2 * self.capacity, dtype=np.uint16)
        self._totals = np.zeros(TOTALS_OF_SPREAD if self.spread else TOTALS)
        self._squares = np.zeros(self.capacity if self.spread else 0, dtype=np.float32)
        self.table: Table = (
            self._entries,
            self._index,
            self._totals,
            self._coefficients,
            self._squares,
        )

    def keys(self) -> Int64:
        """Return the keys in the table."""
        return self._entries["key"][: len(self)].copy()

    def counts(self) -> Float64:
        """Return upper bounds of the keys' frequencies, in the order of `keys`."""
        return self._entries["count"][: len(self)].astype(np.float64)

    def hits(self) -> Float64:
        """Return the number of records of each key since it entered, in the order of `keys`."""
        return self._entries["hits"][: len(self)].astype(np.float64)

    def means_ms(self) -> Float64:
        """Return the mean cost of each key's own records, in the order of `keys`."""
        return self._entries["mean_ms"][: len(self)].astype(np.float64)

    @property
    def records(self) -> float:
        """Number of measured records; faded ones count by their weight."""
        return float(self._totals[RECORDS])

    @property
    def rest_ms(self) -> float:
        """Mean cost of the records that met a table without their key."""
        return float(mean_of_rest(self._totals))

    @property
    def message_bytes(self) -> int:
        """Bytes of key, hits, mean and spread of each entry in use, and of the totals."""
        return (20 if self.spread else 16) * len(self) + self._totals.nbytes

    def _state(self) -> Arrays:
        fields = {name: self._entries[name] for name in ENTRY.names or ()}
        state = {**fields, "index": self._index, "totals": self._totals}
        return {**state, "squares": self._squares} if self.spread else state
