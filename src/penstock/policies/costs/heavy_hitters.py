"""Kernels of the Space-Saving table: entries, an index by key, a heap by count.

Entries never move. The index is a hash table with linear probing. The heap is a binary heap of
entries with the smallest count first; it is kept inside the entries: `heap` is the entry at a place
of the heap, and `place` is the place of an entry in the heap. All three take 28 bytes an entry.
The heap is kept only once the table is full, because before that nothing is evicted.

A table may also keep how much the costs of each key differ (`squares`), in 4 more bytes an entry.

Kernels that Python calls take a `Table`. The inner kernels run for each record, and take its
arrays: Numba counts a reference for each array that it takes out of a tuple, which costs 15%.
"""

import numpy as np

from penstock.policies.costs.entries import Entries, heapify, sift_down
from penstock.policies.costs.totals import (
    EVICTED,
    RECORDS,
    RELATIVE,
    RELATIVE2,
    REST,
    REST_MS,
    REST_MS2,
    SIZE,
    TOTALS,
    WITHIN,
    WITHIN_MS2,
    doubt,
    mean_of_rest,
    typical_spread,
    variance_of_rest,
)
from penstock.policies.hashing import hash_one
from penstock.policies.kernels import Float32, Float64, Int64, UInt16, UInt64, kernel

MAX_CAPACITY = 65_535

LEAST_REST = 1e-9
# Records of a key whose own spread weighs as much as the spread of all keys.
TYPICAL_SPREAD = 4.0
# Records of a key from which on its mean shows the speed of an instance.
LEAST_KNOWN = 4.0

# Arrays of one table, which kernels change in place:
#   entries: key, count, hits and mean cost of each entry, and the heap (dtype `ENTRY`); the first
#       `totals[SIZE]` entries are in use,
#   index: number of the entry of a key plus 1, at the key's slot; 0 is an empty slot,
#   totals: sums over all records, by the names `SIZE` to `WITHIN`, or to `RELATIVE`,
#   coefficients: hash function of the index,
#   squares: sum of squared differences (ms^2) of the costs of each entry's key from their mean; of
#       length 0 if they are not kept.
# It is a plain tuple, because Numba needs 0.7 us longer to receive a `NamedTuple`. The simulator
# calls these kernels every few records, and would lose a tenth of its speed.
Table = tuple[Entries, UInt16, Float64, UInt64, Float32]


@kernel
def slot_of(key: np.int64, entries: Entries, index: UInt16, coefficients: UInt64) -> int:
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
def _evict(
    entry: int, entries: Entries, index: UInt16, totals: Float64, coefficients: UInt64
) -> None:
    """Take a key out of the table; its entry keeps the count for the next key."""
    evicted = entries[entry]
    totals[EVICTED] += evicted.hits
    slot = slot_of(evicted.key, entries, index, coefficients)
    _unlink(slot, entries, index, coefficients)


@kernel
def learn(
    key: np.int64,
    hits: float,
    mean_ms: float,
    squares_ms2: float,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
    squares: Float32,
) -> None:
    """Add `hits` records of a key, of `mean_ms` each.

    `squares_ms2` is the sum of their squared differences from that mean.
    """
    totals[RECORDS] += hits
    full = totals[SIZE] == entries.size
    slot = slot_of(key, entries, index, coefficients)
    if index[slot]:
        found = entries[index[slot] - 1]
        # Two means of the same key show how much the costs of one key differ.
        difference = mean_ms - found.mean_ms
        apart_ms2 = difference * difference * hits * found.hits / (hits + found.hits)
        totals[WITHIN_MS2] += apart_ms2
        totals[WITHIN] += 1
        found.count += hits
        found.hits += hits
        found.mean_ms += difference * hits / found.hits
        if squares.size:
            squares[index[slot] - 1] += squares_ms2 + apart_ms2
            if found.mean_ms**2 > 0:  # the square of a tiny mean is 0
                totals[RELATIVE2] += apart_ms2 / found.mean_ms**2
                totals[RELATIVE] += 1
        if full:
            sift_down(entries, found.place)
        return
    totals[REST_MS] += mean_ms
    totals[REST_MS2] += mean_ms * mean_ms
    totals[REST] += 1
    if full:
        entry = int(entries[0].heap)
        _evict(entry, entries, index, totals, coefficients)
        slot = slot_of(key, entries, index, coefficients)
    else:
        entry = int(totals[SIZE])
        totals[SIZE] += 1
        entries[entry].count = 0
    fresh = entries[entry]
    fresh.key = key
    fresh.count += hits
    fresh.hits = hits
    fresh.mean_ms = mean_ms
    if squares.size:
        squares[entry] = squares_ms2
    index[slot] = entry + 1
    if full:
        sift_down(entries, 0)
    elif totals[SIZE] == entries.size:
        heapify(entries)


@kernel
def update(table: Table, keys: Int64, costs_ms: Float64) -> None:
    """Learn from records one by one."""
    entries, index, totals, coefficients, squares = table
    for i in range(keys.size):
        learn(keys[i], 1.0, costs_ms[i], 0.0, entries, index, totals, coefficients, squares)


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
    found = index[slot_of(key, entries, index, coefficients)]
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
    entries, index, totals, coefficients, _ = table
    rest_ms = mean_of_rest(totals)
    doubted = doubt(totals)
    for i in range(keys.size):
        out[i] = estimate_one(keys[i], rest_ms, doubted, entries, index, coefficients)


