"""What a balanced operator has done so far."""

from dataclasses import dataclass, field

import numpy as np

from penstock.policies.kernels import Float64


@dataclass(frozen=True)
class InstanceStats:
    """One instance.

    Attributes:
        records: executed.
        busy_ms: time in the function.
        expected_ms: what the records were expected to cost when they were reported.
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
    """A balanced operator in one query.

    Attributes:
        name: of the operator.
        query: identity of the query; empty for batch jobs.
        state: of the shedder, if there is one; else of the grouping.
        batches: seen.
        received: records that routers have routed; in complete batches, if the operator sheds.
        shed: records that were not admitted; received = processed + shed.
        processed: records that instances have executed.
        emitted: records that the function has returned; partial states, for an aggregation.
        instances: each of them.
        active: how many of them get records.
        imbalance: busiest over mean instance in the last complete batch, minus 1.
        fallbacks: router tasks that routed by shuffle.
        fallback_reason: why the last one did.
        router_ms: time of routing, in total.
        snapshot_age_ms: age of the newest snapshot that a router has used, when it did.
        waiting_ms: mean time from arrival to execution; NaN unless the operator sheds.
        last: the newest complete batch: its records, and how long they waited.
        warnings: what a person should know, the newest last.
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
        batch: its number.
        received: records.
        shed: of them.
        processed: of them.
        waiting_ms: mean time from arrival to execution; NaN if nothing was measured.
    """

    batch: str
    received: int
    shed: int
    processed: int
    waiting_ms: float


@dataclass
class Tally:
    """Counts as reports arrive."""

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
        """Return what is known of each instance."""
        rows = zip(self.records, self.busy_ms, self.expected_ms, strict=True)
        return tuple(InstanceStats(int(n), float(b), float(e)) for n, b, e in rows)
