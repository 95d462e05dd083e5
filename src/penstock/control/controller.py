"""The fast loop of an operator: reports in, snapshots out."""

import secrets
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.control.batches import Batch
from penstock.control.journal import Journal
from penstock.control.key_names import KeyNames
from penstock.control.ledger import Failures, FrontLedger, Ledger, follow_routers, shares_of
from penstock.control.occupancy import Workers
from penstock.control.operator_policies import OperatorPolicies
from penstock.control.pins import Pins
from penstock.control.reports import ExecutionReport, Report, RouterReport, unpack_costs
from penstock.control.saved import read_saved, saved_bytes
from penstock.control.snapshots import Snapshot, read_pin
from penstock.control.stats import FinishedBatch, OperatorStats
from penstock.control.timeline import Work
from penstock.control.utilization import Utilization
from penstock.control.warnings import about_batch, about_execution, about_executors, about_router
from penstock.errors import PenstockError
from penstock.policies.costs import HotKey
from penstock.policies.kernels import Float64


class Controller:
    """Teaches the policies of one operator in one query, and publishes snapshots of them.

    Thread safe: routers ask from the threads of the control channel, and reports arrive on
    another one. Every public method takes the lock; every private one needs it. The control plane
    sets `run`, the run of the query, and reads and clears `unsaved`. An attached loop that decides
    about the number of active instances sets `managed`.

    Args:
        name: name of the operator, for people.
        query: identity of the query; empty for batch jobs.
        policies: policies of the operator; the controller teaches copies of its own.
        journal: journal for observations and plans.
        keep: function that stores the snapshot of a batch, before its routers get it.
        in_front: whether the operator only sheds, in front of operators that report nothing. Its
            batches are then known by how long they take.
        query_name: name of the query, for people; its identity if it has none.
        on_batch: function that takes a maker of each finished batch, and returns at once.
    """

    def __init__(
        self,
        name: str,
        query: str,
        policies: OperatorPolicies,
        *,
        journal: Journal,
        keep: Callable[[bytes], None] | None = None,
        in_front: bool = False,
        query_name: str = "",
        on_batch: Callable[[Callable[[], FinishedBatch]], None] | None = None,
    ) -> None:
        self.name = name
        self.query = query
        self.query_name = query_name or query
        self.journal = journal
        self.instances = self.active = policies.grouping.instances
        self._tasks = policies.grouping.tasks
        self.run = ""
        self.managed = False
        self.unsaved = False
        self.names = KeyNames()
        self._policies = policies.clone()
        self._lock = threading.RLock()
        self._pins = Pins(keep)
        self._on_batch = on_batch
        ledger = FrontLedger if in_front else Ledger
        self._ledger = ledger(name, self.instances, policies.shedder is not None)
        # Routers remember versions: those of another controller must differ.
        self._version = secrets.randbits(48)
        self._reports = 0
        self._newest: Snapshot | None = None
        self._routed = np.zeros(0)
        self._utilization = Utilization(self.instances)
        self._workers = Workers(self.instances)

    def snapshot(self, batch: str) -> Snapshot:
        """Return the snapshot of a batch: the newest at its first request, then the same."""
        with self._lock:
            pinned = self._pins.get(batch)
            if pinned is None:
                pinned = replace(
                    self._published(),
                    began_s=time.time(),
                    shares=shares_of(self._routed),
                    active=self.active,
                    records=self._ledger.expected_records,
                )
                self._pins.add(batch, pinned)
                words = f"{self._policies.words}, from {self._reports} reports"
                reason = f"{self.active} instances, {words}"
                self._write("plan", batch=batch, version=self._version, reason=reason)
            self._pins.touch(batch)
            return pinned

    def has_pinned(self, batch: str) -> bool:
        """Whether a batch is decided about already."""
        with self._lock:
            return self._pins.get(batch) is not None

    @property
    def begun(self) -> set[str]:
        """Names of the newest batches that have begun."""
        with self._lock:
            return {*self._pins.batches, *self._ledger.begun}

    def begin_run(self, run: str, again: int | None) -> None:
        """Go on in another run of the query.

        Args:
            run: identity of the run.
            again: batch that runs again; None if there is none.
        """
        with self._lock:
            self.run = run
            if again is not None:
                self._ledger.repeat(str(again), run)

    def _published(self) -> Snapshot:
        """Return the newest snapshot of the policies."""
        if self._newest is None or self._newest.version != self._version:
            packed = zlib.compress(self._policies.snapshot(), 1)
            self._newest = Snapshot(self._version, time.time(), packed)
        return self._newest

    def load_pin(self, data: bytes) -> None:
        """Pin the snapshot of a batch again, as it was before a restart."""
        batch, snapshot = read_pin(data)
        active = snapshot.active_of(self.instances)
        if active > self.instances:
            raise PenstockError(f"it is for {active} instances, and there are {self.instances}")
        with self._lock:
            fitting = self._policies.clone(active)
            fitting.restore(snapshot.data)  # refuses a snapshot that does not fit
            # It gets a version of its own, because routers identify snapshots by version.
            self._pins.restore(batch, replace(snapshot, version=self._version))
            self._version += 1

    def _write(self, kind: str, **fields: object) -> None:
        self.journal.write(kind, operator=self.name, query=self.query, **fields)

    def activate(self, instances: int) -> None:
        """Give records to the first instances only, from the next batch on.

        The routers of a grouping that does not learn never ask the driver, so such a grouping goes
        on with all instances.
        """
        with self._lock:
            active = min(max(1, instances), self.instances)
            if active == self.active or not self._policies.learns:
                return
            self._policies.resize(active)
            self._changed()
            self._write("plan", reason=f"{self.active} -> {active} active instances")
            self.active = active

    def observe(self, report: Report, *, ended: bool = False) -> None:
        """Receive a report, of a run that may have `ended`; what was seen before is ignored."""
        with self._lock:
            if not self._ledger.is_new(report, ended=ended):
                return
            batch = self._ledger.batch(report.task.batch)
            if batch is None:
                for number, empty in self._ledger.close_empty():
                    self._finish(number, empty)
                batch = self._ledger.open(report.task.batch)
            batch.touch(time.time(), self._pins.asked_s(report.task.batch))
            if isinstance(report, RouterReport):
                self._routed_by(report, batch)
            elif report.task.partition < self._tasks:
                self._executed(report, batch)

    def _routed_by(self, report: RouterReport, batch: Batch) -> None:
        self._ledger.count_router(report, batch)
        if report.fallback:
            self._write("observation", batch=report.task.batch, fallback=report.fallback)
        for kind, message in about_router(report):
            self.warn(kind, message)

    def _executed(self, report: ExecutionReport, batch: Batch) -> None:
        task = report.task.partition
        slot, gap_ms = batch.occupancy.add(report.executor, report.started_s, report.ended_s)
        instance = task if self._tasks == self.instances else slot
        report = replace(report, task=replace(report.task, partition=instance))
        expected_ms = self._learn(report, gap_ms)
        self._ledger.count_execution(report, batch, expected_ms)
        self._utilization.ran(instance, report.executor)
        for kind, message in about_execution(report):
            self.warn(kind, message)
        if batch.complete:
            self._finish(report.task.batch, batch)
        self._write(
            "observation",
            batch=report.task.batch,
            task=task,
            instance=instance,
            records=report.records,
            busy_ms=round(report.busy_ms, 3),
            expected_ms=round(expected_ms, 3),
            executor=report.executor,
            **({"failed": report.failed, "errors": [*report.errors]} if report.failed else {}),
        )

    def failing(self, batch: str, task: tuple[str, int], failed: int) -> Failures:
        """Note the failures of a task that is about to end, and return those of its batch."""
        with self._lock:
            return self._ledger.failing(batch, task, failed)

    def finished(self, number: str, duration_ms: float) -> None:
        """Learn the duration of a batch whose operators report nothing."""
        with self._lock:
            batch = self._ledger.batch(number)
            if batch is None or batch.complete or not isinstance(self._ledger, FrontLedger):
                return
            self._ledger.count_duration(batch, duration_ms)
            self._finish(number, batch)

    def _learn(self, report: ExecutionReport, gap_ms: float | None) -> float:
        """Learn measured costs; return the cost that the policies expected.

        Args:
            report: the report, whose partition is the instance.
            gap_ms: time since the task before it on the same slot ended; None without one.
        """
        measuring, instance = self._policies.measuring, report.task.partition
        feedback = unpack_costs(report.costs, measuring, instance)
        if feedback is None or instance >= self.active:
            return 0.0
        worker = self._workers.number(report.executor)
        feedback = replace(feedback, worker=worker, overhead_ms=gap_ms)
        expected_ms = measuring.expected_total_ms(feedback) / report.servers
        self._policies.observe(feedback)
        self._changed()
        self._reports += 1
        return expected_ms

    def _changed(self) -> None:
        self._version += 1
        self.unsaved = True

    def _finish(self, number: str, batch: Batch) -> None:
        self._learn_batch(number, batch)
        if self._on_batch is not None:
            active = self._active_in(number)
            self._on_batch(lambda: batch.finished(number, self.stats(), active=active))

    def _learn_batch(self, number: str, batch: Batch) -> None:
        """Learn from a complete batch as a whole."""
        self._learn_utilization(batch.busy_ms[: self._active_in(number)])
        for kind, message in about_executors(self._slowdowns()):
            if kind not in self._ledger.warnings:
                self.warn(kind, message)
        if self._policies.shedder is None:
            return
        self._routed = follow_routers(self._routed, batch)
        if batch.executed:
            self._policies.shedder.observe(batch.feedback(self.active))
            self._changed()
        self._warn_of_target(number, batch)
        waiting = round(batch.waiting_ms, 3) if batch.waits else None
        self._write("observation", batch=number, **batch.counts, waiting_ms=waiting)

    def _slowdowns(self) -> dict[str, float]:
        return self._workers.slowdowns(self._policies.grouping.slowdown_of)

    def _active_in(self, number: str) -> int:
        """Return the number of instances that got records of a batch."""
        pinned = self._pins.get(number)
        return pinned.active_of(self.active) if pinned else self.active

    def _warn_of_target(self, number: str, batch: Batch) -> None:
        """Warn if the target cannot hold."""
        for kind, message in about_batch(number, batch, self._policies.target):
            self.warn(kind, message)

    def warn(self, kind: str, message: str) -> None:
        """Log the first warning of each kind, and keep the newest one for the stats."""
        with self._lock:
            self._ledger.warnings.add(kind, message)
            self._write("warning", reason=message)

    def _learn_utilization(self, busy_ms: Float64) -> None:
        """Teach the grouping how busy instances were in a batch, if that is meaningful."""
        if not self._policies.grouping.learns or busy_ms.size != self.active:
            return
        messages = self._utilization.of_batch(busy_ms, self._ledger.records_per_batch)
        for feedback in messages:
            self._policies.grouping.observe(feedback)
        if messages:
            self._changed()

    def stats(self) -> OperatorStats:
        """Return all counts so far."""
        with self._lock:
            number, batch = self._ledger.last_settled()
            if batch is not None and not batch.complete:
                self._warn_of_target(number, batch)
            return self._ledger.stats(
                self.query,
                state=self._policies.all[-1].state,
                active=self.active,
                active_in_last=self._active_in(number),
                slowdowns=self._slowdowns(),
                query_name=self.query_name,
                target=self._policies.target,
                cost_source=self._policies.measuring.cost_source,
            )

    def hot_keys(self, most: int) -> list[HotKey]:
        """Return the keys that take the most time, the hottest first."""
        with self._lock:
            return self._policies.measuring.hot_keys(most)

    def work(self) -> Work:
        """Return the work done so far, for a timeline."""
        with self._lock:
            return self._ledger.work()

    def received(self, batch: str) -> tuple[int, float | None]:
        """Return how many records of a batch routers have reported, and when it began (s)."""
        with self._lock:
            found, pinned = self._ledger.batch(batch), self._pins.get(batch)
            return found.received if found else 0, pinned.began_s if pinned else None

    def save(self) -> bytes:
        """Return everything learnt, to be kept beyond this process."""
        with self._lock:
            return saved_bytes(self._policies, self._routed)

    def load(self, data: bytes) -> None:
        """Restore the bytes of `save`, also with another number of instances."""
        with self._lock:
            before, routed = read_saved(data, like=self._policies)
            before.resize(self.active)
            if before.shedder is not None:
                before.shedder.restart()
            self._policies = before
            self._routed = routed if routed is not None else self._routed
            self._version += 1
            self._write("plan", reason="resumed with saved costs")
