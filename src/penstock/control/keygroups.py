"""Loads and executors of key groups, measured by the tasks of a query's batches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.policies.placement import Cluster, Traffic

# A state partition: the number of its operator, and its own.
KeyGroup = tuple[int, int]

# The executor of a load that was measured on an executor that is gone.
_NOWHERE = ""
# Weight of the newest batch in a load.
_NEWEST = 0.4
# Weight of one move in the speeds of two executors.
_TOLD = 0.25
# The logarithm of the largest and of the smallest speed.
_FASTEST = float(np.log(10))


@dataclass(frozen=True)
class Ran:
    """A task of a key group in a batch.

    Attributes:
        group: key group.
        executor: executor on which the task ran.
        busy_ms: run time of the task.
        records: number of records that the task has read.
    """

    group: KeyGroup
    executor: str
    busy_ms: float
    records: float = 0.0


@dataclass
class KeyGroups:
    """Follows the loads of key groups, and the speeds of executors.

    The first batch after a move includes the time to load the state, so it does not count as load.
    Speeds are learnt when a key group moves, from its time per record before and after the move:
    later changes may have other reasons.

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
            ran: tasks of the batch.
            interval_ms: time from the start of the previous batch to the start of this one.
        """
        self.interval_ms = _blend(self.interval_ms, interval_ms)
        self.batches += 1
        before = dict(self.where)
        for one in ran:
            self.where[one.group] = one.executor
            if before.get(one.group) == one.executor:
                self._learn(one)

    def _learn(self, one: Ran) -> None:
        busy = self._busy.setdefault(one.group, _Busy(one.executor, one.executor))
        if one.records:
            self._compare(busy, one)
        total_ms = busy.total_ms * self.speed(busy.executor) / self.speed(one.executor)
        busy.total_ms, busy.executor = _blend(total_ms, one.busy_ms), one.executor

    def _compare(self, busy: "_Busy", one: Ran) -> None:
        """Learn the speeds of two executors from a key group that has moved."""
        before_ms, now_ms = busy.per_record_ms, one.busy_ms / one.records
        if busy.compared == one.executor:
            busy.per_record_ms = _blend(before_ms, now_ms)
            return
        if before_ms > 0 and now_ms > 0:
            old, new = (self._log_speed.get(e, 0.0) for e in (busy.compared, one.executor))
            change = _TOLD * (float(np.log(before_ms / now_ms)) - (new - old))
            for executor, speed in ((busy.compared, old - change), (one.executor, new + change)):
                self._log_speed[executor] = float(np.clip(speed, -_FASTEST, _FASTEST))
        busy.per_record_ms, busy.compared = now_ms, one.executor

    def speed(self, executor: str) -> float:
        """Return the speed of an executor relative to the others; 1 if it is unknown."""
        return float(np.exp(self._log_speed.get(executor, 0.0)))

    def cluster(
        self,
        executors: Mapping[str, int],
        *,
        marked: frozenset[str] = frozenset(),
        traffic: Mapping[tuple[KeyGroup, KeyGroup], float] | None = None,
        migration_cost: Mapping[KeyGroup, float] | None = None,
    ) -> tuple[Cluster, list[str]]:
        """Return the input of a placer, and the executors in the order of its workers.

        Args:
            executors: live executors, and the number of tasks that each runs at a time.
            marked: executors that are to be removed.
            traffic: bytes sent between key groups.
            migration_cost: migration cost of key groups; 1 for each if it is empty.
        """
        groups = self.groups(executors)
        index = {group: i for i, group in enumerate(groups)}
        names = list(executors)
        worker = {name: i for i, name in enumerate(names)}
        self._forget_all_but(set(executors))
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
            placement=np.array([worker[self.where[g]] for g in groups], dtype=np.int64),
            capacity=np.array([executors[one] * self.speed(one) for one in names]),
            removed=np.array([one in marked for one in names], dtype=np.bool_),
            operator=np.array([group[0] for group in groups], dtype=np.int64),
            migration_cost=np.array([cost.get(g, 1.0) for g in groups]) if cost else np.empty(0),
            traffic=Traffic(ends[:, 0], ends[:, 1], np.array([volume for _, _, volume in pairs])),
        )
        return cluster, names

    def _forget_all_but(self, alive: set[str]) -> None:
        """Forget executors that are gone; loads measured there are kept, at a speed of 1."""
        for busy in self._busy.values():
            if busy.executor not in alive:
                busy.total_ms *= self.speed(busy.executor)
                busy.executor = _NOWHERE
            if busy.compared not in alive:
                busy.per_record_ms = float("nan")
        kept = {one: speed for one, speed in self._log_speed.items() if one in alive}
        if len(kept) == len(self._log_speed):
            return
        # Speeds are relative to the executors that stay.
        mean = sum(kept.values()) / max(1, len(kept))
        self._log_speed = {one: speed - mean for one, speed in kept.items()}
        for busy in self._busy.values():
            if busy.executor == _NOWHERE:
                busy.total_ms *= float(np.exp(-mean))

    def groups(self, executors: Iterable[str]) -> list[KeyGroup]:
        """Return the key groups on live executors; Spark places the others again."""
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
    """Time of a key group per batch and per record, and the executors of the measurements."""

    executor: str
    compared: str
    total_ms: float = float("nan")
    per_record_ms: float = float("nan")


def _blend(before: float, newest: float) -> float:
    """Return a value that follows the newest ones; an unknown value changes nothing."""
    if np.isnan(before) or np.isnan(newest):
        return before if np.isnan(newest) else newest
    return (1 - _NEWEST) * before + _NEWEST * newest
