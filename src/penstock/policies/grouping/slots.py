r"""A sequence of bins for every key, which barely changes with the number of bins.

A key is scrambled into two halves $a$ and $b$ of 32 bits, $b$ made odd; its $i$-th choice is the
bin that owns the slot of $(a + i b) \bmod 2^{32}$, named by the highest bits (double hashing: as
good as independent hashing, Mitzenmacher 2014). Slots are shared out evenly: a new bin takes the
same number from each of the others, and returns them when it is removed. So one more bin changes
a choice with probability $1 / (k + 1)$, the minimum of a balanced scheme.

References:
    M. Mitzenmacher, "Balanced allocations and double hashing", SPAA 2014.
    D. Karger et al., "Consistent hashing and random trees", STOC 1997.
"""

from functools import lru_cache

import numpy as np

from penstock.policies.hashing import mix
from penstock.policies.kernels import Int32, Int64, UInt32, kernel

_SLOTS = 1_024
# Least number of slots per bin: first choices differ by 3% at most, and the table stays small.
_PER_BIN = 32


@lru_cache(maxsize=64)
def owners(bins: int) -> Int32:
    """Return the bin that owns each slot; the number of slots is a power of two."""
    slots = _SLOTS
    while slots < _PER_BIN * bins:
        slots *= 2
    owner = np.zeros(slots, dtype=np.int32)
    _share_out(bins, np.zeros(bins, dtype=np.int64), np.empty(slots, dtype=np.int64), owner)
    return owner


@kernel
def _share_out(bins: int, counts: Int64, following: Int64, owner: Int32) -> None:
    """Add bins one by one; each takes the slots of all others that are above its share.

    The slots of a bin are a linked list: `first`, then `following`. Slots are doubled when there
    are too few.
    """
    first = np.full(bins, -1)
    size = _SLOTS
    for slot in range(size):
        following[slot], first[0] = first[0], slot
    counts[0] = size
    for newcomer in range(1, bins):
        if size < _PER_BIN * (newcomer + 1):
            size *= 2
            _double(newcomer, counts, first, following)
        share, left = size // (newcomer + 1), size % (newcomer + 1)
        for other in range(newcomer):
            keeps = share
            if counts[other] > share and left > 0:
                keeps += 1
                left -= 1
            while counts[other] > keeps:
                slot = first[other]
                first[other] = following[slot]
                following[slot], first[newcomer] = first[newcomer], slot
                counts[other] -= 1
                counts[newcomer] += 1
    for bin_ in range(bins):
        slot = first[bin_]
        while slot >= 0:
            owner[slot] = bin_
            slot = following[slot]


@kernel
def _double(bins: int, counts: Int64, first: Int64, following: Int64) -> None:
    """Cut every slot into two slots of the same bin."""
    before = following.copy()
    for bin_ in range(bins):
        slot, first[bin_] = first[bin_], -1
        while slot >= 0:
            for half in (2 * slot, 2 * slot + 1):
                following[half], first[bin_] = first[bin_], half
            slot = before[slot]
        counts[bin_] *= 2


@kernel
def start_and_step(key: np.int64, salt: np.uint64) -> tuple[np.uint32, np.uint32]:
    """Return the first choice of a key, and the step to the next choice."""
    mixed = mix(key, salt)
    return np.uint32(mixed >> np.uint64(32)), np.uint32(mixed) | np.uint32(1)


@kernel
def first_choices(
    keys: Int64, salt: np.uint64, owner: Int32, starts: UInt32, steps: UInt32, out: Int32
) -> None:
    """Make the first choice of every key, in a loop without loads, which runs at full speed."""
    shift = shift_of(owner)
    for i in range(keys.size):
        starts[i], steps[i] = start_and_step(keys[i], salt)
        out[i] = owner[starts[i] >> shift]


@kernel
def shift_of(owner: Int32) -> np.uint32:
    """Return the number of bits by which a choice is shifted to get its slot."""
    shift = 32
    slots = owner.size
    while slots > 1:
        slots >>= 1
        shift -= 1
    return np.uint32(shift)


def salt_of(seed: int) -> np.uint64:
    """Return the salt that is drawn with a seed."""
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, dtype=np.uint64)
