"""The ledger of an operator: counts of records, batches and waiting times, and warnings.

No class here is thread safe: the controller that owns a ledger holds its lock.
"""

import math
from collections import OrderedDict

import numpy as np

from penstock.control.batches import Batch, trim
from penstock.control.pins import KEPT
from penstock.control.reports import ExecutionReport, Report, RouterReport
from penstock.control.stats import OperatorStats, Tally
from penstock.control.timeline import Work
from penstock.control.warnings import Warnings
from penstock.policies.kernels import Float64

# Batches whose tasks are remembered: a report that arrives twice counts once.
_REMEMBERED = 64


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
        self._seen: OrderedDict[str, set[tuple[str, int]]] = OrderedDict()

    def is_new(self, report: Report) -> bool:
        """Whether this is the first report of its task."""
        tasks = self._seen.setdefault(report.task.batch, set())
        trim(self._seen, _REMEMBERED)
        task = type(report).__name__, report.task.partition
        if task in tasks:
            return False
        tasks.add(task)
        return True

    def batch(self, number: str) -> Batch | None:
        """Return a batch; None if no report of it has arrived, or if it is too old."""
        return self._batches.get(number)

    def open(self, number: str) -> Batch:
        """Begin to count a new batch, and forget the oldest one."""
        batch = self._batches[number] = Batch(self.instances)
        while len(self._batches) > KEPT:
            _, old = self._batches.popitem(last=False)
            self._forget(old)
        return batch

    def _forget(self, old: Batch) -> None:
        """Take a batch that never became complete out of a shedder's counts."""
        if self._sheds and not old.settled:
            self._tally.received -= old.received
            self._tally.shed -= old.shed
            self._tally.incomplete += old.processed

    def close_empty(self) -> list[tuple[str, Batch]]:
        """Close the batches whose records were all shed: none of their instances will report."""
        closed = []
        for number, batch in self._batches.items():
            if batch.settled and not batch.complete:
                batch.busy_ms[:] = 0
                self._tally.batches += 1
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
        tally.batches += bool(np.isnan(batch.busy_ms).all())
        batch.add_instance(report)
        tally.records[instance] += report.records
        tally.busy_ms[instance] += report.busy_ms
        tally.expected_ms[instance] += expected_ms
        tally.emitted += report.emitted
        tally.waited_ms += report.waited_ms
        tally.waits += report.waits

    @property
    def records_per_batch(self) -> float:
        """Mean number of records that a batch executes."""
        return float(self._tally.records.sum()) / max(1, self._tally.batches)

    def work(self) -> Work:
        """Return the work done so far, for a timeline."""
        tally = self._tally
        return Work(
            processed=float(tally.records.sum()),
            emitted=float(tally.emitted),
            busy_ms=float(tally.busy_ms.sum()),
        )

    def last_settled(self) -> tuple[str, Batch | None]:
        """Return the newest batch whose records are all accounted for."""
        for number, batch in reversed(self._batches.items()):
            if batch.settled:
                return number, batch
        return "", None

    def stats(self, query: str, *, state: str, active: int, active_in_last: int) -> OperatorStats:
        """Return all counts.

        Args:
            query: identity of the query; empty for batch jobs.
            state: state of the policies, for people.
            active: number of instances that get records.
            active_in_last: number of instances that got records in the last settled batch.
        """
        tally = self._tally
        number, batch = self.last_settled()
        received, shed, processed = self._counts()
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
            last=batch.stats(number) if batch else None,
            warnings=self.warnings.all(),
        )

    def _counts(self) -> tuple[int, int, int]:
        """Return records received, shed and processed: received = processed + shed.

        An operator that sheds counts settled batches only: the others are still incomplete.
        """
        received, shed, processed = self._tally.received, self._tally.shed, self._tally.processed
        if not self._sheds:
            return received, shed, processed
        for batch in self._batches.values():
            if not batch.settled:
                received -= batch.received
                shed -= batch.shed
                processed -= batch.processed
        return received, shed, processed


class FrontLedger(Ledger):
    """The ledger of a shed operator, in front of operators that report nothing.

    Its batches are complete when the query reports their duration. All admitted records count as
    processed by one instance.
    """

    def open(self, number: str) -> Batch:
        """Begin to count a new batch."""
        self._tally.batches += 1
        return super().open(number)

    def _forget(self, old: Batch) -> None:
        """Leave the counts as they are: no instance was going to report."""

    def close_empty(self) -> list[tuple[str, Batch]]:
        """Close nothing: the query reports the end of each batch."""
        return []

    def count_router(self, report: RouterReport, batch: Batch) -> None:
        """Count the report of a router; its admitted records are processed."""
        super().count_router(report, batch)
        self._tally.records[0] += report.records - report.shed

    def count_duration(self, batch: Batch, duration_ms: float) -> None:
        """Count the duration of a batch, which completes it."""
        self._tally.busy_ms[0] += duration_ms
        batch.busy_ms[:] = duration_ms
        batch.processed = batch.received - batch.shed

    def _counts(self) -> tuple[int, int, int]:
        return self._tally.received, self._tally.shed, self._tally.processed


def shares_of(routed: Float64) -> tuple[float, ...]:
    """Return the share of each router in the records; empty if there were none."""
    total = routed.sum()
    return tuple(map(float, routed / total)) if total else ()
