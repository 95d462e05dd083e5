"""The routing stage: keys in, instances out, with the driver's newest snapshot."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.control import Policies, Snapshot
from penstock.control.reports import Place, RouterReport
from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin
from penstock.policies.kernels import Bool, Float64, Int32, Int64
from penstock.policies.shedding import Shedder
from penstock.spark.channel import Address, ControlClient
from penstock.spark.tasks import OperatorSpec, Reports, place, send

if TYPE_CHECKING:
    from pyspark import Accumulator

SHED = -1

# Of this Python worker, for all tasks it will run.
_clients: dict[Address, ControlClient] = {}
_snapshots: dict[tuple[str, str], Snapshot] = {}
_learners: dict[str, Policies] = {}

# One column, or several: Spark hands out the one as it is.
Columns: TypeAlias = "pa.Array | tuple[pa.Array, ...]"
Batches = Iterator[Columns]


@dataclass(frozen=True)
class Control:
    """What a task decides with.

    Attributes:
        policies: with what the driver has learnt, or those of the fallback.
        snapshot: of the driver; None without its answer.
        fallback: why there is none; empty if it is not missing.
    """

    policies: Policies
    snapshot: Snapshot | None
    fallback: str = ""

    @property
    def age_ms(self) -> float:
        """How old the snapshot is; NaN without one."""
        if self.fallback:
            return float("nan")
        return 1000 * (time.time() - self.snapshot.created_s) if self.snapshot else 0.0


def router(spec: OperatorSpec, reports: "Accumulator[Reports]") -> Callable[[Batches], Batches]:
    """Return the function that routes the records of one task.

    It takes the hashes of keys and, if the operator sheds, times of arrival in milliseconds since
    1970 and whether records are protected.
    """

    def route(batches: Batches) -> Iterator[pa.Array]:
        here = place(spec)
        start = time.perf_counter()
        control = control_of(spec, here)
        task = _Routing(spec, here, control)
        spent = time.perf_counter() - start
        age_ms = control.age_ms
        for columns in batches:
            start = time.perf_counter()
            instances = pa.array(task.route(columns))
            spent += time.perf_counter() - start
            yield instances
        send(reports, task.report(1000 * spent, age_ms))

    return route


class _Routing:
    """Decides about the records of one task, and counts."""

    def __init__(self, spec: OperatorSpec, here: Place, control: Control) -> None:
        self._here = here
        self._control = control
        self._grouping = control.policies.grouping
        self._shedder = control.policies.shedder
        self._shed_to = spec.instances + here.partition % spec.spill if spec.spill else SHED
        self._records = self._shed = self._protected = self._undated = self._early = 0
        self._grouping.begin(here.partition)
        self._now_ms = 0.0
        if self._shedder is not None and control.snapshot is not None:
            self._now_ms = 1000 * control.snapshot.began_s
            self._shedder.begin(self._now_ms, control.snapshot.share(here.partition))

    def route(self, columns: Columns) -> Int32:
        """Return where records go."""
        keys, *more = columns if isinstance(columns, tuple) else (columns,)
        hashed: Int64 = keys.to_numpy(zero_copy_only=False)
        self._records += hashed.size
        if self._shedder is None:  # also without the driver: nothing is shed blindly
            return self._grouping.route_together(hashed)
        arrival_ms = more[0].to_numpy(zero_copy_only=False)
        protected = more[1].to_numpy(zero_copy_only=False).astype(np.bool_)
        admitted = self._admit(self._shedder, hashed, arrival_ms, protected)
        out = np.full(hashed.size, self._shed_to, dtype=np.int32)
        out[admitted] = self._grouping.route_together(hashed[admitted])
        return out

    def _admit(self, shedder: Shedder, keys: Int64, arrival_ms: Float64, protected: Bool) -> Bool:
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
        """Return what this task has done."""
        planned_ms = self._shedder.planned_ms if self._shedder is not None else 0.0
        return RouterReport(
            self._here,
            self._records,
            router_ms,
            age_ms,
            self._control.fallback,
            self._shed,
            planned_ms,
            self._protected,
            self._undated,
            self._early,
        )


def control_of(spec: OperatorSpec, here: Place) -> Control:
    """Return what the driver has learnt; without its answer shuffle, and shed nothing."""
    policies = _learners.get(spec.identity) or spec.policies()
    if not policies.learns and policies.shedder is None:
        return Control(policies, None)
    client = _clients.setdefault(spec.address, ControlClient(spec.address))
    request = {"operator": spec.identity, "query": here.query, "batch": here.batch}
    known = spec.identity, here.query
    try:
        snapshot = client.fetch(request, _snapshots.get(known))
        policies = policies.sized(snapshot.instances or spec.instances)
        policies.restore(snapshot.data)
    except (OSError, PenstockError) as error:
        return Control(Policies(RoundRobin(spec.instances)), None, str(error))
    _learners[spec.identity] = policies  # a snapshot replaces all that they have learnt
    _snapshots[known] = snapshot
    return Control(policies, snapshot)
