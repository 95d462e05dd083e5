"""The engine of virtual time: an operator with k FIFO instances behind a grouping."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from penstock.control.stats import imbalance
from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback, SyncRequest, Tracker
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, Int64, kernel
from penstock.policies.validation import at_least_zero, float64s, positive, whole
from penstock.sim.workloads import Stream

_SCHEDULER = -1


@dataclass(frozen=True)
class StateChange:
    """Somebody changed its state: the scheduler, or the tracker of an instance."""

    record: int
    time_ms: float
    who: str
    state: str


@dataclass(frozen=True, eq=False)
class Result:
    """What happened.

    Attributes:
        completion_ms: per record, waiting plus execution.
        instances: per record, where it was executed.
        load_ms: per instance, total execution time.
        messages: how many messages the instances sent to the scheduler.
        message_bytes: their size in total.
        scheduler_bytes: the grouping's memory at the end.
        tracker_bytes: memory of the largest tracker at the end; 0 without trackers.
        changes: of states, in the order of time.
    """

    completion_ms: Float64
    instances: Int32
    load_ms: Float64
    messages: int
    message_bytes: int
    scheduler_bytes: int
    tracker_bytes: int
    changes: tuple[StateChange, ...]

    def mean_completion_ms(self, start: int = 0, stop: int | None = None) -> float:
        """Mean completion time of the records from `start` up to `stop`; NaN if there are none."""
        part = self.completion_ms[start:stop]
        return float(part.mean()) if part.size else float("nan")

    @property
    def messages_per_100(self) -> float:
        """Messages per 100 records."""
        return 100 * self.messages / max(1, self.completion_ms.size)

    @property
    def imbalance(self) -> float:
        """Load of the busiest instance over the mean load, minus 1."""
        return imbalance(self.load_ms)


def simulate(
    grouping: Grouping,
    stream: Stream,
    *,
    slowdowns: Sequence[tuple[int, npt.ArrayLike]] = (),
    delay_ms: float = 0.0,
) -> Result:
    """Route and execute a stream in virtual time.

    The grouping is the one that runs on Spark: it is asked for every record when it arrives, and
    hears what an instance says after the network's delay. It learns: pass a clone to keep yours.

    Args:
        grouping: what is tried.
        stream: what arrives.
        slowdowns: pairs of a record's number and the instances' slowdowns from there on.
        delay_ms: time a message takes from an instance to the scheduler.

    Example:
        >>> from penstock.policies.grouping import RoundRobin
        >>> stream = Stream.of([1, 2, 1], [10.0, 1.0, 10.0]).every(interval_ms=1.0)
        >>> simulate(RoundRobin(instances=2), stream).completion_ms
        array([10.,  1., 18.])
    """
    return _Run(grouping, stream, slowdowns, at_least_zero("delay_ms", delay_ms)).result()


class _Run:
    def __init__(
        self,
        grouping: Grouping,
        stream: Stream,
        slowdowns: Sequence[tuple[int, npt.ArrayLike]],
        delay_ms: float,
    ) -> None:
        k, m = grouping.instances, len(stream)
        self.grouping = grouping
        self.stream = stream
        self.delay_ms = delay_ms
        self.schedule = _checked_slowdowns(slowdowns, k)
        self.slowdown = np.ones(k)
        self.free_ms = np.zeros(k)
        self.finished_ms = np.empty(m)
        self.executed_ms = np.empty(m)
        self.instances = np.empty(m, dtype=np.int32)
        self.given = self.instances, stream.arrivals_ms, stream.costs_ms
        self.outcome = self.free_ms, self.executed_ms, self.finished_ms
        trackers = {instance: grouping.tracker(instance) for instance in range(k)}
        self.trackers: dict[int, Tracker] = {i: t for i, t in trackers.items() if t is not None}
        self.reported = [0] * k
        self.mailbox: list[tuple[float, int, Feedback]] = []
        self.order = count()
        self.messages = 0
        self.message_bytes = 0
        self.states: dict[int, str] = {}
        self.changes: list[StateChange] = []

    def result(self) -> Result:
        self._run()
        models = [getattr(tracker, "model", None) for tracker in self.trackers.values()]
        memory = [getattr(model, "memory_bytes", 0) for model in models]
        return Result(
            completion_ms=self.finished_ms - self.stream.arrivals_ms,
            instances=self.instances,
            load_ms=self._load_ms(),
            messages=self.messages,
            message_bytes=self.message_bytes,
            scheduler_bytes=self.grouping.memory_bytes,
            tracker_bytes=max(memory, default=0),
            changes=tuple(self.changes),
        )

    def _load_ms(self) -> Float64:
        k = self.free_ms.size
        load = np.bincount(self.instances, weights=self.executed_ms, minlength=k)
        return load.astype(np.float64)

    def _run(self) -> None:
        arrivals = self.stream.arrivals_ms
        at, end = 0, len(self.stream)
        if not end:
            return
        for instance in (_SCHEDULER, *self.trackers):
            self._note_state(0, instance)
        while at < end:
            if self.mailbox and self.mailbox[0][0] <= arrivals[at]:
                self._deliver(at)
            if self.schedule and self.schedule[0][0] <= at:
                self._change_slowdowns(at)
            stop = self.schedule[0][0] if self.schedule else end
            if self.mailbox:
                stop = min(stop, int(arrivals.searchsorted(self.mailbox[0][0])))
            at = self._advance(at, stop)

    def _advance(self, at: int, stop: int) -> int:
        """Route and execute some of the records from `at` up to `stop`; return how far it got."""
        arrivals = self.stream.arrivals_ms
        routed = self.grouping.route_until_answer(self.stream.keys[at:stop], arrivals[at:stop])
        _refuse_outside(self.grouping, routed.instances, stop - at)
        stop = at + routed.instances.size
        self.instances[at:stop] = routed.instances
        _serve(at, stop, *self.given, self.slowdown, *self.outcome)
        if routed.answerable and int(routed.instances[-1]) in self.trackers:
            self._hear(stop, routed.request)
            self._note_state(stop - 1, int(routed.instances[-1]))
            self._note_state(stop - 1, _SCHEDULER)
        return stop

    def _hear(self, stop: int, request: SyncRequest | None) -> None:
        """Let the instance that got the last record speak."""
        instance = int(self.instances[stop - 1])
        start, self.reported[instance] = self.reported[instance], stop
        keys, costs_ms = _records_of(
            instance, start, stop, self.instances, self.stream.keys, self.executed_ms
        )
        sent_ms = float(self.finished_ms[stop - 1])
        for feedback in self.trackers[instance].execute(keys, costs_ms, sent_ms, request):
            heapq.heappush(self.mailbox, (sent_ms + self.delay_ms, next(self.order), feedback))
            self.messages += 1
            self.message_bytes += feedback.message_bytes

    def _deliver(self, record: int) -> None:
        now_ms = self.stream.arrivals_ms[record]
        while self.mailbox and self.mailbox[0][0] <= now_ms:
            self.grouping.observe(heapq.heappop(self.mailbox)[2])
        self._note_state(record, _SCHEDULER)

    def _change_slowdowns(self, record: int) -> None:
        while self.schedule and self.schedule[0][0] <= record:
            self.slowdown = self.schedule.pop(0)[1]
            if self.grouping.knows_truth:
                for instance, slowdown in enumerate(self.slowdown):
                    self.grouping.observe(Feedback(instance, slowdown=float(slowdown)))

    def _note_state(self, record: int, instance: int) -> None:
        state = (self.grouping if instance == _SCHEDULER else self.trackers[instance]).state
        if self.states.get(instance) != state:
            self.states[instance] = state
            who = "scheduler" if instance == _SCHEDULER else f"instance {instance}"
            time_ms = float(self.stream.arrivals_ms[record])
            self.changes.append(StateChange(record, time_ms, who, state))


def _refuse_outside(grouping: Grouping, instances: Int32, most: int) -> None:
    """Refuse what would be written outside of arrays: a user's grouping may be wrong."""
    if not 0 < instances.size <= most or not _inside(instances, grouping.instances):
        raise PenstockError(
            f"{type(grouping).__name__}.route must return one instance from 0 to "
            f"{grouping.instances - 1} for each record; got {instances[:5]}..."
        )


