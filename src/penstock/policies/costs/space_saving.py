"""Costs of the frequent keys in a bounded table, and the mean of the rest."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs import heavy_hitters as table
from penstock.policies.costs.base import CostModel
from penstock.policies.hashing import HashFamily
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import between, int64_keys, non_negatives, positive, whole


class SpaceSaving(CostModel):
    r"""A table of the heaviest keys with their mean costs (Space-Saving).

    A record of a key in the table raises the key's count by 1 and moves its mean. A record of
    another key takes a free entry or, in a full table, the entry with the smallest count $c$: its
    own count is then $c + 1$, of which only 1 is its own. For $m$ records and $s$ entries

    $$f_t \le \hat f_t \le f_t + m / s$$

    and every key with $f_t > m / s$ is in the table. Keys outside of it are estimated by the mean
    of the rest $\bar w$: of the records that met a table without their key, which are the ones
    such an estimate is made for. A key in the table is estimated from its own records since it
    entered, $n_t$ of them with the mean $\bar w_t$:

    $$\hat w_t = \bar w + (\bar w_t - \bar w) \frac{n_t}{n_t + \lambda}, \qquad
      \lambda = \frac{\text{variance of the costs of one key}}{\text{variance between keys}}$$

    If a key always costs the same, $\lambda = 0$ and its mean is believed at once; if costs have
    nothing to do with keys, few records of a key say nothing, and are not believed.

    It beats a pair of Count-Min matrices of the same memory clearly on skewed keys, as frequent
    keys are exact, and is no worse than the mean cost on uniform ones.

    Args:
        capacity: entries, 1 to 65,535; 28 bytes each.
        seed: of the hash function of the table's index; it changes no estimate.

    Example:
        >>> model = SpaceSaving(capacity=2)
        >>> model.update([7, 7, 7, 8, 9], [10.0, 10.0, 10.0, 2.0, 6.0])
        >>> model.estimate([7, 9, 8])
        array([10.,  6.,  6.])

    References:
        A. Metwally, D. Agrawal and A. El Abbadi, "Efficient computation of frequent and top-k
        elements in data streams", ICDT 2005.

    Deviations:
        Counts are real numbers (of 32 bits: without decay they stop at 2**24), so that they can
        fade. The minimum is kept by a heap. The estimate is drawn towards the mean of the rest.
    """

    name = "space_saving"

    def __init__(self, capacity: int = 240, seed: int = 0) -> None:
        self.capacity = whole("capacity", capacity, least=1, most=table.MAX_CAPACITY)
        self.seed = whole("seed", seed, least=0)
        self._coefficients = HashFamily(1, 1, self.seed).coefficients[0]
        self.clear()

    def __len__(self) -> int:
        return int(self._totals[table.SIZE])

    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Learn from executed records."""
        array = int64_keys("keys", keys)
        costs = non_negatives("costs_ms", costs_ms, array.size)
        table.update(array, costs, *self.table)

    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Mean cost of each key in the table, and the mean of the rest for all others."""
        array = int64_keys("keys", keys)
        out = np.empty(array.size)
        table.estimate(array, out, *self.table)
        return out

    def merge(self, other: "SpaceSaving", scale: float = 1.0) -> None:
        """Learn what another table has learnt, with its costs multiplied by `scale`."""
        if not isinstance(other, SpaceSaving):
            raise PenstockError(f"only a SpaceSaving can be merged; got {other!r}")
        table.merge(other._entries, other._totals, positive("scale", scale), *self.table)

    def decay(self, factor: float) -> None:
        """Let old records count `factor` times as much."""
        weight = between("factor", factor, 0, 1, closed="high")
        table.age(self._entries, self._totals, weight, 1.0)

    def clear(self) -> None:
        """Empty the table."""
        self._entries = np.zeros(self.capacity, dtype=table.ENTRY)
        self._index = np.zeros(2 * self.capacity, dtype=np.uint16)
        self._totals = np.zeros(table.TOTALS)

    def keys(self) -> Int64:
        """Keys in the table."""
        return self._entries["key"][: len(self)].copy()

    def counts(self) -> Float64:
        """Upper bounds of the keys' frequencies, in the order of `keys`."""
        return self._entries["count"][: len(self)].astype(np.float64)

    def hits(self) -> Float64:
        """Records of each key since it entered, in the order of `keys`."""
        return self._entries["hits"][: len(self)].astype(np.float64)

    @property
    def records(self) -> float:
        """Records measured, faded ones counted by their weight."""
        return float(self._totals[table.RECORDS])

    @property
    def message_bytes(self) -> int:
        """Key, hits and mean of each entry in use, and the totals."""
        return 16 * len(self) + self._totals.nbytes

    @property
    def table(self) -> table.Table:
        """The arrays, as the kernels of `heavy_hitters` take them."""
        return self._entries, self._index, self._totals, self._coefficients

    def _state(self) -> Arrays:
        fields = {name: self._entries[name] for name in table.ENTRY.names or ()}
        return {**fields, "index": self._index, "totals": self._totals}
