"""The newest batches, while their reports arrive."""

import math
from dataclasses import dataclass, field

import numpy as np

from penstock.control.occupancy import Occupancy
from penstock.control.reports import ExecutionReport, RouterReport
from penstock.control.stats import BatchStats, FinishedBatch, OperatorStats
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64, Int64
from penstock.policies.measures import imbalance


@dataclass
class Batch:
    """The reports of one batch so far.

    Attributes:
        instances: number of instances.
        busy_ms: busy time of each instance.
        records: number of records that each instance has executed.
        routed: number of records that each router has routed.
        received: number of records that routers have routed.
        shed: number of records that routers have shed.
        protected: number of records that could not be shed.
        processed: number of records that instances have executed without an error.
        failed: number of records on which the function failed.
        planned_ms: expected waiting time of the admitted records, in total.
        waited_ms: measured waiting time, in total.
        waits: number of records with a measured waiting time.
        emitted: number of records that the function has returned.
        fallbacks: number of router tasks that routed by shuffle.
        began_s: time at which its first router started, in seconds since 1970.
        ended_s: time at which its last report arrived, in seconds since 1970.
        closed: whether no more reports are expected.
        occupancy: slots on which its tasks ran.
    """

    instances: int
    busy_ms: Float64 = field(init=False)
    records: Int64 = field(init=False)
    routed: dict[int, int] = field(default_factory=dict)
    received: int = 0
    shed: int = 0
    protected: int = 0
    processed: int = 0
    failed: int = 0
    planned_ms: float = 0.0
    waited_ms: float = 0.0
    waits: int = 0
    emitted: int = 0
    fallbacks: int = 0
    began_s: float = math.inf
    ended_s: float = math.nan
    closed: bool = False
    occupancy: Occupancy = field(init=False)

    def __post_init__(self) -> None:
        self.occupancy = Occupancy(self.instances)
        self.busy_ms = np.zeros(self.instances)
        self.records = np.zeros(self.instances, dtype=np.int64)

    def add_router(self, report: RouterReport) -> None:
        """Add the report of a router."""
        router = report.task.partition
        # Routers of a grouping that does not learn do not ask; their own time is known.
        self.began_s = min(self.began_s, self.ended_s - report.router_ms / 1000)
        self.fallbacks += bool(report.fallback)
        self.routed[router] = self.routed.get(router, 0) + report.records
        self.received += report.records
        self.shed += report.shed
        self.protected += report.protected
        self.planned_ms += report.planned_ms

    def touch(self, now_s: float, began_s: float) -> None:
        """Note the arrival of a report.

        Args:
            now_s: present time, in seconds since 1970.
            began_s: time at which a router first asked for the snapshot; infinite if none did.
        """
        self.ended_s = now_s
        self.began_s = min(self.began_s, began_s)

    def add_instance(self, report: ExecutionReport) -> None:
        """Add the report of an instance."""
        self.busy_ms[report.task.partition] += report.busy_ms
        self.records[report.task.partition] += report.records
        self.processed += report.records
        self.emitted += report.emitted
        self.failed += report.failed
        self.waited_ms += report.waited_ms
        self.waits += report.waits

    @property
    def complete(self) -> bool:
        """Whether all records are executed or shed; all routers report before any instance.

        An instance without records reports nothing.
        """
        return self.closed or (self.executed > 0 and self.accounted)

    @property
    def settled(self) -> bool:
        """Whether all records are accounted for: executed, or all of them were shed.

        If all records were shed, no instance reports. More routers may still report.
        """
        return self.closed or (self.received > 0 and self.accounted)

    @property
    def accounted(self) -> bool:
        """Whether all records that were received so far are executed or shed."""
        return self.received == self.executed + self.shed

    @property
    def executed(self) -> int:
        """Number of records that instances have executed, with or without an error."""
        return self.processed + self.failed

    @property
    def counts(self) -> dict[str, int]:
        """Counts for the journal: records received, shed, processed and failed."""
        failed = {"failed": self.failed} if self.failed else {}
        counts = {"received": self.received, "shed": self.shed, "processed": self.processed}
        return {**counts, **failed}

    @property
    def duration_ms(self) -> float:
        """Time from the start of the first router to the last report; NaN if it is unknown."""
        return 1000 * (self.ended_s - self.began_s) if self.began_s < math.inf else math.nan

    @property
    def waiting_ms(self) -> float:
        """Mean time from arrival to execution; NaN if nothing was measured."""
        return self.waited_ms / self.waits if self.waits else float("nan")

    def imbalance(self, instances: int) -> float:
        """Return the busiest over the mean of the first instances, minus 1; 0 if incomplete."""
        return imbalance(self.busy_ms[:instances]) if self.complete else 0.0

    def stats(self, number: str) -> BatchStats:
        """Return the counts of the batch."""
        return BatchStats(
            batch=number,
            received=self.received,
            shed=self.shed,
            processed=self.processed,
            failed=self.failed,
            waiting_ms=self.waiting_ms,
            emitted=self.emitted,
            duration_ms=self.duration_ms,
            busy_ms=tuple(map(float, self.busy_ms)),
            records=tuple(map(int, self.records)),
            fallbacks=self.fallbacks,
        )

    def finished(self, number: str, stats: OperatorStats, *, active: int) -> FinishedBatch:
        """Return the batch as its operator reports it.

        Args:
            number: number of the batch.
            stats: present counts of the operator.
            active: number of instances that got records of the batch.
        """
        return FinishedBatch(
            **vars(self.stats(number)),
            operator=stats.name,
            query=stats.query,
            query_name=stats.query_name,
            state=stats.state,
            active=active,
            imbalance=self.imbalance(active),
            target_ms=stats.target_ms,
            warnings=stats.warnings,
            finished_s=self.ended_s,
        )

    def feedback(self, active: int) -> Feedback:
        """Return what a shedder learns from the batch as a whole.

        Args:
            active: present number of instances: policies do not know that of the batch.
        """
        # Without measured waiting times the plan is assumed to have come true.
        measured = self.waits > 0
        return Feedback(
            0,
            waited_ms=self.waiting_ms * self.executed if measured else self.planned_ms,
            records=self.executed,
            planned_ms=self.planned_ms,
            busy_ms=float(self.busy_ms.sum()) / active,
        )
