r"""Where a key may go: a sequence of bins for every key, which barely changes with their number.

A key is scrambled into two halves $a$ and $b$ of 32 bits, $b$ made odd; its $i$-th choice is the
bin that owns the slot of $(a + i b) \bmod 2^{32}$, named by the highest bits (double hashing: as
good as independent hashing, Mitzenmacher 2014). Slots are shared out evenly: a new bin takes the
same number from each of the others, and gives them back when it is removed. So one bin more
changes a choice with probability $1 / (k + 1)$, the least that a balanced scheme allows.

References:
    M. Mitzenmacher, "Balanced allocations and double hashing", SPAA 2014.
    D. Karger et al., "Consistent hashing and random trees", STOC 1997.
"""

from functools import lru_cache

import numpy as np

from penstock.policies.hashing import mix
from penstock.policies.kernels import Int32, Int64, UInt32, kernel

_SLOTS = 1_024
# So many slots a bin at least: first choices differ by 3% at most, and the table stays small.
_PER_BIN = 32


@lru_cache(maxsize=64)
def owners(bins: int) -> Int32:
    """Return which bin owns each slot: a power of two of them, the same for the same `bins`."""
    owner = np.zeros(_SLOTS, dtype=np.int32)
    for newcomer in range(1, bins):
        if owner.size < _PER_BIN * (newcomer + 1):
            owner = np.repeat(owner, 2)
        _welcome(newcomer, owner)
    return owner


@kernel
def _welcome(newcomer: int, owner: Int32) -> None:
    """Let a new bin take its share: from each of the others what it has above its own."""
    share, left = owner.size // (newcomer + 1), owner.size % (newcomer + 1)
    kept = np.zeros(newcomer, dtype=np.int64)
    for slot in range(owner.size):
        bin_ = owner[slot]
        if kept[bin_] < share:
            kept[bin_] += 1
        elif kept[bin_] == share and left > 0:
            kept[bin_] += 1
            left -= 1
        else:
            owner[slot] = newcomer


@kernel
def start_and_step(key: np.int64, salt: np.uint64) -> tuple[np.uint32, np.uint32]:
    """Return the first choice of a key, and what leads to the next one."""
    mixed = mix(key, salt)
    return np.uint32(mixed >> np.uint64(32)), np.uint32(mixed) | np.uint32(1)


@kernel
def first_choices(
    keys: Int64, salt: np.uint64, owner: Int32, starts: UInt32, steps: UInt32, out: Int32
) -> None:
    """Make the first choice of every key: apart from what depends on loads, to go at full speed."""
    shift = shift_of(owner)
    for i in range(keys.size):
        starts[i], steps[i] = start_and_step(keys[i], salt)
        out[i] = owner[starts[i] >> shift]


@kernel
def shift_of(owner: Int32) -> np.uint32:
    """How far a choice is shifted to name its slot."""
    shift = 32
    slots = owner.size
    while slots > 1:
        slots >>= 1
        shift -= 1
    return np.uint32(shift)


def salt_of(seed: int) -> np.uint64:
    """Return the salt that a seed stands for."""
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, dtype=np.uint64)
