r"""Seeded 2-universal hashing of 64-bit keys into any range, the same on every machine.

A key is cut into halves of 32 bits and hashed by pair-multiply-shift, modulo $2^{64}$:

$$h(x) = \left((a_0 + x_{high}) (a_1 + x_{low}) + b\right) \div 2^{32}$$

which is strongly universal into 32 bits; the result is scaled to the range by
$\lfloor h(x) \cdot width / 2^{32} \rfloor$. Two different keys collide with probability at most
$1 / width + 2^{-32}$ over the choice of $(a_0, a_1, b)$. No modulo by a prime, no float.

Example:
    >>> family = HashFamily(rows=2, width=55, seed=7)
    >>> family.hash(np.array([1, 2, 3])).shape
    (2, 3)

References:
    M. Thorup, "High Speed Hashing for Integers and Strings", 2015 (arXiv:1504.06804), section 3.
    J. L. Carter and M. N. Wegman, "Universal classes of hash functions", 1979.
"""

import numpy as np
import numpy.typing as npt

from penstock.policies.kernels import Int32, Int64, UInt64, kernel
from penstock.policies.validation import int64_keys, whole

MAX_WIDTH = 2**31 - 1


class HashFamily:
    """Independent hash functions, one for each row, drawn from the universal family by a seed.

    Args:
        rows: number of functions, >= 1.
        width: number of different results, 0 to width - 1; 1 <= width < 2**31.
        seed: seed that the functions are drawn with.
    """

    def __init__(self, rows: int, width: int, seed: int = 0) -> None:
        self.rows = whole("rows", rows, least=1)
        self.width = whole("width", width, least=1, most=MAX_WIDTH)
        self.seed = whole("seed", seed, least=0)
        # PCG64 and `integers` over full 64-bit words return the same numbers on every platform.
        generator = np.random.Generator(np.random.PCG64(self.seed))
        self.coefficients: UInt64 = generator.integers(
            0, 2**64, size=(self.rows, 3), dtype=np.uint64
        )

    def hash(self, keys: npt.ArrayLike) -> Int32:
        """Hash keys by every row; return an array of shape (rows, len(keys))."""
        array = int64_keys("keys", keys)
        out = np.empty((self.rows, array.size), dtype=np.int32)
        for row in range(self.rows):
            hash_into(array, self.coefficients[row], self.width, out[row])
        return out


def word_of(seed: int) -> np.uint64:
    """Return the lowest 64 bits of a seed."""
    return np.uint64(seed % 2**64)


@kernel
def hash_one(key: np.int64, coefficients: UInt64, width: int) -> np.int64:
    """Hash one key; for use inside other kernels."""
    bits = np.uint64(key)
    high = bits >> np.uint64(32)
    low = bits & np.uint64(0xFFFFFFFF)
    mixed = (coefficients[0] + high) * (coefficients[1] + low) + coefficients[2]
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))


@kernel
def hash_into(keys: Int64, coefficients: UInt64, width: int, out: Int32) -> None:
    """Hash every key into `out`."""
    for i in range(keys.size):
        out[i] = hash_one(keys[i], coefficients, width)


@kernel
def mix(key: np.int64, salt: np.uint64) -> np.uint64:
    """Scramble a key into 64 bits (the finaliser of SplitMix64): quick, and random in every bit.

    It is not universal, but one computation yields two halves that look independent.

    References:
        G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
        OOPSLA 2014.
    """
    bits = np.uint64(key) ^ salt
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
