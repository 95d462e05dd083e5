"""What key groups cost and where they live, from the tasks of a query's batches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.policies.allocation import Cluster, Traffic

# A state partition: the number of its operator, and its own.
KeyGroup = tuple[int, int]

# How much of a load is that of the newest batch.
_NEWEST = 0.4
# How sure one is at first that executors are equally fast, in measured pairs.
_PRIOR = 3.0
_SLOWEST, _FASTEST = 0.1, 10.0


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
    an executor is, is learnt from what the same key groups take for a record on different ones.

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
    _busy_ms: dict[KeyGroup, float] = field(default_factory=dict)
    _per_record: dict[tuple[KeyGroup, str], float] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def add(self, ran: Iterable[Ran], interval_ms: float) -> None:
        """Add the tasks of a batch.

        Args:
            ran: its tasks, of all key groups that had any.
            interval_ms: from the beginning of the batch before to that of this one.
        """
        self.interval_ms = _blend(self.interval_ms, interval_ms)
        self.batches += 1
        came = set()
        for one in ran:
            # An executor's first batch starts Python there, and loads what it needs.
            settled = self.where.get(one.group) == one.executor and one.executor in self._known
            came.add(one.executor)
            self.where[one.group] = one.executor
            if settled:
                self._learn(one)
        self._known |= came

    def _learn(self, one: Ran) -> None:
        before = self._busy_ms.get(one.group, float("nan"))
        self._busy_ms[one.group] = _blend(before, one.busy_ms)
        if one.records:
            key = one.group, one.executor
            before = self._per_record.get(key, float("nan"))
            self._per_record[key] = _blend(before, one.busy_ms / one.records)

    def speeds(self) -> dict[str, float]:
        """Return how fast executors are, compared with the others; 1 if nothing tells."""
        by_group: dict[KeyGroup, dict[str, float]] = {}
        for (group, executor), ms in self._per_record.items():
            if ms > 0:
                by_group.setdefault(group, {})[executor] = float(np.log(ms))
        slow: dict[str, list[float]] = {}
        for seen in by_group.values():
            if len(seen) > 1:
                mean = sum(seen.values()) / len(seen)
                for executor, log_ms in seen.items():
                    slow.setdefault(executor, []).append(log_ms - mean)
        return {
            executor: float(np.clip(np.exp(-sum(d) / (len(d) + _PRIOR)), _SLOWEST, _FASTEST))
            for executor, d in slow.items()
        }

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
        speeds = self.speeds()
        load = [self._points(group, speeds) for group in groups]
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
            capacity=np.array([executors[one] * speeds.get(one, 1.0) for one in names]),
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

    def _points(self, group: KeyGroup, speeds: Mapping[str, float]) -> float:
        """Return a load in points of an executor with one slot and a speed of 1."""
        busy_ms = self._busy_ms.get(group, float("nan"))
        return 100 * busy_ms * speeds.get(self.where[group], 1.0) / self.interval_ms


def _blend(before: float, newest: float) -> float:
    return newest if np.isnan(before) else (1 - _NEWEST) * before + _NEWEST * newest
