"""Consistent hashing with bounded loads."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from penstock.policies.grouping.loads import TOTAL, LoadCounting
from penstock.policies.grouping.slots import salt_of
from penstock.policies.hashing import mix
from penstock.policies.kernels import Int32, Int64, UInt32, kernel
from penstock.policies.validation import positive, whole

# Number of highest bits of a position that name its arc of the ring.
_ARCS = 12
_SHIFT = np.uint32(32 - _ARCS)
# Largest number of positions on a ring; they are drawn and sorted in a second.
_MOST_POSITIONS = 4_000_000


class Ring(NamedTuple):
    """A ring of bins.

    Attributes:
        positions: positions of the bins on the ring, in increasing order.
        owner: bin at each position.
        begins: number of the first position in each arc of the ring.
        salt: salt that draws the positions of keys.
    """

    positions: UInt32
    owner: Int32
    begins: Int32
    salt: np.uint64


class BoundedHash(LoadCounting):
    r"""Consistent hashing with bounded loads (CH): clockwise to the first bin that has room.

    Bins and keys have positions on a ring. A record goes to the first bin clockwise of its key
    whose load is below $(1 + \epsilon) m_t / n$. The imbalance has the same bound as with PoRC. But
    records that find a bin full go to the next one, which then overflows, too: keys spread further.

    Args:
        instances: number of parallel instances (bins) n, >= 1.
        epsilon: part of the mean load by which a bin may be above it, > 0.
        points: number of positions of each bin; more of them give more equal shares of the ring.
            A ring has at most 4 million of them.
        half_life: records per bin after which a load counts half; None for lifetime counts.
        seed: seed that positions are drawn with.

    Example:
        >>> BoundedHash(instances=4).route([7] * 100).tolist().count(2)
        25

    References:
        V. Mirrokni, M. Thorup and M. Zadimoghaddam, "Consistent hashing with bounded loads",
        arXiv:1608.01350; Consistent Grouping (Nasir et al., 2016), section III-C.
    """

    name = "bounded_hash"

    def __init__(
        self,
        instances: int,
        epsilon: float = 0.01,
        points: int = 1,
        half_life: int | None = 1_000,
        seed: int = 0,
    ) -> None:
        super().__init__(instances, half_life, seed)
        self.epsilon = positive("epsilon", epsilon)
        self.points = whole("points", points, least=1, most=_MOST_POSITIONS // self.instances)

    def resize(self, instances: int) -> None:
        """Keep the positions of all instances that stay."""
        whole("instances", instances, least=1, most=_MOST_POSITIONS // self.points)
        super().resize(instances)

    def _choose(self, keys: Int64, out: Int32, arriving: int) -> None:
        """Walk the ring for every key."""
        ring = _ring(self.instances, self.points, self.seed)
        _choose(
            keys,
            arriving,
            # The same decisions with numbers that kernels can count to: no bin is ever full.
            min(self.epsilon, 2.0 * self.instances),
            ring.positions,
            ring.owner,
            ring.begins,
            ring.salt,
            self._loads,
            self._counted,
            out,
        )


@lru_cache(maxsize=64)
def _ring(bins: int, points: int, seed: int) -> Ring:
    salt = salt_of(seed)
    # Positions of bins differ from those of the keys 0, 1, 2...
    bin_salt = salt ^ np.uint64(2**63)
    positions = np.empty(bins * points, dtype=np.uint32)
    _draw(bin_salt, positions)
    order = np.argsort(positions, kind="stable")
    positions = positions[order]
    arcs = np.arange(2**_ARCS, dtype=np.uint32) << _SHIFT
    return Ring(
        positions=positions,
        owner=(order // points).astype(np.int32),
        begins=np.searchsorted(positions, arcs).astype(np.int32),
        salt=salt,
    )


@kernel
def _draw(salt: np.uint64, positions: UInt32) -> None:
    for i in range(positions.size):
        positions[i] = mix(np.int64(i), salt) >> np.uint64(32)


@kernel
def _choose(
    keys: Int64,
    arriving: int,
    epsilon: float,
    positions: UInt32,
    owner: Int32,
    begins: Int32,
    salt: np.uint64,
    loads: Int64,
    counted: Int64,
    out: Int32,
) -> None:
    """Walk the ring for every key.

    The arrays of the ring are arguments of their own. A tuple costs a call about a microsecond, and
    the simulator routes a few records at a time.
    """
    room = (1 + epsilon) / loads.size
    total = counted[TOTAL]
    for i in range(keys.size):
        total += arriving
        full = np.int64(np.ceil(room * total))
        position = np.uint32(mix(keys[i], salt) >> np.uint64(32))
        at = begins[position >> _SHIFT]
        while at < positions.size and positions[at] < position:
            at += 1
        at = at if at < positions.size else 0
        while loads[owner[at]] >= full:
            at = at + 1 if at + 1 < positions.size else 0
        loads[owner[at]] += 1
        out[i] = owner[at]
    counted[TOTAL] = total
