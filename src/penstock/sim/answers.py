"""One source whose instances answer: policies receive every answer when it is due."""

import heapq
from itertools import count

import numpy as np

from penstock.policies.feedback import Feedback, SyncRequest, Tracker
from penstock.policies.grouping import Grouping
from penstock.policies.grouping.base import refuse_outside
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.learner import Learner
from penstock.policies.shedding import Shedder
from penstock.policies.shedding.base import refuse_misfit
from penstock.sim.result import Result, StateChange
from penstock.sim.service import Schedule, Service
from penstock.sim.workloads import Stream

# Instance of a record that is shed.
SHED = -1


class Listener:
    """A policy and its trackers at the instances.

    Args:
        name: name of the policy in changes of state.
        policy: policy that receives the answers.
        suffix: end of the names of its trackers in changes of state.
    """

    def __init__(self, name: str, policy: Learner, suffix: str = "") -> None:
        self.name = name
        self.policy = policy
        trackers = {i: policy.tracker(i) for i in range(policy.instances)}
        self.trackers: dict[int, Tracker] = {i: t for i, t in trackers.items() if t is not None}
        self.tracker_names = {i: f"instance {i}{suffix}" for i in self.trackers}
        # Each instance has reported on its records up to this one.
        self.reported = [0] * policy.instances
        # States that have been noted last.
        self.state: str | None = None
        self.tracker_states: dict[int, str | None] = dict.fromkeys(self.trackers)


class AnswersRun:
    """A simulation in steps that end where an instance may answer."""

    def __init__(
        self,
        grouping: Grouping,
        stream: Stream,
        slowdowns: Schedule,
        *,
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
            self.admission = Listener("shedder", shedder, suffix=" (shedder)")
            self.listeners.append(self.admission)
        self.mailbox: list[tuple[float, int, Listener, Feedback]] = []
        self.order = count()
        self.messages = 0
        self.message_bytes = 0
        self.changes: list[StateChange] = []

    def result(self) -> Result:
        """Run the simulation, and return its result."""
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
            self._note_state(0, one)
            for instance in one.trackers:
                self._note_tracker_state(0, one, instance)
        while at < end:
            self._deliver(at)
            if self.service.change(at):
                for one in self.listeners:
                    self.service.report_slowdowns(one.policy)
            stop = self.service.next_change
            if self.mailbox:
                stop = min(stop, int(arrivals.searchsorted(self.mailbox[0][0])))
            at = self._advance(at, stop)

    def _advance(self, at: int, stop: int) -> int:
        """Process some of the records from `at` up to `stop`; return the first one that is left."""
        if self.shedder is None:
            return self._route(at, slice(at, stop))
        arrivals = self.stream.arrivals_ms[at:stop]
        spared = self.protected[at:stop]
        keys = self.stream.keys[at:stop]
        more = self._sizes(self.shedder, slice(at, stop))
        admitted = self.shedder.admit_until_answer(keys, arrivals, arrivals, spared, **more)
        refuse_misfit(self.shedder, admitted.mask, most=stop - at, least=1)
        stop = at + admitted.mask.size
        kept = at + np.flatnonzero(admitted.mask)
        self.service.execution.instances[at:stop] = SHED
        done = at
        while kept.size:
            # The grouping receives answers, too: admitted records may need several steps.
            self._deliver(int(kept[0]))
            done = self._route(done, kept[: self._due(kept)])
            kept = kept[np.searchsorted(kept, done) :]
        if admitted.answerable:
            self._answer(self.admission, stop, admitted.request)
        return stop

    def _due(self, records: Int64) -> int:
        """Return how many of these records arrive before the next message, but at least one."""
        if not self.mailbox:
            return records.size
        return max(1, int(self.stream.arrivals_ms[records].searchsorted(self.mailbox[0][0])))

    def _route(self, at: int, records: slice | Int64) -> int:
        """Route some of the records; return the record after the last of them."""
        keys, arrivals = self.stream.keys[records], self.stream.arrivals_ms[records]
        more = self._sizes(self.grouping, records)
        routed = self.grouping.route_until_answer(keys, arrivals, **more)
        refuse_outside(self.grouping, routed.instances, most=keys.size)
        count = routed.instances.size
        if isinstance(records, slice):
            stop = at + count
            self.service.execution.instances[at:stop] = routed.instances
        else:
            stop = int(records[count - 1]) + 1
            self.service.execution.instances[records[:count]] = routed.instances
        if routed.answerable:
            self._answer(self.scheduler, stop, routed.request)
        return stop

    def _sizes(self, policy: Learner, records: slice | Int64) -> dict[str, Float64]:
        """Return the sizes of some records as an argument, for a policy that asks for them."""
        sizes = self.stream.sizes
        return {} if sizes is None or not policy.sized else {"sizes": sizes[records]}

    def _answer(self, listener: Listener, stop: int, request: SyncRequest | None) -> None:
        """Let the instance of the record before `stop` report the records that it has executed."""
        done = self.service.execution
        instance = int(done.instances[stop - 1])
        tracker = listener.trackers.get(instance)
        if tracker is None:
            return
        self.service.execute_until(stop)
        unreported = slice(listener.reported[instance], stop)
        listener.reported[instance] = stop
        (own,) = (done.instances[unreported] == instance).nonzero()
        keys = self.stream.keys[unreported].take(own)
        costs_ms = done.executed_ms[unreported].take(own)
        sent_ms = float(done.finished_ms[stop - 1])
        more = self._sizes(listener.policy, unreported.start + own)
        for feedback in tracker.execute(keys, costs_ms, sent_ms, request, **more):
            message = sent_ms + self.delay_ms, next(self.order), listener, feedback
            heapq.heappush(self.mailbox, message)
            self.messages += 1
            self.message_bytes += feedback.message_bytes
        self._note_state(stop - 1, listener)
        self._note_tracker_state(stop - 1, listener, instance)

    def _deliver(self, record: int) -> None:
        now_ms = self.stream.arrivals_ms.item(record)
        while self.mailbox and self.mailbox[0][0] <= now_ms:
            _, _, listener, feedback = heapq.heappop(self.mailbox)
            listener.policy.observe(feedback)
            self._note_state(record, listener)

    def _note_state(self, record: int, listener: Listener) -> None:
        """Note if a policy is in another state than before."""
        state = listener.policy.state
        if state != listener.state:
            listener.state = state
            self._note(record, listener.name, state)

    def _note_tracker_state(self, record: int, listener: Listener, instance: int) -> None:
        """Note if the tracker of a policy at an instance is in another state than before."""
        state = listener.trackers[instance].state
        if state != listener.tracker_states[instance]:
            listener.tracker_states[instance] = state
            self._note(record, listener.tracker_names[instance], state)

    def _note(self, record: int, who: str, state: str) -> None:
        time_ms = float(self.stream.arrivals_ms[record])
        self.changes.append(StateChange(record=record, time_ms=time_ms, who=who, state=state))
