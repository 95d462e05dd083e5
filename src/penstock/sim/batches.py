"""The engine of micro-batches: routers, tasks that start in order, slots, barriers, overheads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback, measure
from penstock.policies.grouping import Grouping
from penstock.policies.grouping.base import refuse_unknown_tasks
from penstock.policies.grouping.list_scheduling import Ran, list_schedule, makespan
from penstock.policies.kernels import Float64, Int32, Int64
from penstock.policies.learner import Learner
from penstock.policies.shedding import Shedder
from penstock.policies.validation import whole
from penstock.sim.batch_parts import BatchesResult, Overheads, Stage, Tasks, Worker, no_tasks
from penstock.sim.service import Schedule, checked_slowdowns
from penstock.sim.workloads import Stream


def simulate_batches(
    stages: Grouping | Sequence[Stage],
    stream: Stream,
    *,
    records: int,
    workers: Sequence[Worker],
    slowdowns: Schedule = (),
    routers: int = 1,
    servers: int = 1,
    overheads: Overheads | None = None,
    seed: int = 0,
) -> BatchesResult:
    """Run a stream in micro-batches, in virtual time.

    A batch is routed by some routers, each of which sees its share of the records, in the order of
    the stream. Then its tasks start in the order of their numbers, each one on the slot that is
    free first. The next operator, or the next batch, begins when all tasks have ended. The
    groupings learn after each batch, in the way of Spark's control loop.

    Args:
        stages: operators that all records pass through, or one grouping.
        stream: records; their times of arrival do not matter.
        records: number of records of a batch.
        workers: executors.
        slowdowns: pairs of a batch's number and the slowdowns of all workers from there on.
        routers: number of router tasks.
        servers: number of records that a task executes at a time; give the same number to the
            groupings.
        overheads: time that the engine spends besides the records; 10 ms a task by default.
        seed: seed of the order in which free slots are offered.

    Example:
        >>> from penstock.policies.grouping import RoundRobin
        >>> stream = Stream.of([1, 2, 1, 2], [10.0, 1.0, 10.0, 1.0])
        >>> found = simulate_batches(
        ...     RoundRobin(instances=2), stream, records=4, workers=[Worker(slots=2)],
        ...     overheads=Overheads(task_ms=5.0),
        ... )
        >>> found.duration_ms, found.ideal_ms
        (array([25.]), array([11.]))
    """
    operators = [Stage(stages)] if isinstance(stages, Grouping) else list(stages)
    size = whole("records", records, least=1)
    if not operators:
        raise PenstockError("stages must have at least one operator; got none")
    if not workers:
        raise PenstockError("workers must have at least one executor; got none")
    run = BatchRun(
        stream,
        workers,
        whole("routers", routers, least=1),
        servers=whole("servers", servers, least=1),
        overheads=overheads or Overheads(),
        schedule=checked_slowdowns(slowdowns, len(workers)),
        seed=whole("seed", seed, least=0),
    )
    for number, start in enumerate(range(0, len(stream), size)):
        run.batch(number, operators, slice(start, min(start + size, len(stream))))
    return run.result()


class _Measured(NamedTuple):
    """The records of a batch, as its tasks have measured them.

    Attributes:
        keys: key of each record.
        costs_ms: cost of each record.
        sizes: size of each record; None if the grouping asks for none.
    """

    keys: Int64
    costs_ms: Float64
    sizes: Float64 | None


class BatchRun:
    """One simulation, batch by batch.

    Attributes:
        waits_ms: time from the start of the newest batch to the execution of each of its records,
            by its first operator.

    Args:
        stream: records.
        workers: executors.
        routers: number of router tasks.
        servers: number of records that a task executes at a time.
        overheads: time that the engine spends besides the records.
        schedule: pairs of a batch's number and slowdowns, in their order.
        seed: seed of the order in which free slots are offered.
    """

    def __init__(
        self,
        stream: Stream,
        workers: Sequence[Worker],
        routers: int,
        *,
        servers: int,
        overheads: Overheads,
        schedule: list[tuple[int, Float64]],
        seed: int,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._stream = stream
        self._routers = routers
        self._servers = servers
        self._overheads = overheads
        self._schedule = schedule
        self._slowdown = np.array([one.slowdown for one in workers])
        self._slots = np.repeat(np.arange(len(workers)), [one.slots for one in workers])
        self._expected = float("nan")
        self._duration_ms: list[float] = []
        self._ideal_ms: list[float] = []
        self._tasks: list[Tasks] = []
        self.waits_ms = np.zeros(0)

    def batch(
        self,
        number: int,
        operators: list[Stage],
        chosen: slice | Int64,
        *,
        shedder: Shedder | None = None,
    ) -> float:
        """Run one batch through all operators; return its duration.

        Args:
            number: number of the batch.
            operators: operators.
            chosen: records of the batch.
            shedder: shedder that learns costs from the first operator; None without one.
        """
        while self._schedule and self._schedule[0][0] <= number:
            self._slowdown = self._schedule.pop(0)[1]
        keys = self._stream.keys[chosen]
        clock_ms = self._overheads.batch_ms
        ideal_ms = 0.0
        for stage, operator in enumerate(operators):
            costs_ms = self._stream.costs_ms if operator.costs_ms is None else operator.costs_ms
            own_ms = costs_ms[chosen]
            if stage == 0:
                clock_ms += self._routing_ms()
            sizes = self._sizes(operator.grouping, chosen)
            tasks = self._route(operator.grouping, keys, sizes)
            work_ms = self._work_of_tasks(operator.grouping, keys, own_ms, tasks=tasks, sizes=sizes)
            ran, clock_ms = self._execute(
                tasks, work_ms, start_ms=clock_ms + self._overheads.stage_ms
            )
            measured = _Measured(keys, own_ms, sizes)
            self._teach(operator.grouping, measured, tasks=tasks, ran=ran)
            if stage == 0:
                self.waits_ms = _waits_ms(tasks, own_ms * self._slowdown_of(tasks, ran), ran)
                if shedder is not None and shedder.measurements() is not None:
                    sized = measured._replace(sizes=self._sizes(shedder, chosen))
                    self._teach(operator.grouping, sized, tasks=tasks, ran=ran, learner=shedder)
            self._tasks.append(ran._replace(batch=ran.batch + number, stage=ran.stage + stage))
            speeds = 1 / self._slowdown[self._slots]
            all_ms = own_ms.sum() / speeds.sum() / self._servers
            ideal_ms += max(all_ms, own_ms.max() / speeds.max())
        self._expected = float(keys.size)
        self._duration_ms.append(clock_ms)
        self._ideal_ms.append(ideal_ms)
        return clock_ms

    def _slowdown_of(self, tasks: Int32, ran: Tasks) -> Float64:
        """Return the slowdown of the worker that executed each record."""
        of_task = np.ones(int(tasks.max()) + 1)
        of_task[ran.task] = self._slowdown[ran.worker]
        return of_task[tasks]

    def _routing_ms(self) -> float:
        """Return the duration of the first stage, in which routers run."""
        rounds = -(-self._routers // self._slots.size)
        return self._overheads.stage_ms + rounds * self._overheads.router_ms

    def _sizes(self, policy: Learner, chosen: slice | Int64) -> Float64 | None:
        """Return the sizes of some records for a policy that asks for them."""
        sizes = self._stream.sizes
        return None if sizes is None or not policy.sized else sizes[chosen]

    def _route(self, grouping: Grouping, keys: Int64, sizes: Float64 | None) -> Int32:
        """Let each router decide about its share, with a copy of what the grouping has learnt."""
        learnt = grouping.snapshot()
        out = np.empty(keys.size, dtype=np.int32)
        for router, part in enumerate(np.array_split(np.arange(keys.size), self._routers)):
            one = grouping.clone()
            one.restore(learnt)
            one.expect(self._expected)
            one.begin(router)
            more = {} if sizes is None else {"sizes": sizes[part]}
            found = one.route_together(keys[part], **more)
            refuse_unknown_tasks(one, found, records=part.size)
            out[part] = found
        return out

    def _work_of_tasks(
        self,
        grouping: Grouping,
        keys: Int64,
        costs_ms: Float64,
        *,
        tasks: Int32,
        sizes: Float64 | None,
    ) -> Float64:
        """Return how long each task takes; several servers take the longest records first."""
        count = grouping.tasks
        if self._servers == 1:
            return np.bincount(tasks, weights=costs_ms, minlength=count).astype(np.float64)
        more = {} if sizes is None else {"sizes": sizes}
        possible_ms = grouping.possible_ms(keys, **more)
        order = np.argsort(tasks, kind="stable")
        if possible_ms is not None:
            order = np.lexsort((-possible_ms, tasks))
        bounds = np.searchsorted(tasks[order], np.arange(count + 1))
        one = np.ones(self._servers)
        return np.array(
            [makespan(costs_ms[order[bounds[i] : bounds[i + 1]]], one, 0.0) for i in range(count)]
        )

    def _execute(self, tasks: Int32, work_ms: Float64, *, start_ms: float) -> tuple[Tasks, float]:
        """Run the tasks of one operator; return those that had records, and the time of the end.

        Args:
            tasks: task of each record.
            work_ms: time of each task.
            start_ms: time at which the first tasks start.
        """
        count = work_ms.size
        records = np.bincount(tasks, minlength=count)
        # A scheduler offers free slots in a random order.
        slots = self._rng.permutation(self._slots.size)
        done = Ran(np.empty(count, dtype=np.int64), np.empty(count), np.empty(count))
        own_ms = self._overheads.of_tasks(records)
        list_schedule(
            work_ms,
            (self._slowdown[self._slots[slots]], own_ms, self._overheads.launch_ms),
            np.zeros(slots.size),
            done,
        )
        used = np.flatnonzero(records)
        slot = slots[done.slot[used]]
        worker = self._slots[slot]
        nothing = np.zeros(used.size, dtype=np.int64)
        ran = Tasks(
            batch=nothing,
            stage=nothing,
            task=used,
            worker=worker,
            slot=slot,
            records=records[used],
            start_ms=start_ms + done.began_ms[used],
            busy_ms=work_ms[used] * self._slowdown[worker],
        )
        return ran, start_ms + float(done.end_ms.max(initial=0.0))

    def _teach(
        self,
        grouping: Grouping,
        measured: "_Measured",
        *,
        tasks: Int32,
        ran: Tasks,
        learner: Learner | None = None,
    ) -> None:
        """Report what each task has measured, to the grouping or to another policy."""
        learner = learner or grouping
        if grouping.knows_truth:
            for worker, slowdown in enumerate(self._slowdown):
                grouping.observe(Feedback(worker, slowdown=float(slowdown)))
        order = np.argsort(tasks, kind="stable")
        bounds = (
            np.searchsorted(tasks[order], ran.task),
            np.searchsorted(tasks[order], ran.task, side="right"),
        )
        for i, task in enumerate(ran.task):
            own = order[bounds[0][i] : bounds[1][i]]
            slot = int(ran.slot[i]) % grouping.instances
            instance = int(task) if grouping.tasks == grouping.instances else slot
            tracker = learner.tracker(instance)
            if tracker is None:
                return
            worker = int(ran.worker[i])
            spent_ms = measured.costs_ms[own] * self._slowdown[worker]
            sizes = None if measured.sizes is None else measured.sizes[own]
            messages = measure(tracker, measured.keys[own], spent_ms, sizes=sizes)
            for message in [*messages, *tracker.finish()]:
                learner.observe(
                    replace(message, worker=worker, overhead_ms=self._overheads.task_ms)
                )

    def result(self) -> BatchesResult:
        """Return the result of all batches."""
        return BatchesResult(
            duration_ms=np.array(self._duration_ms),
            ideal_ms=np.array(self._ideal_ms),
            tasks=_concatenated(self._tasks),
        )


def _waits_ms(tasks: Int32, spent_ms: Float64, ran: Tasks) -> Float64:
    """Return when each record is executed, from the start of the batch: tasks run in order.

    Args:
        tasks: task of each record.
        spent_ms: execution time of each record.
        ran: tasks that had records.
    """
    order = np.argsort(tasks, kind="stable")
    before_ms = np.cumsum(spent_ms[order]) - spent_ms[order]
    first = np.searchsorted(tasks[order], ran.task)
    place = np.searchsorted(ran.task, tasks[order])
    out = np.empty(tasks.size)
    out[order] = ran.start_ms[place] + before_ms - before_ms[first][place]
    return out


def _concatenated(parts: list[Tasks]) -> Tasks:
    if not parts:
        return no_tasks()
    return Tasks._make(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
