"""The routing stage: keys in, destinations out, decided with the driver's newest snapshot."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.control import OperatorPolicies, Snapshot
from penstock.control.reports import RouterReport, TaskId
from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin
from penstock.policies.kernels import Bool, Float64, Int32, Int64
from penstock.policies.shedding import Shedder
from penstock.spark.channel import Address, ControlClient
from penstock.spark.executor.reporting import Reports, send
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import task_id

if TYPE_CHECKING:
    from pyspark import Accumulator

# Shared by all tasks that this Python worker runs.
_clients: dict[Address, ControlClient] = {}
_snapshots: dict[tuple[str, str], Snapshot] = {}
_policies: dict[str, OperatorPolicies] = {}

# Spark passes a single column as it is, and several as a tuple.
Columns: TypeAlias = "pa.Array | tuple[pa.Array, ...]"
ColumnBatches = Iterator[Columns]


@dataclass(frozen=True)
class Control:
    """The policies that a task decides with.

    Attributes:
        policies: policies with everything that the driver has learnt, or those of the fallback.
        snapshot: snapshot of the driver; None without its answer.
        fallback: reason why the driver's answer is missing; empty if it is not missing.
    """

    policies: OperatorPolicies
    snapshot: Snapshot | None
    fallback: str = ""

    @property
    def age_ms(self) -> float:
        """Age of the snapshot; NaN if the driver did not answer."""
        if self.fallback:
            return float("nan")
        return 1000 * (time.time() - self.snapshot.created_s) if self.snapshot else 0.0


def routing(
    spec: OperatorSpec, reports: "Accumulator[Reports]"
) -> Callable[[ColumnBatches], ColumnBatches]:
    """Return the function that routes the records of one task.

    It takes the hashes of keys. If the operator sheds, it also takes the times of arrival in
    milliseconds since 1970, and whether each record is protected.
    """

    def route(batches: ColumnBatches) -> Iterator[pa.Array]:
        task = task_id(spec)
        start = time.perf_counter()
        control = control_of(spec, task)
        router = _Router(spec, task, control)
        spent = time.perf_counter() - start
        age_ms = control.age_ms
        for columns in batches:
            start = time.perf_counter()
            destinations = pa.array(router.route(columns))
            spent += time.perf_counter() - start
            yield destinations
        send(reports, router.report(1000 * spent, age_ms))

    return route


class _Router:
    """Decides about the records of one task, and counts them."""

    def __init__(self, spec: OperatorSpec, task: TaskId, control: Control) -> None:
        self._task = task
        self._control = control
        self._grouping = control.policies.grouping
        self._shedder = control.policies.shedder
        self._shed_to = spec.destinations.for_shed(task.partition)
        self._records = self._shed = self._protected = self._undated = self._early = 0
        self._grouping.begin(task.partition)
        self._now_ms = 0.0
        if self._shedder is not None and control.snapshot is not None:
            self._now_ms = 1000 * control.snapshot.began_s
            self._shedder.begin(self._now_ms, control.snapshot.share(task.partition))

    def route(self, columns: Columns) -> Int32:
        """Return the destination of each record."""
        keys, *more = columns if isinstance(columns, tuple) else (columns,)
        hashed: Int64 = keys.to_numpy(zero_copy_only=False)
        self._records += hashed.size
        if self._shedder is None:  # also without the driver: nothing is shed blindly
            return self._grouping.route_together(hashed)
        arrival_ms = more[0].to_numpy(zero_copy_only=False)
        protected = more[1].to_numpy(zero_copy_only=False).astype(np.bool_)
        admitted = self._admit(self._shedder, hashed, arrival_ms=arrival_ms, protected=protected)
        out = np.full(hashed.size, self._shed_to, dtype=np.int32)
        out[admitted] = self._grouping.route_together(hashed[admitted])
        return out

    def _admit(
        self, shedder: Shedder, keys: Int64, *, arrival_ms: Float64, protected: Bool
    ) -> Bool:
        undated, early = np.isnan(arrival_ms), arrival_ms > self._now_ms
        self._undated += int(undated.sum())
        self._early += int(early.sum())
        self._protected += int(protected.sum())
        arrived_ms = np.where(undated | early, self._now_ms, arrival_ms)
        now_ms = np.full(keys.size, self._now_ms)
        admitted = shedder.admit_together(keys, arrived_ms, now_ms, protected)
        self._shed += keys.size - int(admitted.sum())
        return admitted

    def report(self, router_ms: float, age_ms: float) -> RouterReport:
        """Return the report of this task."""
        return RouterReport(
            task=self._task,
            records=self._records,
            router_ms=router_ms,
            snapshot_age_ms=age_ms,
            fallback=self._control.fallback,
            shed=self._shed,
            planned_ms=self._shedder.planned_ms if self._shedder is not None else 0.0,
            protected=self._protected,
            undated=self._undated,
            early=self._early,
        )


def control_of(spec: OperatorSpec, task: TaskId) -> Control:
    """Fetch the driver's snapshot; without an answer, route by shuffle and shed nothing."""
    policies = _policies.get(spec.identity) or spec.policies()
    if not policies.learns and policies.shedder is None:
        return Control(policies, None)
    client = _clients.setdefault(spec.address, ControlClient(spec.address))
    request = {"operator": spec.identity, "query": task.query, "batch": task.batch}
    known = spec.identity, task.query
    try:
        snapshot = client.fetch(request, _snapshots.get(known))
        policies = policies.sized(snapshot.active_of(spec.instances))
        policies.restore(snapshot.data)
    except (OSError, PenstockError) as error:
        return Control(OperatorPolicies(RoundRobin(spec.instances)), None, str(error))
    _policies[spec.identity] = policies  # a snapshot replaces everything that they have learnt
    _snapshots[known] = snapshot
    return Control(policies, snapshot)
