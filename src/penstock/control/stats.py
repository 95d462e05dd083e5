"""Counts and costs of an operator."""

import json
import math
from dataclasses import dataclass, field

import numpy as np

from penstock.policies.kernels import Float64, Int64


@dataclass(frozen=True)
class InstanceStats:
    """One instance.

    Attributes:
        records: number of records that it has executed.
        busy_ms: time spent in the function, over the number of calls at a time (`concurrency`).
        expected_ms: busy time that the policies expected when the records were reported.
    """

    records: int
    busy_ms: float
    expected_ms: float

    @property
    def mean_cost_ms(self) -> float:
        """Mean cost of a record."""
        return self.busy_ms / self.records if self.records else 0.0


@dataclass(frozen=True)
class OperatorStats:
    """An operator in one query.

    Attributes:
        name: name of the operator.
        query: identity of the query; empty for batch jobs.
        state: state of the shedder, if there is one; otherwise of the grouping.
        batches: number of batches.
        received: number of records that routers have routed; in complete batches only, if the
            operator sheds.
        shed: number of records that were not admitted; received = processed + shed + failed.
        processed: number of records that instances have executed without an error.
        emitted: number of records that the function has returned; of partial states, for an
            aggregation.
        instances: counts of each instance.
        active: number of instances that get records.
        imbalance: busiest over mean instance in the last complete batch, minus 1.
        fallbacks: number of router tasks that routed by shuffle.
        fallback_reason: reason of the last fallback.
        router_ms: time spent on routing, in total.
        snapshot_age_ms: age of the last snapshot when a router used it.
        waiting_ms: mean time from arrival to execution; NaN unless the operator sheds.
        slowdowns: time that each executor takes for a record over that of the median executor;
            empty if the grouping does not learn it.
        last: counts of the newest complete batch.
        warnings: warnings for a person, the newest last.
        query_name: name of the query; its identity if it has no name.
        target_ms: limit of the shedder's target; None without one.
        failed: number of records on which the function failed, and that were skipped or kept.
        cost_source: where estimates of costs come from, if the function takes batches: from equal
            shares of each batch, or from keys; with the errors of both. Empty otherwise.
    """

    name: str
    query: str
    state: str
    batches: int
    received: int
    shed: int
    processed: int
    emitted: int
    instances: tuple[InstanceStats, ...]
    active: int
    imbalance: float
    fallbacks: int
    fallback_reason: str
    router_ms: float
    snapshot_age_ms: float
    waiting_ms: float
    slowdowns: dict[str, float]
    last: "BatchStats | None"
    warnings: tuple[str, ...]
    query_name: str = ""
    target_ms: float | None = None
    failed: int = 0
    cost_source: str = ""


@dataclass(frozen=True)
class BatchStats:
    """One batch.

    Attributes:
        batch: number of the batch.
        received: number of records that routers have routed.
        shed: number of records that were not admitted.
        processed: number of records that instances have executed without an error.
        waiting_ms: mean time from arrival to execution; NaN if nothing was measured.
        emitted: number of records that the function has returned.
        duration_ms: time from the start of the first router to the last report of a task, on the
            clock of the driver. For `penstock.shed` it is the duration that Spark reports.
        busy_ms: time that each instance spent in the function.
        records: number of records that each instance has executed.
        fallbacks: number of router tasks that routed by shuffle.
        failed: number of records on which the function failed; received = processed + shed +
            failed.
    """

    batch: str
    received: int
    shed: int
    processed: int
    waiting_ms: float
    emitted: int = 0
    duration_ms: float = math.nan
    busy_ms: tuple[float, ...] = ()
    records: tuple[int, ...] = ()
    fallbacks: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class FinishedBatch(BatchStats):
    """One finished batch of an operator: the argument of the callbacks of `op.on_batch`.

    Attributes:
        operator: name of the operator.
        query: identity of the query; empty for batch jobs.
        query_name: name of the query; its identity if it has no name.
        state: state of the shedder, if there is one; otherwise of the grouping.
        active: number of instances that got records.
        imbalance: busiest over mean instance, minus 1.
        target_ms: limit of the shedder's target; None without one.
        warnings: warnings of the operator so far, the newest last.
        finished_s: time at which the last report arrived, in seconds since 1970.
    """

    operator: str
    query: str
    query_name: str
    state: str
    active: int
    imbalance: float
    target_ms: float | None
    warnings: tuple[str, ...]
    finished_s: float

    def to_json(self) -> str:
        """Return the batch as one line of JSON; unknown numbers are null.

        Example:
            >>> batch = FinishedBatch(
            ...     batch="3", received=5, shed=1, processed=4, waiting_ms=float("nan"),
            ...     operator="enrich", query="", query_name="", state="RUN", active=2,
            ...     imbalance=0.0, target_ms=None, warnings=(), finished_s=0.0,
            ... )
            >>> batch.to_json()[:64]
            '{"batch": "3", "received": 5, "shed": 1, "processed": 4, "waitin'
        """
        numbers = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }
        return json.dumps(numbers, allow_nan=False)


@dataclass
class Tally:
    """Running totals of an operator."""

    instances: int
    records: Int64 = field(init=False)
    busy_ms: Float64 = field(init=False)
    expected_ms: Float64 = field(init=False)
    received: int = 0
    shed: int = 0
    failed: int = 0
    waited_ms: float = 0.0
    waits: int = 0
    emitted: int = 0
    batches: int = 0
    fallbacks: int = 0
    fallback_reason: str = ""
    router_ms: float = 0.0
    snapshot_age_ms: float = float("nan")

    def __post_init__(self) -> None:
        self.records = np.zeros(self.instances, dtype=np.int64)
        self.busy_ms = np.zeros(self.instances)
        self.expected_ms = np.zeros(self.instances)

    @property
    def processed(self) -> int:
        """Records that instances have executed without an error."""
        return int(self.records.sum())

    @property
    def executed(self) -> int:
        """Records that instances have executed, with or without an error."""
        return self.processed + self.failed

    def remove(self, received: int, shed: int, records: Int64, *, failed: int) -> None:
        """Take the records of a batch out of the totals.

        Args:
            received: number of records that routers had routed.
            shed: number of records that routers had shed.
            records: number of records that each instance had executed.
            failed: number of records on which the function had failed.
        """
        self.received -= received
        self.shed -= shed
        self.failed -= failed
        self.records -= records

    def per_instance(self) -> tuple[InstanceStats, ...]:
        """Return the counts of each instance."""
        rows = zip(self.records, self.busy_ms, self.expected_ms, strict=True)
        return tuple(InstanceStats(int(n), float(b), float(e)) for n, b, e in rows)
