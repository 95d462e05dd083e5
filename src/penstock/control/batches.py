"""The newest batches, while their reports arrive."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from penstock.control.reports import ExecutionReport, RouterReport
from penstock.control.stats import BatchStats
from penstock.policies.kernels import Float64
from penstock.policies.measures import imbalance

T = TypeVar("T")


@dataclass
class Batch:
    """The reports of one batch so far.

    Attributes:
        instances: number of instances.
        busy_ms: busy time of each instance; NaN until it has reported.
        routed: number of records that each router has routed.
        received: number of records that routers have routed.
        shed: number of records that routers have shed.
        protected: number of records that could not be shed.
        processed: number of records that instances have executed.
        planned_ms: expected waiting time of the admitted records, in total.
        waited_ms: measured waiting time, in total.
        waits: number of records with a measured waiting time.
    """

    instances: int
    busy_ms: Float64 = field(init=False)
    routed: dict[int, int] = field(default_factory=dict)
    received: int = 0
    shed: int = 0
    protected: int = 0
    processed: int = 0
    planned_ms: float = 0.0
    waited_ms: float = 0.0
    waits: int = 0

    def __post_init__(self) -> None:
        self.busy_ms = np.full(self.instances, np.nan)

    def add_router(self, report: RouterReport) -> None:
        """Add the report of a router."""
        self.routed[report.task.partition] = report.records
        self.received += report.records
        self.shed += report.shed
        self.protected += report.protected
        self.planned_ms += report.planned_ms

    def add_instance(self, report: ExecutionReport) -> None:
        """Add the report of an instance."""
        self.busy_ms[report.task.partition] = report.busy_ms
        self.processed += report.records
        self.waited_ms += report.waited_ms
        self.waits += report.waits

    @property
    def complete(self) -> bool:
        """Whether all instances have reported; all routers have reported before them."""
        return not np.isnan(self.busy_ms).any()

    @property
    def settled(self) -> bool:
        """Whether all records are accounted for: executed, or all of them were shed.

        If all records were shed, Spark may not run the operator's tasks at all.
        """
        return self.complete or (self.received > 0 and self.received == self.shed)

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
            waiting_ms=self.waiting_ms,
        )


def trim(by_batch: OrderedDict[str, T], most: int) -> None:
    """Remove the oldest entries above a number."""
    while len(by_batch) > most:
        by_batch.popitem(last=False)