@kernel
def spread(table: Table, keys: Int64, out: Float64) -> None:
    """Return how far the cost of a record may be from the estimate (standard deviation, ms).

    The spread of a key with few records is drawn towards that of all keys, relative to the mean.
    Records of unknown keys differ as the rest does.
    """
    entries, index, totals, coefficients, squares = table
    rest_ms = np.sqrt(variance_of_rest(totals))
    typical = typical_spread(totals)
    for i in range(keys.size):
        found = index[slot_of(keys[i], entries, index, coefficients)]
        if not found:
            out[i] = rest_ms
            continue
        known = entries[found - 1]
        own = max(known.hits - 1.0, 0.0)
        total_ms2 = squares[found - 1] + TYPICAL_SPREAD * typical * known.mean_ms**2
        variance_ms2 = total_ms2 / (own + TYPICAL_SPREAD)
        # The mean of few records is uncertain itself.
        out[i] = np.sqrt(variance_ms2 * (1 + 1 / max(known.hits, 1.0)))


@kernel
def merge(table: Table, other: Table, scale: float) -> None:
    """Learn the entries of another table, with its costs multiplied by `scale`.

    Only the number of its evicted records is known.
    """
    _, _, totals, _, _ = table
    _, _, gained, _, _ = other
    for i in range(int(gained[SIZE])):
        learn_entry(table, other, i, scale)
    gain(totals, gained, scale)


@kernel
def learn_entry(table: Table, other: Table, entry: int, scale: float) -> None:
    """Learn one entry of another table, with its costs multiplied by `scale`."""
    entries, index, totals, coefficients, squares = table
    measured, _, _, _, apart = other
    one = measured[entry]
    apart_ms2 = apart[entry] * scale * scale if apart.size else 0.0
    learn(
        one.key,
        one.hits,
        one.mean_ms * scale,
        apart_ms2,
        entries,
        index,
        totals,
        coefficients,
        squares,
    )


@kernel
def gain(totals: Float64, gained: Float64, scale: float) -> None:
    """Add the totals of another table that its entries do not show, with costs times `scale`."""
    totals[RECORDS] += gained[EVICTED]
    totals[WITHIN_MS2] += gained[WITHIN_MS2] * scale * scale
    totals[WITHIN] += gained[WITHIN]
    if totals.size > TOTALS and gained.size > TOTALS:
        totals[RELATIVE2] += gained[RELATIVE2]
        totals[RELATIVE] += gained[RELATIVE]


@kernel
def compare(table: Table, other: Table) -> tuple[float, float]:
    """Return the total cost of the other table's records whose keys are in both tables.

    The first total is by the other table's means, the second one by the means of this table.
    """
    entries, index, _, coefficients, _ = table
    measured, _, gained, _, _ = other
    theirs = 0.0
    ours = 0.0
    for i in range(int(gained[SIZE])):
        one = measured[i]
        found = index[slot_of(one.key, entries, index, coefficients)]
        if found:
            theirs += one.hits * one.mean_ms
            ours += one.hits * entries[found - 1].mean_ms
    return theirs, ours


@kernel
def relative(table: Table, other: Table) -> tuple[float, float]:
    """Return the mean ratio of the other table's costs to those of this table, and its weight.

    The weight is the number of records that would show as much if the costs of this table were
    exact. Keys that this table hardly knows are left out. Both are 0 if no key is left.
    """
    entries, index, _, coefficients, _ = table
    measured, _, gained, _, _ = other
    total = 0.0
    weight = 0.0
    for i in range(int(gained[SIZE])):
        one = measured[i]
        found = index[slot_of(one.key, entries, index, coefficients)]
        if found and entries[found - 1].hits >= LEAST_KNOWN and entries[found - 1].mean_ms > 0:
            known = entries[found - 1]
            own = one.hits / (1 + one.hits / known.hits)
            total += own * one.mean_ms / known.mean_ms
            weight += own
    return (total / weight, weight) if weight > 0 else (0.0, 0.0)


@kernel
def age(table: Table, factor: float, scale: float) -> None:
    """Multiply all weights by `factor` and all costs by `scale`."""
    entries, _, totals, _, squares = table
    for i in range(int(totals[SIZE])):
        entries[i].count *= factor
        entries[i].hits *= factor
        entries[i].mean_ms *= scale
        if squares.size:
            squares[i] *= factor * scale * scale
    totals[RECORDS] *= factor
    # The mean of the rest is needed at any age, so its weight does not fade to nothing.
    rest = factor if totals[REST] * factor > LEAST_REST else 1.0
    totals[REST_MS] *= rest * scale
    totals[REST_MS2] *= rest * scale * scale
    totals[REST] *= rest
    totals[WITHIN_MS2] *= factor * scale * scale
    totals[WITHIN] *= factor
    totals[EVICTED] *= factor
    if squares.size:
        totals[RELATIVE2] *= factor
        totals[RELATIVE] *= factor
