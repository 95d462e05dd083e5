"""Kernels of the Space-Saving table: entries, an index by key, a heap by count.

Entries never move. The index is a hash table with linear probing. The heap is a binary heap of
entries with the smallest count first; it is kept inside the entries: `heap` is the entry at a place
of the heap, and `place` is the place of an entry in the heap. All three take 28 bytes an entry.
The heap is kept only once the table is full, because before that nothing is evicted.

Kernels that Python calls take a `Table`. The inner kernels run for each record, and take its
arrays: Numba counts a reference for each array that it takes out of a tuple, which costs 15%.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.policies.hashing import hash_one
from penstock.policies.kernels import Float64, Int64, UInt16, UInt64, kernel

MAX_CAPACITY = 65_535

# Names of the totals.
SIZE, RECORDS, REST_MS, REST_MS2, REST, EVICTED, WITHIN_MS2, WITHIN, TOTALS = range(9)

# Records after which half of a key's mean is believed at the latest, however little keys explain.
MOST_DOUBT = 100.0
LEAST_REST = 1e-9

ENTRY = np.dtype(
    [
        ("key", np.int64),
        ("count", np.float32),
        ("hits", np.float32),
        ("mean_ms", np.float32),
        ("heap", np.uint16),
        ("place", np.uint16),
    ]
)
Entries = npt.NDArray[Any]


# Arrays of one table, which kernels change in place:
#   entries: key, count, hits and mean cost of each entry, and the heap (dtype `ENTRY`); the first
#       `totals[SIZE]` entries are in use,
#   index: number of the entry of a key plus 1, at the key's slot; 0 is an empty slot,
#   totals: sums over all records, by the names `SIZE` to `WITHIN`,
#   coefficients: hash function of the index.
# It is a plain tuple, because Numba needs 0.7 us longer to receive a `NamedTuple`. The simulator
# calls these kernels every few records, and would lose a tenth of its speed.
Table = tuple[Entries, UInt16, Float64, UInt64]


@kernel
def _slot(key: np.int64, entries: Entries, index: UInt16, coefficients: UInt64) -> int:
    """Return the slot of the index that holds the key, or the empty slot where it belongs."""
    slot = int(hash_one(key, coefficients, index.size))
    while index[slot] and entries[index[slot] - 1].key != key:
        slot += 1
        if slot == index.size:
            slot = 0
    return slot


@kernel
def _unlink(slot: int, entries: Entries, index: UInt16, coefficients: UInt64) -> None:
    """Empty a slot of the index, and close the gap that later keys have probed over."""
    size = index.size
    gap = slot
    slot = (slot + 1) % size
    while index[slot]:
        home = hash_one(entries[index[slot] - 1].key, coefficients, size)
        if (slot - home) % size >= (slot - gap) % size:
            index[gap] = index[slot]
            gap = slot
        slot = (slot + 1) % size
    index[gap] = 0


@kernel
def _put(entries: Entries, place: int, entry: int) -> None:
    entries[place].heap = entry
    entries[entry].place = place


@kernel
def _sift_down(entries: Entries, place: int) -> None:
    size = entries.size
    entry = entries[place].heap
    count = entries[entry].count
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size:
            left, right = entries[child].heap, entries[child + 1].heap
            if entries[right].count < entries[left].count:
                child += 1
        candidate = entries[child].heap
        if entries[candidate].count >= count:
            break
        _put(entries, place, candidate)
        place = child
    _put(entries, place, entry)


@kernel
def _heapify(entries: Entries) -> None:
    for entry in range(entries.size):
        _put(entries, entry, entry)
    for place in range(entries.size // 2 - 1, -1, -1):
        _sift_down(entries, place)


@kernel
def _evict(
    entry: int, entries: Entries, index: UInt16, totals: Float64, coefficients: UInt64
) -> None:
    """Take a key out of the table; its entry keeps the count for the next key."""
    evicted = entries[entry]
    totals[EVICTED] += evicted.hits
    slot = _slot(evicted.key, entries, index, coefficients)
    _unlink(slot, entries, index, coefficients)


@kernel
def _learn(
    key: np.int64,
    hits: float,
    mean_ms: float,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
) -> None:
    """Add `hits` records of a key, of `mean_ms` each."""
    totals[RECORDS] += hits
    full = totals[SIZE] == entries.size
    slot = _slot(key, entries, index, coefficients)
    if index[slot]:
        found = entries[index[slot] - 1]
        # Two means of the same key show how much the costs of one key differ.
        difference = mean_ms - found.mean_ms
        totals[WITHIN_MS2] += difference * difference * hits * found.hits / (hits + found.hits)
        totals[WITHIN] += 1
        found.count += hits
        found.hits += hits
        found.mean_ms += difference * hits / found.hits
        if full:
            _sift_down(entries, found.place)
        return
    totals[REST_MS] += mean_ms
    totals[REST_MS2] += mean_ms * mean_ms
    totals[REST] += 1
    if full:
        entry = int(entries[0].heap)
        _evict(entry, entries, index, totals, coefficients)
        slot = _slot(key, entries, index, coefficients)
    else:
        entry = int(totals[SIZE])
        totals[SIZE] += 1
        entries[entry].count = 0
    fresh = entries[entry]
    fresh.key = key
    fresh.count += hits
    fresh.hits = hits
    fresh.mean_ms = mean_ms
    index[slot] = entry + 1
    if full:
        _sift_down(entries, 0)
    elif totals[SIZE] == entries.size:
        _heapify(entries)


@kernel
def update(table: Table, keys: Int64, costs_ms: Float64) -> None:
    """Learn from records one by one."""
    entries, index, totals, coefficients = table
    for i in range(keys.size):
        _learn(keys[i], 1.0, costs_ms[i], entries, index, totals, coefficients)


@kernel
def mean_of_rest(totals: Float64) -> float:
    """Return the mean cost of records that met a table without their key; 0 before the first."""
    return totals[REST_MS] / totals[REST] if totals[REST] > 0 else 0.0


@kernel
def variance_of_rest(totals: Float64) -> float:
    """Return the variance (ms^2) of the costs of different keys."""
    if totals[REST] == 0:
        return 0.0
    variance: float = totals[REST_MS2] / totals[REST] - mean_of_rest(totals) ** 2
    return max(variance, 0.0)


@kernel
def variance_within(totals: Float64, pairs: float) -> float:
    """Return the variance (ms^2) of the costs of one key.

    While there is little to compare, it is assumed to be the variance of different keys, with the
    weight of `pairs` comparisons.
    """
    total = totals[WITHIN_MS2] + pairs * variance_of_rest(totals)
    count = totals[WITHIN] + pairs
    return total / count if count > 0 else 0.0


@kernel
def doubt(totals: Float64) -> float:
    """Return the number of records of a key after which half of its own mean is believed."""
    within = variance_within(totals, 0.0)
    if within == 0:
        return 0.0
    between = variance_of_rest(totals) - within
    return min(within / between, MOST_DOUBT) if between > 0 else MOST_DOUBT


@kernel
def estimate_one(
    key: np.int64,
    rest_ms: float,
    doubted: float,
    entries: Entries,
    index: UInt16,
    coefficients: UInt64,
) -> float:
    """Return the mean cost of a key, drawn towards that of the rest as far as it is doubted.

    Args:
        key: key of the record.
        rest_ms: result of `mean_of_rest`.
        doubted: result of `doubt`.
        entries: entries of the table.
        index: index of the table.
        coefficients: hash function of the index.
    """
    found = index[_slot(key, entries, index, coefficients)]
    if not found:
        return rest_ms
    known = entries[found - 1]
    if known.hits + doubted == 0:  # faded away, and no reason to doubt it
        mean_ms: float = known.mean_ms
        return mean_ms
    estimate_ms: float = rest_ms + (known.mean_ms - rest_ms) * known.hits / (known.hits + doubted)
    return estimate_ms


@kernel
def estimate(table: Table, keys: Int64, out: Float64) -> None:
    """Estimate every key: its mean, or the mean of the rest."""
    entries, index, totals, coefficients = table
    rest_ms = mean_of_rest(totals)
    doubted = doubt(totals)
    for i in range(keys.size):
        out[i] = estimate_one(keys[i], rest_ms, doubted, entries, index, coefficients)


@kernel
def merge(table: Table, other: Table, scale: float) -> None:
    """Learn the entries of another table, with its costs multiplied by `scale`.

    Only the number of its evicted records is known.
    """
    entries, index, totals, coefficients = table
    measured, _, gained, _ = other
    for i in range(int(gained[SIZE])):
        one = measured[i]
        _learn(one.key, one.hits, one.mean_ms * scale, entries, index, totals, coefficients)
    totals[RECORDS] += gained[EVICTED]
    totals[WITHIN_MS2] += gained[WITHIN_MS2] * scale * scale
    totals[WITHIN] += gained[WITHIN]


@kernel
def compare(table: Table, other: Table) -> tuple[float, float]:
    """Return the total cost of the other table's records whose keys are in both tables.

    The first total is by the other table's means, the second one by the means of this table.
    """
    entries, index, _, coefficients = table
    measured, _, gained, _ = other
    theirs = 0.0
    ours = 0.0
    for i in range(int(gained[SIZE])):
        one = measured[i]
        found = index[_slot(one.key, entries, index, coefficients)]
        if found:
            theirs += one.hits * one.mean_ms
            ours += one.hits * entries[found - 1].mean_ms
    return theirs, ours


@kernel
def age(table: Table, factor: float, scale: float) -> None:
    """Multiply all weights by `factor` and all costs by `scale`."""
    entries, _, totals, _ = table
    for i in range(int(totals[SIZE])):
        entries[i].count *= factor
        entries[i].hits *= factor
        entries[i].mean_ms *= scale
    totals[RECORDS] *= factor
    # The mean of the rest is needed at any age, so its weight does not fade to nothing.
    rest = factor if totals[REST] * factor > LEAST_REST else 1.0
    totals[REST_MS] *= rest * scale
    totals[REST_MS2] *= rest * scale * scale
    totals[REST] *= rest
    totals[WITHIN_MS2] *= factor * scale * scale
    totals[WITHIN] *= factor
    totals[EVICTED] *= factor
