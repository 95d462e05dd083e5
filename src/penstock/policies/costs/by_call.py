"""Costs of whole calls: a table of frequent keys, and the number of their records in each call."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs import heavy_hitters
from penstock.policies.costs.heavy_hitters import Table, slot_of
from penstock.policies.costs.space_saving import SpaceSaving
from penstock.policies.costs.totals import SIZE
from penstock.policies.kernels import Float32, Float64, Int64, kernel
from penstock.policies.validation import at_least_zero, int64_keys, positive

# Calls of a task that are kept apart; of more calls every 16th one is added to the same row.
ROWS = 16
# Columns of the numbers of a call: all its records, and its cost.
RECORDS, MS = range(2)
# Records of a call that the table learns. All of them get the same share of its cost, so an even
# sample teaches as much as all of them.
_SAMPLE = 1_000

# Calls, one in each row: records of each entry of the table, and the numbers of the call.
Calls = tuple[Float32, Float64]


class ByCall(SpaceSaving):
    r"""A table of the heaviest keys, and what calls with many records have cost.

    A function that takes whole batches has one cost for all records of a call. It is a linear
    observation of the costs $w_t$ of its keys, with $n_t$ records of key $t$:

    $$y = \sum_t n_t w_t$$

    The table keeps $y$ and $n_t$ of 16 calls. Records of keys that are not in the table are counted
    in their sum. `PooledByCall` estimates the costs of keys from them. This table itself gives
    each record of a call the same share, and estimates as `SpaceSaving` does.

    Args:
        capacity: number of entries, 1 to 65,535; 92 bytes each.
        seed: seed of the hash function of the table's index; it changes no estimate.
        spread: whether to keep how much the costs of a key differ, in 4 more bytes an entry.

    Example:
        >>> model = ByCall(capacity=4)
        >>> model.add_call([7, 7, 8], 9.0)
        >>> model.estimate([7, 8]), model.calls[0][0, :2].tolist(), model.calls[1][0].tolist()
        (array([3., 3.]), [2.0, 1.0], [3.0, 9.0])
    """

    name = "by_call"

    def add_call(self, keys: npt.ArrayLike, cost_ms: float) -> None:
        """Learn from one call.

        Args:
            keys: keys of its records.
            cost_ms: cost of all of them together.
        """
        array = int64_keys("keys", keys)
        cost = at_least_zero("cost_ms", cost_ms)
        if not np.isfinite(cost):
            raise PenstockError(f"cost_ms must be finite; got {cost_ms!r}")
        if array.size:
            step = -(-array.size // _SAMPLE)
            row = int(self._next[0]) % ROWS
            _add(self.table, self.calls, row, array, array[::step].copy(), cost)
            self._next[0] += 1

    def merge(self, other: SpaceSaving, scale: float = 1.0) -> None:
        """Learn the entries and calls of another table, with its costs multiplied by `scale`."""
        if not isinstance(other, SpaceSaving):
            raise PenstockError(f"only a SpaceSaving can be merged; got {other!r}")
        factor, theirs = positive("scale", scale), calls_of(other)
        columns = np.empty(len(other), dtype=np.int64)
        merge(self.table, other.table, factor, self.calls[0], columns)
        for number in np.flatnonzero(theirs[1][:, RECORDS]).tolist():
            row = int(self._next[0]) % ROWS
            _join(self.calls, row, theirs, number, columns, factor)
            self._next[0] += 1

    def clear(self) -> None:
        """Empty the table, and forget all calls."""
        super().clear()
        counts = np.zeros((ROWS, self.capacity), dtype=np.float32)
        self.calls: Calls = (counts, np.zeros((ROWS, 2)))
        self._next = np.zeros(1, dtype=np.int64)

    def _state(self) -> Arrays:
        counts, numbers = self.calls
        return {**super()._state(), "counts": counts, "numbers": numbers, "next": self._next}


def calls_of(table: SpaceSaving) -> Calls:
    """Return the calls of a table; none if it has measured single records."""
    if isinstance(table, ByCall):
        return table.calls
    return np.zeros((0, table.capacity), dtype=np.float32), np.zeros((0, 2))


@kernel
def find(table: Table, other: Table, out: Int64) -> None:
    """Find the entries of this table that have the keys of another one; -1 for none."""
    entries, index, _, coefficients, _ = table
    theirs, _, _, _, _ = other
    for i in range(out.size):
        out[i] = np.int64(index[slot_of(theirs[i].key, entries, index, coefficients)]) - 1


@kernel
def merge(table: Table, other: Table, scale: float, kept: Float32, columns: Int64) -> None:
    """Learn the entries of another table, with its costs multiplied by `scale`.

    Args:
        table: table that learns.
        other: the other table.
        scale: factor of its costs.
        kept: numbers that belong to entries, in columns; those of a new key become 0.
        columns: entry of each of the other's keys afterwards, or -1; filled in.
    """
    entries, index, totals, coefficients, _ = table
    theirs, _, gained, _, _ = other
    for i in range(int(gained[SIZE])):
        known = index[slot_of(theirs[i].key, entries, index, coefficients)]
        heavy_hitters.learn_entry(table, other, i, scale)
        if not known:
            kept[:, index[slot_of(theirs[i].key, entries, index, coefficients)] - 1] = 0
    heavy_hitters.gain(totals, gained, scale)
    find(table, other, columns)


@kernel
def _add(table: Table, calls: Calls, row: int, keys: Int64, sample: Int64, cost_ms: float) -> None:
    """Add a call to a row, and teach the table equal shares of its cost."""
    entries, index, totals, coefficients, squares = table
    counts, numbers = calls
    share_ms = cost_ms / keys.size
    for key in sample:
        known = index[slot_of(key, entries, index, coefficients)]
        heavy_hitters.learn(key, 1.0, share_ms, 0.0, entries, index, totals, coefficients, squares)
        if not known:
            counts[:, index[slot_of(key, entries, index, coefficients)] - 1] = 0
    for key in keys:
        found = index[slot_of(key, entries, index, coefficients)]
        if found:
            counts[row, found - 1] += 1
    numbers[row, RECORDS] += keys.size
    numbers[row, MS] += cost_ms


@kernel
def _join(calls: Calls, row: int, others: Calls, number: int, columns: Int64, scale: float) -> None:
    """Add a call of another table to a row; `columns` has the entries of the other's keys."""
    counts, numbers = calls
    theirs, their_numbers = others
    for i in range(columns.size):
        if columns[i] >= 0:
            counts[row, columns[i]] += theirs[number, i]
    numbers[row, RECORDS] += their_numbers[number, RECORDS]
    numbers[row, MS] += their_numbers[number, MS] * scale
