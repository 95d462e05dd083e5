"""One source whose instances answer: policies hear every answer in time."""

import heapq
from itertools import count

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback, SyncRequest, Tracker
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Bool, Int64
from penstock.policies.learner import Learner
from penstock.policies.shedding import Shedder
from penstock.sim.result import Result, StateChange
from penstock.sim.service import Schedule, Service, records_of, refuse_outside
from penstock.sim.workloads import Stream

SHED = -1


class Listener:
    """A policy with its trackers at the instances, and up to where each of them has been heard."""

    def __init__(self, who: str, policy: Learner) -> None:
        self.who = who
        self.policy = policy
        trackers = {i: policy.tracker(i) for i in range(policy.instances)}
        self.trackers: dict[int, Tracker] = {i: t for i, t in trackers.items() if t is not None}
        self.heard = [0] * policy.instances


class AnswersRun:
    """A simulation in steps that end where an instance may answer."""

    def __init__(
        self,
        grouping: Grouping,
        stream: Stream,
        slowdowns: Schedule,
        delay_ms: float,
        shedder: Shedder | None,
        protected: Bool,
    ) -> None:
        self.grouping = grouping
        self.shedder = shedder
        self.stream = stream
        self.protected = protected
        self.delay_ms = delay_ms
        self.service = Service(stream, grouping.instances, slowdowns)
        self.scheduler = Listener("scheduler", grouping)
        self.listeners = [self.scheduler]
        if shedder is not None:
            self.gatekeeper = Listener("shedder", shedder)
            self.listeners.append(self.gatekeeper)
        self.mailbox: list[tuple[float, int, Listener, Feedback]] = []
        self.order = count()
        self.messages = 0
        self.message_bytes = 0
        self.states: dict[str, str] = {}
        self.changes: list[StateChange] = []

    def result(self) -> Result:
        """Run, and return what happened."""
        self._run()
        trackers = [tracker for one in self.listeners for tracker in one.trackers.values()]
        models = [getattr(tracker, "model", None) for tracker in trackers]
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
        for one in self.listeners:
            self._note_states(0, one, *one.trackers)
        while at < end:
            self._deliver(at)
            if self.service.change(at):
                for one in self.listeners:
                    self.service.tell_slowdowns(one.policy)
            stop = self.service.next_change()
            if self.mailbox:
                stop = min(stop, int(arrivals.searchsorted(self.mailbox[0][0])))
            at = self._advance(at, stop)

    def _advance(self, at: int, stop: int) -> int:
        """Decide about some of the records from `at` up to `stop`; return how far it got."""
        if self.shedder is None:
            return self._route(at, slice(at, stop))
        arrivals = self.stream.arrivals_ms[at:stop]
        spared = self.protected[at:stop]
        keys = self.stream.keys[at:stop]
        admitted = self.shedder.admit_until_answer(keys, arrivals, arrivals, spared)
        stop = at + _decided(self.shedder, admitted.mask, stop - at)
        kept = at + np.flatnonzero(admitted.mask)
        self.service.instances[at:stop] = SHED
        self.service.execute(at, stop)
        done = at
        while kept.size:
            # What is admitted may be routed in several steps, as its grouping hears answers, too.
            self._deliver(int(kept[0]))
            done = self._route(done, kept[: self._due(kept)])
            kept = kept[np.searchsorted(kept, done) :]
        if admitted.answerable:
            self._hear(self.gatekeeper, stop, admitted.request)
        return stop

    def _due(self, records: Int64) -> int:
        """How many of these records arrive before the next message."""
        if not self.mailbox:
            return records.size
        return max(1, int(self.stream.arrivals_ms[records].searchsorted(self.mailbox[0][0])))

    def _route(self, at: int, records: slice | Int64) -> int:
        """Route some of the records, and execute up to the last of them; return what follows it."""
        keys, arrivals = self.stream.keys[records], self.stream.arrivals_ms[records]
        routed = self.grouping.route_until_answer(keys, arrivals)
        count = routed.instances.size
        refuse_outside(self.grouping, routed.instances, keys.size)
        if isinstance(records, slice):
            stop = at + count
            self.service.instances[at:stop] = routed.instances
        else:
            stop = int(records[count - 1]) + 1
            self.service.instances[records[:count]] = routed.instances
        self.service.execute(at, stop)
        if routed.answerable:
            self._hear(self.scheduler, stop, routed.request)
        return stop

    def _hear(self, listener: Listener, stop: int, request: SyncRequest | None) -> None:
        """Let the instance that got the last record speak."""
        done = self.service
        instance = int(done.instances[stop - 1])
        tracker = listener.trackers.get(instance)
        if tracker is None:
            return
        start, listener.heard[instance] = listener.heard[instance], stop
        keys, costs_ms = records_of(
            instance, start, stop, done.instances, self.stream.keys, done.executed_ms
        )
        sent_ms = float(done.finished_ms[stop - 1])
        for feedback in tracker.execute(keys, costs_ms, sent_ms, request):
            message = sent_ms + self.delay_ms, next(self.order), listener, feedback
            heapq.heappush(self.mailbox, message)
            self.messages += 1
            self.message_bytes += feedback.message_bytes
        self._note_states(stop - 1, listener, instance)

    def _deliver(self, record: int) -> None:
        now_ms = self.stream.arrivals_ms[record]
        while self.mailbox and self.mailbox[0][0] <= now_ms:
            _, _, listener, feedback = heapq.heappop(self.mailbox)
            listener.policy.observe(feedback)
            self._note_states(record, listener)

    def _note_states(self, record: int, listener: Listener, *instances: int) -> None:
        """Take note if a policy, or its tracker at some of the instances, is in another state."""
        suffix = "" if listener is self.scheduler else f" ({listener.who})"
        self._note(record, listener.who, listener.policy.state)
        for instance in instances:
            self._note(record, f"instance {instance}{suffix}", listener.trackers[instance].state)

    def _note(self, record: int, who: str, state: str) -> None:
        if self.states.get(who) != state:
            self.states[who] = state
            time_ms = float(self.stream.arrivals_ms[record])
            self.changes.append(StateChange(record, time_ms, who, state))


def _decided(shedder: Shedder, mask: Bool, most: int) -> int:
    """Return about how many records a shedder has decided; a user's may be wrong."""
    if mask.dtype != np.bool_ or not 1 <= mask.size <= most:
        raise PenstockError(
            f"{type(shedder).__name__}.admit must return True or False for each record; "
            f"got {mask[:5]}..."
        )
    return int(mask.size)