@kernel
def _inside(instances: Int32, count: int) -> bool:
    outside = 0
    for i in range(instances.size):
        outside += not 0 <= instances[i] < count
    return outside == 0


def _checked_slowdowns(
    slowdowns: Sequence[tuple[int, npt.ArrayLike]], instances: int
) -> list[tuple[int, Float64]]:
    schedule = []
    for record, factors in slowdowns:
        array = float64s("slowdowns", factors, instances)
        for factor in array:
            positive("slowdowns", float(factor))
        schedule.append((whole("slowdowns: record", record, least=0), array))
    return sorted(schedule, key=lambda pair: pair[0])


@kernel
def _serve(
    start: int,
    stop: int,
    instances: Int32,
    arrivals_ms: Float64,
    costs_ms: Float64,
    slowdown: Float64,
    free_ms: Float64,
    executed_ms: Float64,
    finished_ms: Float64,
) -> None:
    """First in, first out: execute each record when its instance is done with those before."""
    for i in range(start, stop):
        chosen = instances[i]
        executed_ms[i] = costs_ms[i] * slowdown[chosen]
        free_ms[chosen] = max(free_ms[chosen], arrivals_ms[i]) + executed_ms[i]
        finished_ms[i] = free_ms[chosen]


@kernel
def _records_of(
    instance: int, start: int, stop: int, instances: Int32, keys: Int64, executed_ms: Float64
) -> tuple[Int64, Float64]:
    """Keys and costs of those records from `start` up to `stop` that one instance executed."""
    own_keys = np.empty(stop - start, dtype=np.int64)
    own_costs = np.empty(stop - start)
    found = 0
    for i in range(start, stop):
        if instances[i] == instance:
            own_keys[found] = keys[i]
            own_costs[found] = executed_ms[i]
            found += 1
    return own_keys[:found], own_costs[:found]
