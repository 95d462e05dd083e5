"""One source whose instances answer: the scheduler hears every answer in time."""

import heapq
from itertools import count

from penstock.policies.feedback import Feedback, SyncRequest, Tracker
from penstock.policies.grouping import Grouping
from penstock.sim.result import Result, StateChange
from penstock.sim.service import Schedule, Service, records_of, refuse_outside
from penstock.sim.workloads import Stream

_SCHEDULER = -1


class AnswersRun:
    """A simulation in steps that end where an instance may answer."""

    def __init__(
        self, grouping: Grouping, stream: Stream, slowdowns: Schedule, delay_ms: float
    ) -> None:
        k = grouping.instances
        self.grouping = grouping
        self.stream = stream
        self.delay_ms = delay_ms
        self.service = Service(stream, k, slowdowns)
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
        """Run, and return what happened."""
        self._run()
        models = [getattr(tracker, "model", None) for tracker in self.trackers.values()]
        memory = [getattr(model, "memory_bytes", 0) for model in models]
        return self.service.result(
            [self.grouping],
            messages=self.messages,
            message_bytes=self.message_bytes,
            tracker_bytes=max(memory, default=0),
            changes=tuple(self.changes),
        )

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
            if self.service.change(at):
                self.service.tell_slowdowns(self.grouping)
            stop = self.service.next_change()
            if self.mailbox:
                stop = min(stop, int(arrivals.searchsorted(self.mailbox[0][0])))
            at = self._advance(at, stop)

    def _advance(self, at: int, stop: int) -> int:
        """Route and execute some of the records from `at` up to `stop`; return how far it got."""
        arrivals = self.stream.arrivals_ms
        routed = self.grouping.route_until_answer(self.stream.keys[at:stop], arrivals[at:stop])
        refuse_outside(self.grouping, routed.instances, stop - at)
        stop = at + routed.instances.size
        self.service.instances[at:stop] = routed.instances
        self.service.execute(at, stop)
        if routed.answerable and int(routed.instances[-1]) in self.trackers:
            self._hear(stop, routed.request)
            self._note_state(stop - 1, int(routed.instances[-1]))
            self._note_state(stop - 1, _SCHEDULER)
        return stop

    def _hear(self, stop: int, request: SyncRequest | None) -> None:
        """Let the instance that got the last record speak."""
        done = self.service
        instance = int(done.instances[stop - 1])
        start, self.reported[instance] = self.reported[instance], stop
        keys, costs_ms = records_of(
            instance, start, stop, done.instances, self.stream.keys, done.executed_ms
        )
        sent_ms = float(done.finished_ms[stop - 1])
        for feedback in self.trackers[instance].execute(keys, costs_ms, sent_ms, request):
            heapq.heappush(self.mailbox, (sent_ms + self.delay_ms, next(self.order), feedback))
            self.messages += 1
            self.message_bytes += feedback.message_bytes

    def _deliver(self, record: int) -> None:
        now_ms = self.stream.arrivals_ms[record]
        while self.mailbox and self.mailbox[0][0] <= now_ms:
            self.grouping.observe(heapq.heappop(self.mailbox)[2])
        self._note_state(record, _SCHEDULER)

    def _note_state(self, record: int, instance: int) -> None:
        state = (self.grouping if instance == _SCHEDULER else self.trackers[instance]).state
        if self.states.get(instance) != state:
            self.states[instance] = state
            who = "scheduler" if instance == _SCHEDULER else f"instance {instance}"
            time_ms = float(self.stream.arrivals_ms[record])
            self.changes.append(StateChange(record, time_ms, who, state))
