"""The ledger of an operator: counts of records, batches and waiting times, and warnings.

No class here is thread safe: the controller that owns a ledger holds its lock.
"""

import math
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from penstock.control.batches import Batch
from penstock.control.newest import trim
from penstock.control.pins import KEPT
from penstock.control.reports import ExecutionReport, Report, RouterReport
from penstock.control.stats import OperatorStats, Tally
from penstock.control.timeline import Work
from penstock.control.warnings import Warnings
from penstock.policies.kernels import Float64
from penstock.policies.shedding import Target

# Batches whose tasks are remembered: a report that arrives twice counts once.
_REMEMBERED = 64


class Failures(NamedTuple):
    """The failures of a batch so far.

    Attributes:
        failed: number of records on which the function failed.
        received: number of records of the batch; 0 if it is unknown.
    """

    failed: int
    received: int


class Ledger:
    """Counts the reports of one operator in one query.

    Args:
        name: name of the operator, for people.
        instances: number of instances.
        sheds: whether the operator sheds records.
    """

    def __init__(self, name: str, instances: int, sheds: bool) -> None:
        self.instances = instances
        self.warnings = Warnings(name)
        self._sheds = sheds
        self._tally = Tally(instances)
        self._batches: OrderedDict[str, Batch] = OrderedDict()
        self._failing: OrderedDict[str, dict[tuple[str, int], int]] = OrderedDict()
        self._seen: OrderedDict[str, set[tuple[str, str, int]]] = OrderedDict()
        self._runs: OrderedDict[str, str] = OrderedDict()

    def is_new(self, report: Report, *, ended: bool = False) -> bool:
        """Whether a report counts: the first one of its task, in the newest run of its batch.

        Args:
            report: the report.
            ended: whether its run has ended, and another one of the query has begun.
        """
        task = report.task
        before = self._runs.setdefault(task.batch, task.run)
        trim(self._runs, _REMEMBERED)
        if task.run != before:
            if ended:
                return False
            self.repeat(task.batch, task.run)
        tasks = self._seen.setdefault(task.batch, set())
        trim(self._seen, _REMEMBERED)
        known = type(report).__name__, task.use, task.partition
        if known in tasks:
            return False
        tasks.add(known)
        return True

    @property
    def begun(self) -> list[str]:
        """Names of the newest batches of which a report has arrived."""
        return [*self._batches]

    def batch(self, number: str) -> Batch | None:
        """Return a batch; None if no report of it has arrived, or if it is too old."""
        return self._batches.get(number)

    def open(self, number: str) -> Batch:
        """Begin to count a new batch, and forget the oldest one."""
        self._tally.batches += 1
        batch = self._batches[number] = Batch(self.instances)
        while len(self._batches) > KEPT:
            _, old = self._batches.popitem(last=False)
            self._forget(old)
        return batch

    def _forget(self, old: Batch) -> None:
        """Take a batch that never became complete out of a shedder's counts."""
        if self._sheds and not old.settled:
            self._uncount(old)

    def _uncount(self, old: Batch) -> None:
        self._tally.batches -= 1
        self._tally.remove(old.received, old.shed, old.records, failed=old.failed)

    def repeat(self, number: str, run: str) -> None:
        """Forget a batch that runs again in another run of the query; it is counted again."""
        self._runs[number] = run
        self._seen.pop(number, None)
        self._failing.pop(number, None)
        old = self._batches.pop(number, None)
        if old is not None:
            self._uncount(old)

    def failing(self, number: str, task: tuple[str, int], failed: int) -> Failures:
        """Note the failures of a task that is about to end, and return those of its batch.

        A task announces its failures before it succeeds, so the last one sees all of them.

        Args:
            number: name of the batch.
            task: use and partition of the task; a task that runs again replaces its number.
            failed: number of records on which the function failed.
        """
        tasks = self._failing.setdefault(number, {})
        trim(self._failing, _REMEMBERED)
        tasks[task] = failed
        batch = self._batches.get(number)
        return Failures(sum(tasks.values()), batch.received if batch is not None else 0)

    def close_empty(self) -> list[tuple[str, Batch]]:
        """Close the batches whose records were all shed: none of their instances will report."""
        closed = []
        for number, batch in self._batches.items():
            if batch.settled and not batch.complete:
                batch.closed = True
                closed.append((number, batch))
        return closed

    def count_router(self, report: RouterReport, batch: Batch) -> None:
        """Count the report of a router."""
        tally = self._tally
        batch.add_router(report)
        tally.received += report.records
        tally.shed += report.shed
        tally.router_ms += report.router_ms
        if report.fallback:
            tally.fallbacks += 1
            tally.fallback_reason = report.fallback
        else:
            tally.snapshot_age_ms = report.snapshot_age_ms

    def count_execution(self, report: ExecutionReport, batch: Batch, expected_ms: float) -> None:
        """Count the report of an instance.

        Args:
            report: the report.
            batch: its batch.
            expected_ms: cost of its records that the policies expected.
        """
        instance, tally = report.task.partition, self._tally
        batch.add_instance(report)
        tally.records[instance] += report.records
        tally.busy_ms[instance] += report.busy_ms
        tally.expected_ms[instance] += expected_ms
        tally.emitted += report.emitted
        tally.failed += report.failed
        tally.waited_ms += report.waited_ms
        tally.waits += report.waits

    @property
    def expected_records(self) -> int | None:
        """Number of records that the next batch is expected to execute; None if it is unknown."""
        _, batch = self.last_settled()
        return batch.executed or None if batch is not None else None

    @property
    def records_per_batch(self) -> float:
        """Mean number of records that a batch executes."""
        return float(self._tally.executed) / max(1, self._tally.batches)

    def work(self) -> Work:
        """Return the work done so far, for a timeline."""
        tally = self._tally
        return Work(
            processed=float(tally.executed),
            emitted=float(tally.emitted),
            busy_ms=float(tally.busy_ms.sum()),
        )

    def last_settled(self) -> tuple[str, Batch | None]:
        """Return the newest batch whose records are all accounted for."""
        for number, batch in reversed(self._batches.items()):
            if batch.settled:
                return number, batch
        return "", None

    def stats(
        self,
        query: str,
        *,
        state: str,
        active: int,
        active_in_last: int,
        slowdowns: dict[str, float],
        query_name: str = "",
        target: Target | None = None,
        cost_source: str = "",
    ) -> OperatorStats:
        """Return all counts.

        Args:
            query: identity of the query; empty for batch jobs.
            state: state of the policies, for people.
            active: number of instances that get records.
            active_in_last: number of instances that got records in the last settled batch.
            slowdowns: learnt slowdown of each executor.
            query_name: name of the query, for people.
            target: target of the shedder; None without one.
            cost_source: where estimates come from, if records are measured together.
        """
        tally = self._tally
        number, batch = self.last_settled()
        received, shed, processed, failed = self._counts()
        return OperatorStats(
            name=self.warnings.name,
            query=query,
            state=state,
            batches=tally.batches,
            received=received,
            shed=shed,
            processed=processed,
            emitted=tally.emitted,
            instances=tally.per_instance(),
            active=active,
            imbalance=batch.imbalance(active_in_last) if batch else 0.0,
            fallbacks=tally.fallbacks,
            fallback_reason=tally.fallback_reason,
            router_ms=tally.router_ms,
            snapshot_age_ms=tally.snapshot_age_ms,
            waiting_ms=tally.waited_ms / tally.waits if tally.waits else math.nan,
            slowdowns=slowdowns,
            last=batch.stats(number) if batch else None,
            warnings=self.warnings.all(),
            query_name=query_name,
            target_ms=target.limit_ms if target is not None else None,
            failed=failed,
            cost_source=cost_source,
        )

    def _counts(self) -> tuple[int, int, int, int]:
        """Return records received, shed, processed and failed: the first is the sum of the others.

        An operator that sheds counts settled batches only: the others are still incomplete.
        """
        tally = self._tally
        received, shed, processed, failed = (
            tally.received,
            tally.shed,
            tally.processed,
            tally.failed,
        )
        for batch in self._batches.values() if self._sheds else ():
            if not batch.settled:
                received -= batch.received
                shed -= batch.shed
                processed -= batch.processed
                failed -= batch.failed
        return received, shed, processed, failed


