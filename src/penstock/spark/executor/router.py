"""The routing stage: keys in, destinations out, decided with the driver's newest snapshot."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.control import OperatorPolicies, Snapshot
from penstock.control.newest import trim
from penstock.control.reports import RouterReport, TaskId
from penstock.control.samples import Sampler
from penstock.errors import PenstockError
from penstock.policies.costs.lines import are_sizes
from penstock.policies.grouping.base import refuse_unknown_tasks
from penstock.policies.kernels import Bool, Float64, Int32, Int64
from penstock.policies.learner import Learner
from penstock.policies.shedding import Shedder
from penstock.policies.shedding.base import refuse_misfit
from penstock.spark.executor.columns import ARRIVAL, KEY, PARTITION, PROTECTED, RECORD, SIZE
from penstock.spark.executor.reporting import Reports, send
from penstock.spark.executor.snapshots import Answers, shared_folder
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import map_task_number, task_id

if TYPE_CHECKING:
    from pyspark import Accumulator

# Shared by all tasks that this Python worker runs: the newest few, because operators and
# applications come and go.
_KEPT = 8
_answers: OrderedDict[str, Answers] = OrderedDict()
_policies: OrderedDict[str, OperatorPolicies] = OrderedDict()

# Spark passes a single column as it is, and several as a tuple.
Columns: TypeAlias = "pa.Array | tuple[pa.Array, ...]"
ColumnBatches = Iterator[Columns]
# Columns of some records by name.
Taken = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Control:
    """The policies that a task decides with.

    Attributes:
        task: identity of the task, with its query as the driver knows it.
        policies: policies with everything that the driver has learnt, or those of the fallback.
        snapshot: snapshot of the driver; None without its answer.
        fallback: reason why the driver's answer is missing; empty if it is not missing.
    """

    task: TaskId
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

    It takes the columns that the spec names, and returns the destination of each record.
    """

    def route(batches: ColumnBatches) -> Iterator[pa.Array]:
        taken = (_named(spec, columns) for columns in batches)
        first = next(taken, None)
        if first is None:
            return
        start = time.perf_counter()
        router = _Router(spec, first)
        router.spent_s += time.perf_counter() - start
        decide = _decide_in_order if RECORD in spec.reads else _decide_as_read
        yield from decide(router, itertools.chain([first], taken))
        send(reports, router.report())

    return route


def _named(spec: OperatorSpec, columns: Columns) -> Taken:
    arrays = columns if isinstance(columns, tuple) else (columns,)
    numpy = (array.to_numpy(zero_copy_only=False) for array in arrays)
    return dict(zip(spec.reads, numpy, strict=True))


def _decide_as_read(router: "_Router", batches: Iterator[Taken]) -> Iterator[pa.Array]:
    """Decide about each Arrow batch as it comes."""
    for taken in batches:
        yield pa.array(router.route(taken))


def _decide_in_order(router: "_Router", batches: Iterator[Taken]) -> Iterator[pa.Array]:
    """Decide about all records at once, in an order that depends on the records only.

    Records that come out of a shuffle have another order each time. A task that runs again must
    decide as before.
    """
    parts = list(batches)
    together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(together[RECORD], kind="stable")
    decided = np.empty(order.size, dtype=np.int32)
    decided[order] = router.route({name: array[order] for name, array in together.items()})
    start = 0
    for part in parts:
        end = start + part[RECORD].size
        yield pa.array(decided[start:end])
        start = end


