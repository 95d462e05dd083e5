"""What key groups cost and where they live, from the tasks of a query's batches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.policies.allocation import Cluster, Traffic

# A state partition: the number of its operator, and its own.
KeyGroup = tuple[int, int]

# How much of a load is that of the newest batch.
_NEWEST = 0.4
# How much of a difference one move tells about the speeds of two executors.
_TOLD = 0.25
# The logarithm of the largest and of the smallest speed.
_FASTEST = float(np.log(10))


@dataclass(frozen=True)
class Ran:
    """A task of a key group in a batch.

    Attributes:
        group: which one.
        executor: where it ran.
        busy_ms: for how long.
        records: that it has read.
    """

    group: KeyGroup
    executor: str
    busy_ms: float
    records: float = 0.0


@dataclass
class KeyGroups:
    """Follows the loads of key groups, and how fast executors are.

    A key group that has just moved first loads its state: what that takes is not its load. How fast
    an executor is, is learnt whenever a key group moves, from what it takes for a record before and
    after: what changes later may have other reasons.

    Example:
        >>> groups = KeyGroups()
        >>> for _ in range(2):
        ...     groups.add([Ran((0, 0), "1", 300.0), Ran((0, 1), "1", 100.0)], interval_ms=1000.0)
        >>> cluster, executors = groups.cluster({"1": 1, "2": 1})
        >>> executors, cluster.load[:, 0], cluster.placement
        (['1', '2'], array([30., 10.]), array([0, 0]))
    """

    interval_ms: float = float("nan")
    batches: int = 0
    where: dict[KeyGroup, str] = field(default_factory=dict)
    _busy: dict[KeyGroup, "_Busy"] = field(default_factory=dict)
    _log_speed: dict[str, float] = field(default_factory=dict)

    def add(self, ran: Iterable[Ran], interval_ms: float) -> None:
        """Add the tasks of a batch.

        Args:
            ran: its tasks, of all key groups that had any.
            interval_ms: from the beginning of the batch before to that of this one.
        """
        self.interval_ms = _blend(self.interval_ms, interval_ms)
        self.batches += 1
        for one in ran:
            settled = self.where.get(one.group) == one.executor
            self.where[one.group] = one.executor
            if settled:
                self._learn(one)

    def _learn(self, one: Ran) -> None:
        per_record_ms = one.busy_ms / one.records if one.records else float("nan")
        before = self._busy.get(one.group)
        if before is None:
            self._busy[one.group] = _Busy(one.executor, one.busy_ms, per_record_ms)
        elif before.executor == one.executor:
            before.total_ms = _blend(before.total_ms, one.busy_ms)
            before.per_record_ms = _blend(before.per_record_ms, per_record_ms)
        else:
            self._compare(before, one.executor, per_record_ms)
            total_ms = before.total_ms * self.speed(before.executor) / self.speed(one.executor)
            blended = _blend(total_ms, one.busy_ms)
            self._busy[one.group] = _Busy(one.executor, blended, per_record_ms)

    def _compare(self, before: "_Busy", executor: str, per_record_ms: float) -> None:
        """Learn from a key group that has moved how fast two executors are."""
        if not (before.per_record_ms > 0 and per_record_ms > 0):
            return
        faster = float(np.log(before.per_record_ms / per_record_ms))
        old, new = (self._log_speed.get(one, 0.0) for one in (before.executor, executor))
        change = _TOLD * (faster - (new - old))
        for one, speed in ((before.executor, old - change), (executor, new + change)):
            self._log_speed[one] = float(np.clip(speed, -_FASTEST, _FASTEST))

    def speed(self, executor: str) -> float:
        """Return how fast an executor is, compared with the others; 1 if nothing tells."""
        return float(np.exp(self._log_speed.get(executor, 0.0)))

    def cluster(
        self,
        executors: Mapping[str, int],
        marked: frozenset[str] = frozenset(),
        traffic: Mapping[tuple[KeyGroup, KeyGroup], float] | None = None,
        migration_cost: Mapping[KeyGroup, float] | None = None,
    ) -> tuple[Cluster, list[str]]:
        """Return what an allocator is told, and the executors in the order of its workers.

        Args:
            executors: that are alive, and the tasks that each runs at a time.
            marked: those that are to be removed.
            traffic: between key groups, in bytes.
            migration_cost: of key groups; 1 if none is given.
        """
        groups = self.groups(executors)
        index = {group: i for i, group in enumerate(groups)}
        names = list(executors)
        self._log_speed = {one: v for one, v in self._log_speed.items() if one in executors}
        load = [self._points(group) for group in groups]
        pairs = [
            (index[a], index[b], volume)
            for (a, b), volume in (traffic or {}).items()
            if a in index and b in index and volume > 0
        ]
        ends = np.array([(a, b) for a, b, _ in pairs], dtype=np.int64).reshape(-1, 2)
        cost = migration_cost or {}
        cluster = Cluster(
            load=np.array(load).reshape(len(groups), 1) if groups else np.zeros((0, 1)),
            placement=np.array([names.index(self.where[g]) for g in groups], dtype=np.int64),
            capacity=np.array([executors[one] * self.speed(one) for one in names]),
            removed=np.array([one in marked for one in names], dtype=np.bool_),
            operator=np.array([group[0] for group in groups], dtype=np.int64),
            migration_cost=np.array([cost.get(g, 1.0) for g in groups]) if cost else np.empty(0),
            traffic=Traffic(ends[:, 0], ends[:, 1], np.array([volume for _, _, volume in pairs])),
        )
        return cluster, names

    def groups(self, executors: Iterable[str]) -> list[KeyGroup]:
        """Return the key groups that are on live executors; Spark places the others anew."""
        alive = set(executors)
        return sorted(group for group, executor in self.where.items() if executor in alive)

    def _points(self, group: KeyGroup) -> float:
        """Return a load in points of an executor with one slot and a speed of 1."""
        busy = self._busy.get(group)
        if busy is None:
            return float("nan")
        return 100 * busy.total_ms * self.speed(busy.executor) / self.interval_ms


@dataclass
class _Busy:
    """What a key group takes in a batch, in all and for a record, and where that was measured."""

    executor: str
    total_ms: float
    per_record_ms: float


def _blend(before: float, newest: float) -> float:
    """Return a value that follows the newest ones; what is not known changes nothing."""
    if np.isnan(before) or np.isnan(newest):
        return before if np.isnan(newest) else newest
    return (1 - _NEWEST) * before + _NEWEST * newest