class FrontLedger(Ledger):
    """The ledger of a shed operator, in front of operators that report nothing.

    Its batches are complete when the query reports their duration. All admitted records count as
    processed by one instance.
    """

    def _forget(self, old: Batch) -> None:
        """Leave the counts as they are: no instance was going to report."""

    def close_empty(self) -> list[tuple[str, Batch]]:
        """Close nothing: the query reports the end of each batch."""
        return []

    def count_router(self, report: RouterReport, batch: Batch) -> None:
        """Count the report of a router; its admitted records are processed."""
        super().count_router(report, batch)
        admitted = report.records - report.shed
        batch.records[0] += admitted
        self._tally.records[0] += admitted

    def count_duration(self, batch: Batch, duration_ms: float) -> None:
        """Count the duration of a batch, which completes it."""
        self._tally.busy_ms[0] += duration_ms
        batch.busy_ms[:] = duration_ms
        batch.processed = batch.received - batch.shed
        batch.began_s = batch.ended_s - duration_ms / 1000
        batch.closed = True

    def _counts(self) -> tuple[int, int, int, int]:
        return self._tally.received, self._tally.shed, self._tally.processed, 0


def shares_of(routed: Float64) -> tuple[float, ...]:
    """Return the share of each router in the records; empty if there were none."""
    total = routed.sum()
    return tuple(map(float, routed / total)) if total else ()


def follow_routers(before: Float64, batch: Batch) -> Float64:
    """Return how records spread over routers: each gets its share of the capacity.

    Args:
        before: what this function returned after the batch before.
        batch: the newest batch.
    """
    if not batch.received:
        return before
    width = max(batch.routed, default=-1) + 1
    routed = np.zeros(width)
    for router, records in batch.routed.items():
        routed[router] = records
    # Every router gets some share: it may have more to route in the next batch.
    routed += routed.sum() / width / 20
    known = before if before.size == width else routed
    return (known + routed) / 2
