"""Micro-batches in the course of time: a trigger starts them, and late records make them longer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding import Shedder
from penstock.policies.validation import at_least_zero, whole
from penstock.sim.batch_parts import Overheads, Stage, Worker
from penstock.sim.batches import BatchRun
from penstock.sim.workloads import Stream


@dataclass(frozen=True, eq=False)
class TriggeredResult:
    """Result of a simulation of triggered micro-batches.

    Attributes:
        began_ms: time at which each batch started.
        duration_ms: duration of each batch.
        records: number of records of each batch, with shed ones.
        waiting_ms: time from arrival to execution of each record; NaN for a shed record.
        latency_ms: time from the arrival of each record to the end of its batch; NaN for a shed
            record.
    """

    began_ms: Float64
    duration_ms: Float64
    records: Int64
    waiting_ms: Float64
    latency_ms: Float64

    @property
    def shed(self) -> Bool:
        """Whether each record was shed."""
        return np.isnan(self.latency_ms)


def simulate_triggers(
    grouping: Grouping,
    stream: Stream,
    *,
    workers: Sequence[Worker],
    trigger_ms: float = 0.0,
    limits: Sequence[int] | None = None,
    shedder: Shedder | None = None,
    routers: int = 1,
    servers: int = 1,
    overheads: Overheads | None = None,
    seed: int = 0,
) -> TriggeredResult:
    """Run a stream in micro-batches that a trigger starts, in virtual time.

    A batch takes all records that have arrived. The next one starts at the next tick of the trigger
    after the start of the batch before; at once, if that batch has taken longer.

    With `limits` the source limits each batch, and has always enough: batches follow one another.
    Times of arrival then mean nothing. The records of a batch arrive evenly during the one before.

    Args:
        grouping: grouping that routes the records; it learns.
        stream: records with their times of arrival.
        workers: executors.
        trigger_ms: interval of the trigger; 0 if batches follow one another.
        limits: number of records of each batch, used again and again; None for all that have
            arrived.
        shedder: shedder that decides at the start of each batch; it learns.
        routers: number of router tasks.
        servers: number of records that a task executes at a time.
        overheads: time that the engine spends besides the records.
        seed: seed of the order in which free slots are offered.

    Example:
        >>> from penstock.policies.grouping import RoundRobin
        >>> stream = Stream.of([1, 2, 1, 2], [10.0, 10.0, 10.0, 10.0]).every(interval_ms=10.0)
        >>> found = simulate_triggers(
        ...     RoundRobin(instances=2), stream, workers=[Worker(slots=2)], trigger_ms=20.0,
        ...     overheads=Overheads(task_ms=0.0),
        ... )
        >>> found.began_ms, found.duration_ms, found.latency_ms
        (array([ 0., 20., 40.]), array([10., 10., 10.]), array([10., 20., 10., 20.]))
        >>> simulate_triggers(
        ...     RoundRobin(instances=2), stream, workers=[Worker(slots=2)], limits=[2],
        ...     overheads=Overheads(task_ms=0.0),
        ... ).began_ms
        array([ 0., 10.])
    """
    if not workers:
        raise PenstockError("workers must have at least one executor; got none")
    run = BatchRun(
        stream,
        workers,
        routers,
        servers=servers,
        overheads=overheads or Overheads(),
        schedule=[],
        seed=seed,
    )
    interval_ms = at_least_zero("trigger_ms", trigger_ms)
    source: _Arrived | _Limited = _Arrived(stream.arrivals_ms, interval_ms)
    if limits is not None:
        source = _Limited(np.zeros(len(stream)), limits)
    arrivals_ms = source.arrivals_ms
    stream = replace(stream, arrivals_ms=arrivals_ms)
    idle_ms = overheads.batch_ms if overheads is not None else 0.0
    out = _Collected(len(stream))
    at, began_ms, free_ms = 0, -np.inf, -np.inf
    while at < len(stream):
        began_ms, stop = source.batch(at, began_ms, free_ms)
        chosen = np.arange(at, stop)
        admitted, planned_ms = chosen, 0.0
        if shedder is not None:
            kept, planned_ms = _decide(shedder, stream, slice(at, stop), now_ms=began_ms)
            admitted = chosen[kept]
        if admitted.size:
            number = len(out.began_ms)
            duration_ms = run.batch(number, [Stage(grouping)], admitted, shedder=shedder)
            out.waiting_ms[admitted] = began_ms + run.waits_ms - arrivals_ms[admitted]
            if shedder is not None:
                busy_ms = float(stream.costs_ms[admitted].sum()) / shedder.instances
                waited_ms = out.waiting_ms[admitted]
                _teach(shedder, waited_ms, planned_ms=planned_ms, busy_ms=busy_ms)
        else:
            duration_ms = idle_ms
        free_ms = began_ms + duration_ms
        out.latency_ms[admitted] = free_ms - arrivals_ms[admitted]
        out.began_ms.append(began_ms)
        out.duration_ms.append(duration_ms)
        out.records.append(chosen.size)
        at = stop
    return TriggeredResult(
        began_ms=np.array(out.began_ms),
        duration_ms=np.array(out.duration_ms),
        records=np.array(out.records, dtype=np.int64),
        waiting_ms=out.waiting_ms,
        latency_ms=out.latency_ms,
    )


class _Collected:
    """A result in the making; see `TriggeredResult`."""

    def __init__(self, records: int) -> None:
        self.began_ms: list[float] = []
        self.duration_ms: list[float] = []
        self.records: list[int] = []
        self.waiting_ms = np.full(records, np.nan)
        self.latency_ms = np.full(records, np.nan)


class _Arrived:
    """A source whose batches have all records that have arrived.

    Args:
        arrivals_ms: time of arrival of each record.
        interval_ms: interval of the trigger; 0 for none.
    """

    def __init__(self, arrivals_ms: Float64, interval_ms: float) -> None:
        self.arrivals_ms = arrivals_ms
        self._interval_ms = interval_ms

    def batch(self, at: int, began_ms: float, free_ms: float) -> tuple[float, int]:
        """Return the start of the next batch, and the end of its records.

        Args:
            at: number of its first record.
            began_ms: start of the batch before; minus infinity for none.
            free_ms: end of the batch before.
        """
        arrival_ms = float(self.arrivals_ms[at])
        start_ms = _next_start(self._interval_ms, began_ms, free_ms, arrival_ms=arrival_ms)
        return start_ms, int(np.searchsorted(self.arrivals_ms, start_ms, side="right"))


class _Limited:
    """A source that has always enough records, and limits batches.

    Args:
        arrivals_ms: times of arrival, filled in: evenly during the batch before.
        limits: number of records of each batch, used again and again.
    """

    def __init__(self, arrivals_ms: Float64, limits: Sequence[int]) -> None:
        if not len(limits):
            raise PenstockError("limits must have at least one batch; got none")
        self.arrivals_ms = arrivals_ms
        self._limits = [whole("limits", one, least=1) for one in limits]
        self._batches = 0

    def batch(self, at: int, began_ms: float, free_ms: float) -> tuple[float, int]:
        """Return the start of the next batch, and the end of its records; see `_Arrived`."""
        before_ms, start_ms = max(began_ms, 0.0), max(free_ms, 0.0)
        stop = min(at + self._limits[self._batches % len(self._limits)], self.arrivals_ms.size)
        self._batches += 1
        part = (np.arange(stop - at) + 0.5) / (stop - at)
        self.arrivals_ms[at:stop] = before_ms + (start_ms - before_ms) * part
        return start_ms, stop


def _next_start(interval_ms: float, began_ms: float, free_ms: float, *, arrival_ms: float) -> float:
    """Return the start of the next batch.

    Args:
        interval_ms: interval of the trigger; 0 for none.
        began_ms: start of the batch before; minus infinity for none.
        free_ms: end of the batch before.
        arrival_ms: arrival of the first record that waits.

    Example:
        >>> _next_start(10.0, 0.0, 5.0, arrival_ms=1.0)
        10.0
        >>> _next_start(10.0, 0.0, 17.0, arrival_ms=1.0)
        17.0
        >>> _next_start(10.0, 0.0, 5.0, arrival_ms=32.0)
        40.0
    """
    if interval_ms <= 0:
        return max(free_ms, arrival_ms)
    tick_ms = (np.floor(began_ms / interval_ms) + 1) * interval_ms
    start_ms = max(free_ms, float(tick_ms))
    if start_ms >= arrival_ms:
        return start_ms
    return float(np.ceil(arrival_ms / interval_ms) * interval_ms)


def _decide(shedder: Shedder, stream: Stream, part: slice, *, now_ms: float) -> tuple[Bool, float]:
    """Let a copy of the shedder decide, as a router does; return also the expected waits."""
    router = shedder.clone()
    router.restore(shedder.snapshot())
    router.begin(now_ms)
    more = {} if stream.sizes is None or not shedder.sized else {"sizes": stream.sizes[part]}
    now = np.full(part.stop - part.start, now_ms)
    admitted = router.admit_together(stream.keys[part], stream.arrivals_ms[part], now, **more)
    return admitted, router.planned_ms


def _teach(shedder: Shedder, waiting_ms: Float64, *, planned_ms: float, busy_ms: float) -> None:
    """Report a batch as a whole, in the way of the control loop on Spark."""
    feedback = Feedback(
        0,
        waited_ms=float(waiting_ms.sum()),
        records=int(waiting_ms.size),
        planned_ms=planned_ms,
        busy_ms=busy_ms,
    )
    shedder.observe(feedback)
