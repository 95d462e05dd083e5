"""The input of a placer: workers, key groups, and the traffic between key groups."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.validation import float64s, int64s, non_negatives, refuse_other

# Largest load of a worker of capacity 1 on any resource, in points.
FULL = 100.0


def _floats() -> Float64:
    return np.empty(0)


def _ints() -> Int64:
    return np.empty(0, dtype=np.int64)


def _bools() -> Bool:
    return np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Traffic:
    """Traffic between key groups: one entry for each pair.

    Attributes:
        source: key group that sends, of each pair.
        target: key group that receives, of each pair.
        volume: volume that is sent, in any unit (records, bytes per second), >= 0.
    """

    source: Int64 = field(default_factory=_ints)
    target: Int64 = field(default_factory=_ints)
    volume: Float64 = field(default_factory=_floats)

    def __post_init__(self) -> None:
        source = int64s("traffic source", self.source)
        target = int64s("traffic target", self.target)
        if source.shape != target.shape:
            raise PenstockError(
                f"traffic target must have shape {source.shape}, like the source; "
                f"got {target.shape}"
            )
        _keep(self, "source", source)
        _keep(self, "target", target)
        _keep(self, "volume", non_negatives("traffic volume", self.volume, source.size))

    def __len__(self) -> int:
        return self.source.size


@dataclass(frozen=True, eq=False)
class Cluster:
    r"""Workers and the key groups that live on them: all that a placer knows.

    Loads are in points: a worker of capacity 1 can carry 100. With several resources, the one with
    the greatest total load is balanced, the bottleneck. On the others, no worker gets more than it
    can carry. With the capacities $c_i$ of the workers $A$ that stay, all loads $l_k$ and the key
    groups $G_i$ of a worker,

    $$mean = \frac{\sum_k l_k}{\sum_{i \in A} c_i}, \qquad
      distance = \max_{i \in A} \left| \frac{\sum_{k \in G_i} l_k}{c_i} - mean \right|$$

    Attributes:
        load: load of each key group in points, >= 0, with a column for each resource if there are
            several. NaN if it is unknown: then nothing is planned.
        placement: present worker of each key group.
        capacity: capacity of each worker, > 0; 1 for a worker on which loads are measured.
        removed: whether each worker is marked for removal; empty if none is.
        operator: operator of each key group; empty if all belong to one.
        migration_cost: migration cost of each key group, >= 0, in any unit (bytes of state, ms of
            pause); empty if it is 1 for all.
        traffic: traffic between key groups.

    Example:
        >>> cluster = Cluster(load=[30, 30, 20], placement=[0, 0, 1], capacity=[1, 1])
        >>> cluster.mean, cluster.distance(cluster.placement)
        (40.0, 20.0)
    """

    load: Float64
    placement: Int64
    capacity: Float64
    removed: Bool = field(default_factory=_bools)
    operator: Int64 = field(default_factory=_ints)
    migration_cost: Float64 = field(default_factory=_floats)
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        capacity = _capacities(self.capacity)
        placement = int64s("placement", self.placement)
        if placement.size and not capacity.size:
            raise PenstockError(
                f"capacity must have a worker for the {placement.size} key groups; got none"
            )
        _refuse_outside("placement", placement, capacity.size, "workers")
        groups = placement.size
        _keep(self, "load", _loads(self.load, groups))
        _keep(self, "placement", placement)
        _keep(self, "capacity", capacity)
        _keep(self, "removed", _flags("removed", self.removed, capacity.size))
        operator = self.operator if np.size(self.operator) else np.zeros(groups, dtype=np.int64)
        _keep(self, "operator", _ids("operator", operator, groups))
        cost = self.migration_cost if np.size(self.migration_cost) else np.ones(groups)
        _keep(self, "migration_cost", non_negatives("migration_cost", cost, groups))
        refuse_other("traffic", self.traffic, Traffic)
        for end in (self.traffic.source, self.traffic.target):
            _refuse_outside("traffic", end, groups, "key groups")

    @property
    def workers(self) -> int:
        """Number of workers, including those to be removed."""
        return self.capacity.size

    @property
    def key_groups(self) -> int:
        """Number of key groups."""
        return self.placement.size

    @cached_property
    def live(self) -> Bool:
        """Whether each worker stays."""
        return ~self.removed

    @cached_property
    def bottleneck(self) -> int:
        """The resource that is balanced: the one with the greatest total load."""
        return int(np.argmax(self.load.sum(axis=0)))

    @cached_property
    def mean(self) -> float:
        """Load that every worker would have, in points per capacity; NaN if no worker stays."""
        capacity = float(self.capacity[self.live].sum())
        return float(self.load[:, self.bottleneck].sum()) / capacity if capacity else float("nan")

    def deviations(self, placement: Int64) -> Float64:
        """Return the deviation of each worker from the mean, in points.

        For workers that are to be removed it is their load.
        """
        load = self.load[:, self.bottleneck]
        carried = np.bincount(placement, weights=load, minlength=self.workers)
        return carried / self.capacity - np.where(self.live, self.mean, 0.0)

    def distance(self, placement: Int64) -> float:
        """Return the load distance of a placement, in points; NaN if no worker stays."""
        if not self.live.any():
            return float("nan")
        return float(np.abs(self.deviations(placement)[self.live]).max())

    def collocation(self, placement: Int64) -> float:
        """Return the share of the traffic that stays on its worker; NaN without traffic."""
        total = float(self.traffic.volume.sum())
        if not total:
            return float("nan")
        ends = placement[self.traffic.source], placement[self.traffic.target]
        return float(self.traffic.volume[ends[0] == ends[1]].sum()) / total

    def undrained(self, placement: Int64) -> int:
        """Return the number of key groups on workers that are to be removed."""
        return int(self.removed[placement].sum())


def _keep(owner: object, name: str, array: npt.NDArray[np.generic]) -> None:
    """Set a field of a frozen value to a read-only copy."""
    own = array.copy()
    own.flags.writeable = False
    object.__setattr__(owner, name, own)


def _loads(values: npt.ArrayLike, groups: int) -> Float64:
    try:
        loads = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise PenstockError(f"load must be numbers; got {values!r}") from None
    loads = loads[:, np.newaxis] if loads.ndim == 1 else loads
    if loads.ndim != 2 or loads.shape[0] != groups or loads.shape[1] < 1:
        raise PenstockError(
            f"load must have one row for each of {groups} key groups; got shape {np.shape(values)}"
        )
    if (loads < 0).any():
        bad = int(np.flatnonzero((loads < 0).any(axis=1))[0])
        raise PenstockError(f"load must be >= 0; got {loads[bad].min():g} at {bad}")
    return loads


def _capacities(values: npt.ArrayLike) -> Float64:
    try:
        count = np.size(values)
    except ValueError:
        raise PenstockError(f"capacity must be numbers; got {values!r}") from None
    capacity = float64s("capacity", values, count)
    bad = np.flatnonzero(~((capacity > 0) & np.isfinite(capacity)))
    if bad.size:
        raise PenstockError(
            f"capacity must be finite and > 0; got {capacity[bad[0]]:g} at {bad[0]}. Mark a worker "
            "without capacity as removed"
        )
    return capacity


def _flags(name: str, values: npt.ArrayLike, length: int) -> Bool:
    try:
        flags = np.asarray(values)
    except ValueError:
        flags = np.empty((0, 0))
    if flags.shape == (0,):
        return np.zeros(length, dtype=np.bool_)
    if flags.shape != (length,) or flags.dtype != np.bool_:
        raise PenstockError(
            f"{name} must be True or False for each of {length} workers; got {values!r}"
        )
    return flags


def _ids(name: str, values: npt.ArrayLike, length: int) -> Int64:
    ids = int64s(name, values)
    if ids.shape != (length,):
        raise PenstockError(f"{name} must have shape ({length},); got {ids.shape}")
    return ids


def _refuse_outside(name: str, ids: Int64, count: int, what: str) -> None:
    bad = np.flatnonzero((ids < 0) | (ids >= count))
    if bad.size:
        raise PenstockError(
            f"{name} must name {what} from 0 to {count - 1}; got {ids[bad[0]]} at {bad[0]}"
        )
