"""Counts and costs of an operator."""

from dataclasses import dataclass, field

import numpy as np

from penstock.policies.kernels import Float64


@dataclass(frozen=True)
class InstanceStats:
    """One instance.

    Attributes:
        records: number of records that it has executed.
        busy_ms: time spent in the function.
        expected_ms: cost that the policies expected when the records were reported.
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
        shed: number of records that were not admitted; received = processed + shed.
        processed: number of records that instances have executed.
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
        last: counts of the newest complete batch.
        warnings: warnings for a person, the newest last.
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
    last: "BatchStats | None"
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class BatchStats:
    """One batch.

    Attributes:
        batch: number of the batch.
        received: number of records that routers have routed.
        shed: number of records that were not admitted.
        processed: number of records that instances have executed.
        waiting_ms: mean time from arrival to execution; NaN if nothing was measured.
    """

    batch: str
    received: int
    shed: int
    processed: int
    waiting_ms: float


@dataclass
class Tally:
    """Running totals of an operator."""

    instances: int
    records: Float64 = field(init=False)
    busy_ms: Float64 = field(init=False)
    expected_ms: Float64 = field(init=False)
    received: int = 0
    shed: int = 0
    waited_ms: float = 0.0
    waits: int = 0
    emitted: int = 0
    incomplete: int = 0
    batches: int = 0
    fallbacks: int = 0
    fallback_reason: str = ""
    router_ms: float = 0.0
    snapshot_age_ms: float = float("nan")

    def __post_init__(self) -> None:
        self.records = np.zeros(self.instances)
        self.busy_ms = np.zeros(self.instances)
        self.expected_ms = np.zeros(self.instances)

    @property
    def processed(self) -> int:
        """Records that instances have executed."""
        return int(self.records.sum()) - self.incomplete

    def per_instance(self) -> tuple[InstanceStats, ...]:
        """Return the counts of each instance."""
        rows = zip(self.records, self.busy_ms, self.expected_ms, strict=True)
        return tuple(InstanceStats(int(n), float(b), float(e)) for n, b, e in rows)
