"""The entries of a Space-Saving table, and the heap inside of them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.policies.kernels import kernel

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


@kernel
def _put(entries: Entries, place: int, entry: int) -> None:
    entries[place].heap = entry
    entries[entry].place = place


@kernel
def sift_down(entries: Entries, place: int) -> None:
    """Move the entry at a place of the heap down, until no smaller count is below it."""
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
def heapify(entries: Entries) -> None:
    """Make a heap of all entries."""
    for entry in range(entries.size):
        _put(entries, entry, entry)
    for place in range(entries.size // 2 - 1, -1, -1):
        sift_down(entries, place)
