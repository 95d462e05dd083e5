"""Kernels of the Space-Saving table: entries, an index by key, a heap by count.

Entries never move. `index` is a hash table with linear probing from a key to the number of its
entry plus 1 (0 is an empty slot);
`heap` (kept inside the entries) is a binary heap of entries with the smallest count first, and
`place` says where in the heap an entry is. All three take 28 bytes an entry. The heap is only
kept once the table is full: before that nothing is evicted.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.policies.hashing import hash_one
from penstock.policies.kernels import Float64, Int64, UInt16, UInt64, kernel

MAX_CAPACITY = 65_535

# Names of the totals.
SIZE, RECORDS, REST_MS, REST_MS2, REST, EVICTED, WITHIN_MS2, WITHIN, TOTALS = range(9)

# Records after which a key is believed at the latest, however little keys explain.
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
Table = tuple[Entries, UInt16, Float64, UInt64]


@kernel
def _slot(key: np.int64, entries: Entries, index: UInt16, coefficients: UInt64) -> int:
    """Where the index holds the key, or the empty slot where it belongs."""
    slot = int(hash_one(key, coefficients, index.size))
    while index[slot] and entries[index[slot] - 1].key != key:
        slot += 1
        if slot == index.size:
            slot = 0
    return slot


@kernel
def _unlink(slot: int, entries: Entries, index: UInt16, coefficients: UInt64) -> None:
    """Empty a slot of the index and close the gap that later keys have probed over."""
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
        # Two means of the same key tell how much the costs of one key differ.
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
def update(
    keys: Int64,
    costs_ms: Float64,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
) -> None:
    """Learn from records one by one."""
    for i in range(keys.size):
        _learn(keys[i], 1.0, costs_ms[i], entries, index, totals, coefficients)


@kernel
def mean_of_rest(totals: Float64) -> float:
    """Mean cost of records that met a table without their key; 0 before the first one."""
    return totals[REST_MS] / totals[REST] if totals[REST] > 0 else 0.0


@kernel
def variance_of_rest(totals: Float64) -> float:
    """Variance (ms^2) of the costs of different keys."""
    if totals[REST] == 0:
        return 0.0
    variance: float = totals[REST_MS2] / totals[REST] - mean_of_rest(totals) ** 2
    return max(variance, 0.0)


@kernel
def variance_within(totals: Float64, pairs: float) -> float:
    """Variance (ms^2) of the costs of one key.

    As long as there is little to compare it is taken to be that of different keys, with the
    weight of as many `pairs`.
    """
    total = totals[WITHIN_MS2] + pairs * variance_of_rest(totals)
    count = totals[WITHIN] + pairs
    return total / count if count > 0 else 0.0


@kernel
def doubt(totals: Float64) -> float:
    """Records of a key after which half of what it seems to cost is believed."""
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
    """Mean cost of a key, drawn towards that of the rest if there is reason to doubt it."""
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
def estimate(
    keys: Int64,
    out: Float64,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
) -> None:
    """Estimate every key: its mean, or the mean of the rest."""
    rest_ms = mean_of_rest(totals)
    doubted = doubt(totals)
    for i in range(keys.size):
        out[i] = estimate_one(keys[i], rest_ms, doubted, entries, index, coefficients)


@kernel
def merge(
    other_entries: Entries,
    other_totals: Float64,
    scale: float,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
) -> None:
    """Learn the entries of another table; of what it has evicted only the number is known."""
    for i in range(int(other_totals[SIZE])):
        other = other_entries[i]
        _learn(other.key, other.hits, other.mean_ms * scale, entries, index, totals, coefficients)
    totals[RECORDS] += other_totals[EVICTED]
    totals[WITHIN_MS2] += other_totals[WITHIN_MS2] * scale * scale
    totals[WITHIN] += other_totals[WITHIN]


@kernel
def compare(
    other_entries: Entries,
    other_totals: Float64,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
) -> tuple[float, float]:
    """Total cost of the other's records of keys known here: as measured there, as known here."""
    theirs = 0.0
    ours = 0.0
    for i in range(int(other_totals[SIZE])):
        other = other_entries[i]
        found = index[_slot(other.key, entries, index, coefficients)]
        if found:
            theirs += other.hits * other.mean_ms
            ours += other.hits * entries[found - 1].mean_ms
    return theirs, ours


@kernel
def age(entries: Entries, totals: Float64, factor: float, scale: float) -> None:
    """Multiply all weights by `factor` and all costs by `scale`."""
    for i in range(int(totals[SIZE])):
        entries[i].count *= factor
        entries[i].hits *= factor
        entries[i].mean_ms *= scale
    totals[RECORDS] *= factor
    # The mean of the rest is needed however old it is: it does not fade to nothing.
    rest = factor if totals[REST] * factor > LEAST_REST else 1.0
    totals[REST_MS] *= rest * scale
    totals[REST_MS2] *= rest * scale * scale
    totals[REST] *= rest
    totals[WITHIN_MS2] *= factor * scale * scale
    totals[WITHIN] *= factor
    totals[EVICTED] *= factor