class _Router:
    """Decides about the records of one task, and counts them.

    Args:
        spec: spec of the operator.
        first: first records of the task.
    """

    def __init__(self, spec: OperatorSpec, first: Taken) -> None:
        # A router below a shuffle is the last step of its stage but for the shuffle's own.
        number = int(first[PARTITION][0]) if PARTITION in first else map_task_number()
        self.spent_s = 0.0
        self._control = control_of(spec, task_id(spec, number))
        self._age_ms = self._control.age_ms
        self._grouping = self._control.policies.grouping
        self._shedder = self._control.policies.shedder
        self._shed_to = spec.destinations.for_shed(number)
        self._records = self._shed = self._protected = self._undated = self._early = 0
        self._unsized = 0
        snapshot = self._control.snapshot
        expected = snapshot.records if snapshot is not None else None
        self._grouping.expect(float("nan") if expected is None else expected)
        self._grouping.begin(number)
        # An operator in front has no other tasks; otherwise they record what is not shed.
        self._records_all = PARTITION in first
        self._sampler = Sampler(spec.record, seed=number) if spec.record else None
        self._now_ms = 0.0
        if self._shedder is not None and snapshot is not None:
            self._now_ms = 1000 * snapshot.began_s
            self._shedder.begin(self._now_ms, snapshot.share(number))

    def route(self, taken: Taken) -> Int32:
        """Return the destination of each record."""
        start = time.perf_counter()
        keys: Int64 = taken[KEY]
        sizes: Float64 | None = taken.get(SIZE)
        self._records += keys.size
        if sizes is not None:
            self._unsized += int((~are_sizes(sizes)).sum())
        if self._shedder is None:  # also without the driver: nothing is shed blindly
            out = self._tasks(keys, sizes)
        else:
            admitted = self._admit(self._shedder, taken)
            out = np.full(keys.size, self._shed_to, dtype=np.int32)
            some = None if sizes is None else sizes[admitted]
            out[admitted] = self._tasks(keys[admitted], some)
            self._record(taken, admitted)
        self.spent_s += time.perf_counter() - start
        return out

    def _record(self, taken: Taken, admitted: Bool) -> None:
        """Keep a sample of the records that no other task records."""
        if self._sampler is None:
            return
        chosen = np.ones_like(admitted) if self._records_all else ~admitted
        sizes = taken.get(SIZE)
        self._sampler.add(
            taken[KEY][chosen],
            sizes=None if sizes is None else sizes[chosen],
            arrival_ms=taken[ARRIVAL][chosen],
            shed=~admitted[chosen],
        )

    def _tasks(self, keys: Int64, sizes: Float64 | None) -> Int32:
        """Return the tasks of records, in the form that Spark needs."""
        found = self._grouping.route_together(keys, **sizes_for(self._grouping, sizes))
        refuse_unknown_tasks(self._grouping, found, records=keys.size)
        return found.astype(np.int32, copy=False)

    def _admit(self, shedder: Shedder, taken: Taken) -> Bool:
        arrival_ms, protected = taken[ARRIVAL], taken[PROTECTED].astype(np.bool_)
        undated, early = np.isnan(arrival_ms), arrival_ms > self._now_ms
        self._undated += int(undated.sum())
        self._early += int(early.sum())
        self._protected += int(protected.sum())
        arrived_ms = np.where(undated | early, self._now_ms, arrival_ms)
        now_ms = np.full(protected.size, self._now_ms)
        more = sizes_for(shedder, taken.get(SIZE))
        admitted = shedder.admit_together(taken[KEY], arrived_ms, now_ms, protected, **more)
        refuse_misfit(shedder, admitted, most=protected.size, least=protected.size)
        self._shed += protected.size - int(admitted.sum())
        return admitted

    def report(self) -> RouterReport:
        """Return the report of this task."""
        return RouterReport(
            task=self._control.task,
            records=self._records,
            router_ms=1000 * self.spent_s,
            snapshot_age_ms=self._age_ms,
            fallback=self._control.fallback,
            shed=self._shed,
            planned_ms=self._shedder.planned_ms if self._shedder is not None else 0.0,
            protected=self._protected,
            undated=self._undated,
            early=self._early,
            unsized=self._unsized,
            sample=self._sampler.pack() if self._sampler is not None else b"",
        )


def sizes_for(policy: Learner, sizes: Float64 | None) -> dict[str, Float64]:
    """Return sizes as an argument, for a policy that asks for them."""
    return {} if sizes is None or not policy.sized else {"sizes": sizes}


def control_of(spec: OperatorSpec, task: TaskId) -> Control:
    """Fetch the driver's snapshot.

    Without an answer the task decides as if nothing had been learnt, and sheds nothing.
    """
    policies = _policies.pop(spec.identity, None) or spec.policies()
    if not (policies.learns or policies.shedder is not None or spec.asks):
        return Control(task, policies, None)
    try:
        answer = _answers_of(spec).get(task)
        active = answer.snapshot.active_of(spec.instances)
        if active > spec.instances:
            raise PenstockError(
                f"the snapshot is for {active} instances, and this query has {spec.instances}"
            )
        policies = policies.sized(active)
        policies.restore(answer.snapshot.data)
    except (OSError, PenstockError) as error:
        return Control(task, OperatorPolicies(spec.policies().grouping), None, str(error))
    _policies[spec.identity] = policies  # a snapshot replaces everything that they have learnt
    trim(_policies, _KEPT)
    task = replace(task, query=answer.query, batch=answer.batch, run=answer.run)
    return Control(task, policies, answer.snapshot)


def resolved_task(spec: OperatorSpec, task: TaskId) -> tuple[TaskId, Snapshot | None]:
    """Return a task with its query as the driver knows it, and the snapshot of its batch.

    Without an answer the task stays as it is.
    """
    try:
        answer = _answers_of(spec).get(task)
    except (OSError, PenstockError):
        return task, None
    resolved = replace(task, query=answer.query, batch=answer.batch, run=answer.run)
    return resolved, answer.snapshot


def wanted_names(spec: OperatorSpec, task: TaskId) -> tuple[int, ...]:
    """Return the keys whose names the driver wants. It is not asked: its last answer counts."""
    return _answers_of(spec).wanted(task)


def _answers_of(spec: OperatorSpec) -> Answers:
    application = spec.address.key.hex()
    if application not in _answers:
        _answers[application] = Answers(spec.address, shared_folder(spec.address))
        trim(_answers, _KEPT)
    return _answers[application]
