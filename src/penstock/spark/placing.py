"""Where the key groups of a query live: read from its tasks, changed by hints, confirmed."""

import threading
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Journal
from penstock.control.adaptation import Adaptation, PlacementPlan
from penstock.control.keygroups import KeyGroup, KeyGroups, Ran
from penstock.policies.allocation import Allocator
from penstock.spark import internals
from penstock.spark.internals import StateOperator

# Batches in which a move must be confirmed.
_BATCHES = 6
# Jobs that fit nothing after which that is told.
_UNLIKE = 10


@dataclass
class Pending:
    """A move that has not been confirmed.

    Attributes:
        executor: where the key group should go.
        batches: how many have ended since it was planned.
    """

    executor: str
    batches: int = 0


@dataclass
class Placing:
    """Plans where the key groups of one query live, and brings them there.

    A key group is a partition of a stateful operator, or of all that share a stage. Its load is
    the run time of its task. A move is a hint to Spark: the partition then runs there, and loads
    its state from the checkpoint. Hints from outside of a batch race with its tasks: they are given
    again until a task has run where it should. Those of `hint` in a `foreachBatch` hold at once.
    """

    spark: SparkSession
    query: StreamingQuery
    allocator: Allocator
    journal: Journal
    name: str
    dry_run: bool
    groups: KeyGroups = field(default_factory=KeyGroups)
    plan: PlacementPlan | None = None
    moved: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self._loop = Adaptation(self.name, self.allocator, self.groups, self.journal, self.dry_run)
        self._operators: list[StateOperator] | None = None
        self._pending: dict[KeyGroup, Pending] = {}
        self._hosts: dict[str, tuple[str, int]] = {}
        self._last_job = max(internals.jobs_after(self.spark, self._run, -1), default=-1)
        self._began_ms = 0.0
        self._batch = ""
        # Of the newest batch, by operator.
        self._tasks: dict[int, list[dict[str, Any]]] = {}
        self._unlike = 0
        # Moves are told and ended by the loop, and by the thread of the query's batches.
        self._hinting = threading.Lock()

    @property
    def _run(self) -> str:
        return str(self.query.runId)

    @property
    def stateless(self) -> bool:
        """Whether the query has been seen to have no state."""
        return self._operators == []

    def look(self) -> None:
        """Read the tasks of batches that have ended, and give hints that are not confirmed yet."""
        if self._operators is None:
            self._operators = internals.state_operators(self.spark, str(self.query.id))
            if self.stateless:
                self.journal.warn(
                    self.name, "the query has no stateful operator: there is nothing to place"
                )
        if not self._operators:
            return
        for job in internals.jobs_after(self.spark, self._run, self._last_job):
            done = internals.job_done(self.spark, job)
            if done is None:
                break  # it still runs
            self._last_job = job
            self._add(done)
        self.hint()

    def _add(self, job: internals.JobDone) -> None:
        """Take the tasks of a batch: of its first job that has executed all stateful operators.

        A sink with several actions has more of them, which read what is cached, or do it again.
        """
        if not job.succeeded or (job.batch and job.batch == self._batch):
            return
        tasks = self._tasks_of(job)
        if tasks is None:
            return
        self._batch, self._tasks = job.batch, tasks
        interval_ms = job.began_ms - self._began_ms if self._began_ms else job.taken_ms
        self._began_ms = job.began_ms
        # After a pause of the source the next batch is no measure of how often they come.
        longest_ms = 10 * max(job.taken_ms, self.groups.interval_ms)
        ran = [_ran(number, one) for number, own in tasks.items() for one in own]
        self.groups.add(ran, max(1.0, min(interval_ms, longest_ms)))
        with self._hinting:
            self._confirm()

    def _tasks_of(self, job: internals.JobDone) -> dict[int, list[dict[str, Any]]] | None:
        """Return the tasks of a job by operator; None if its stages do not fit."""
        operators = self._operators or []
        found = internals.tasks_by_operator(self.spark, operators, job.stages)
        for operator in operators:
            if len(found[operator.number]) != operator.partitions:
                self._unlike += 1
                if self._unlike == _UNLIKE and not self.groups.batches:
                    self.journal.warn(
                        self.name,
                        f"the stages of {_UNLIKE} jobs do not fit the {operator.partitions} "
                        f"partitions of stateful operator {operator.number}: nothing is placed",
                    )
                return None
        return found

    def _confirm(self) -> None:
        """Look whether key groups have run where they should."""
        under_way = bool(self._pending)
        for group, pending in list(self._pending.items()):
            pending.batches += 1
            if self.groups.where.get(group) == pending.executor:
                del self._pending[group]
                self.moved += 1
            elif pending.batches >= _BATCHES:
                self._give_up(group, f"has not come to executor {pending.executor}")
        if under_way and not self._pending:
            self._loop.carried_out()

    def _give_up(self, group: KeyGroup, why: str) -> None:
        del self._pending[group]
        self.failed += 1
        self.journal.write("warning", query=self.name, reason=f"key group {group} {why}")

    def decide(self, marked: frozenset[str]) -> None:
        """Plan, and begin to move."""
        if not self._operators:
            return
        with self._hinting:
            for group, pending in list(self._pending.items()):
                if pending.executor in marked:
                    self._give_up(group, f"stays: executor {pending.executor} is to be removed")
        if self._pending:
            return  # first things first
        hosts = internals.executor_hosts(self.spark)
        slots = {one: slots for one, (_, slots) in hosts.items()}
        self.plan = self._loop.plan(slots, marked, self._traffic(), self._costs())
        if not self.dry_run:
            moves = {group: Pending(target) for group, target in self.plan.moves.items()}
            with self._hinting:
                self._hosts, self._pending = hosts, moves
            self.hint()

    def hint(self) -> None:
        """Tell Spark where key groups should run; those whose executor has gone stay."""
        with self._hinting:
            if not self._pending:
                return
            operators = {one.number: one for one in self._operators or []}
            alive = set(internals.executors(self.spark))
            for (number, partition), pending in list(self._pending.items()):
                if pending.executor not in alive or pending.executor not in self._hosts:
                    # Spark would wait for it before it takes another one.
                    self._give_up((number, partition), f"stays: {pending.executor} has gone")
                    continue
                host, _ = self._hosts[pending.executor]
                where = operators[number], partition, pending.executor, host
                internals.hint_location(self.spark, self._run, *where)
            if not self._pending:
                self._loop.carried_out()

    def holders(self) -> frozenset[str]:
        """Return the executors on which key groups live, or will."""
        coming = (one.executor for one in self._pending.values())
        return frozenset([*self.groups.where.values(), *coming])

    def _costs(self) -> dict[KeyGroup, float] | None:
        """Return the bytes of key groups' state, if the allocator has a budget for that."""
        if self.allocator.max_cost is None:
            return None
        return {
            (operator.number, partition): sum(
                internals.folder_bytes(self.spark, f"{one.root}/{one.number}/{partition}")
                for one in (operator, *operator.before)
            )
            for operator in self._operators or []
            for partition in range(operator.partitions)
        }

    def _traffic(self) -> dict[tuple[KeyGroup, KeyGroup], float]:
        """Return what key groups of an operator send to those of the next."""
        found = {}
        for sender in self._operators or []:
            sent, received = self._tasks.get(sender.number), self._tasks.get(sender.receiver or 0)
            if sender.receiver is None or sent is None or received is None:
                continue
            sizes = internals.shuffled_bytes(self.spark, _written(sent), _read(received))
            for i, row in enumerate(sizes):
                for j, volume in enumerate(row):
                    if volume:
                        found[(sender.number, i), (sender.receiver, j)] = volume
        return found


def _ran(operator: int, told: dict[str, Any]) -> Ran:
    metrics = told["taskMetrics"]
    return Ran(
        (operator, _partition(told)),
        str(told["executorId"]),
        float(metrics["executorRunTime"]),
        float(metrics["shuffleReadMetrics"]["recordsRead"]),
    )


def _written(tasks: list[dict[str, Any]]) -> list[float]:
    """Return what tasks have written to a shuffle, in the order of partitions."""
    metrics = (one["taskMetrics"] for one in sorted(tasks, key=_partition))
    return [float(one["shuffleWriteMetrics"]["bytesWritten"]) for one in metrics]


def _read(tasks: list[dict[str, Any]]) -> list[float]:
    """Return what tasks have read from shuffles, in the order of partitions."""
    metrics = (one["taskMetrics"]["shuffleReadMetrics"] for one in sorted(tasks, key=_partition))
    return [float(one["remoteBytesRead"] + one["localBytesRead"]) for one in metrics]


def _partition(task: dict[str, Any]) -> int:
    return int(task["partitionId"])
