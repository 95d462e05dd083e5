"""What is known of the newest batches while their reports come in."""

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
    """One batch: what its routers and its instances have reported so far.

    Attributes:
        instances: how many there are.
        busy_ms: of each instance; NaN until it has reported.
        routed: records by router.
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
        """Add what a router has reported."""
        self.routed[report.task.partition] = report.records
        self.received += report.records
        self.shed += report.shed
        self.protected += report.protected
        self.planned_ms += report.planned_ms

    def add_instance(self, report: ExecutionReport) -> None:
        """Add what an instance has reported."""
        self.busy_ms[report.task.partition] = report.busy_ms
        self.processed += report.records
        self.waited_ms += report.waited_ms
        self.waits += report.waits

    @property
    def complete(self) -> bool:
        """Whether all instances have reported; routers have by then."""
        return not np.isnan(self.busy_ms).any()

    @property
    def settled(self) -> bool:
        """Whether it is known what became of all records: done, or all of them were shed.

        If nothing is left for the operator, Spark may not run its tasks at all.
        """
        return self.complete or (self.received > 0 and self.received == self.shed)

    @property
    def waiting_ms(self) -> float:
        """Mean time from arrival to execution; NaN if nothing was measured."""
        return self.waited_ms / self.waits if self.waits else float("nan")

    def imbalance(self, instances: int) -> float:
        """Busiest over mean of the first instances, minus 1; 0 until all have reported."""
        return imbalance(self.busy_ms[:instances]) if self.complete else 0.0

    def stats(self, number: str) -> BatchStats:
        """Return what is known."""
        counts = self.received, self.shed, self.processed
        return BatchStats(number, *counts, self.waiting_ms)


def trim(by_batch: OrderedDict[str, T], most: int) -> None:
    """Forget the oldest."""
    while len(by_batch) > most:
        by_batch.popitem(last=False)
