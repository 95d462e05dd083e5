"""Several sources that route on their own, and instances that are watched in time slots.

Records come to the sources in turn. At the end of a slot every instance knows its utilization: the
work it was given over the slot's length. It tells a source with the acknowledgement of that
source's next record (piggybacking), so each source hears it at another time, and late if the
instance has a long queue.
"""

import heapq
from itertools import count

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Bool, Float64, Int32, kernel
from penstock.sim.result import Result
from penstock.sim.service import Schedule, Service, refuse_outside
from penstock.sim.workloads import Stream

# While acknowledgements are awaited, so many records per source and instance go in one step.
_STEP = 4


class SourcesRun:
    """A simulation in steps that end with slots, and where a source hears a signal."""

    def __init__(
        self,
        grouping: Grouping,
        stream: Stream,
        slowdowns: Schedule,
        delay_ms: float,
        sources: int,
        slot_ms: float | None,
    ) -> None:
        if grouping.tracker(0) is not None:
            raise PenstockError(
                f"sources must be 1 and slot_ms None for {type(grouping).__name__}: its instances "
                "answer one scheduler"
            )
        self.stream = stream
        self.delay_ms = delay_ms
        self.groupings = [grouping, *(grouping.clone() for _ in range(sources - 1))]
        for number, source in enumerate(self.groupings[1:], 1):
            source.restore(grouping.snapshot())
            source.begin(number)
        self.service = Service(stream, grouping.instances, slowdowns)
        self.slot_ms = slot_ms
        first_ms = float(stream.arrivals_ms[0]) if len(stream) else 0.0
        self.slot_end_ms = np.inf if slot_ms is None else first_ms + slot_ms
        self.closed_ms = 0.0
        self.slot_start = 0
        self.oldest = 0
        shape = sources, grouping.instances
        self.awaited = np.zeros(shape, dtype=np.bool_)
        self.heard_ms = np.full(shape, np.nan)
        self.signals: list[Feedback] = []
        self.mailbox: list[tuple[float, int, int, Feedback]] = []
        self.order = count()
        self.messages = 0
        self.message_bytes = 0

    def result(self) -> Result:
        """Run, and return what happened."""
        self._run()
        return self.service.result(
            self.groupings,
            messages=self.messages,
            message_bytes=self.message_bytes,
            tracker_bytes=0,
            changes=(),
        )

    def _run(self) -> None:
        arrivals = self.stream.arrivals_ms
        at, end = 0, len(self.stream)
        while at < end:
            if self.service.change(at):
                for grouping in self.groupings:
                    self.service.tell_slowdowns(grouping)
            while arrivals[at] >= self.slot_end_ms:
                self._close_slot(at)
            self._deliver(float(arrivals[at]))
            ends_ms = min(self.slot_end_ms, self.mailbox[0][0] if self.mailbox else np.inf)
            stop = min(self.service.next_change(), int(arrivals.searchsorted(ends_ms)))
            if self.awaited.any():
                stop = min(stop, at + _STEP * self.awaited.size)
            at = self._advance(at, max(stop, at + 1))

    def _advance(self, at: int, stop: int) -> int:
        """Let every source route its records from `at` up to `stop`, and execute them."""
        sources = len(self.groupings)
        for number, grouping in enumerate(self.groupings):
            own = slice(at + (number - at) % sources, stop, sources)
            keys = self.stream.keys[own]
            if keys.size:
                routed = grouping.route(keys, self.stream.arrivals_ms[own])
                refuse_outside(grouping, routed, keys.size, least=keys.size)
                self.service.instances[own] = routed
        self.service.execute(at, stop)
        if self.awaited.any():
            self._acknowledge(at, stop)
        return stop

    def _close_slot(self, at: int) -> None:
        """Take every instance's utilization, to be told to all sources."""
        service, length_ms = self.service, self.slot_ms
        assert length_ms is not None  # noqa: S101 - without slots none is closed
        given = slice(self.slot_start, at)
        k = self.awaited.shape[1]
        work = np.bincount(service.instances[given], service.executed_ms[given], minlength=k)
        self.signals = [Feedback(i, utilization=float(w) / length_ms) for i, w in enumerate(work)]
        self.awaited[:] = True
        self.closed_ms = self.slot_end_ms
        self.slot_end_ms += length_ms
        self.slot_start = at
        self.oldest = _first_unfinished(self.oldest, at, service.finished_ms, self.closed_ms)
        self._acknowledge(self.oldest, at)

    def _acknowledge(self, start: int, stop: int) -> None:
        """Send the slot's signals with the first record of each source that is done after it."""
        done = self.service.instances, self.service.finished_ms
        _acknowledged(start, stop, self.closed_ms, *done, self.awaited, self.heard_ms)
        for source, instance in np.argwhere(~np.isnan(self.heard_ms)):
            signal = self.signals[instance]
            when_ms = float(self.heard_ms[source, instance]) + self.delay_ms
            heapq.heappush(self.mailbox, (when_ms, next(self.order), int(source), signal))
            self.messages += 1
            self.message_bytes += signal.message_bytes
        self.heard_ms[:] = np.nan

    def _deliver(self, now_ms: float) -> None:
        while self.mailbox and self.mailbox[0][0] <= now_ms:
            _, _, source, signal = heapq.heappop(self.mailbox)
            self.groupings[source].observe(signal)


@kernel
def _first_unfinished(start: int, stop: int, finished_ms: Float64, now_ms: float) -> int:
    while start < stop and finished_ms[start] <= now_ms:
        start += 1
    return start


@kernel
def _acknowledged(
    start: int,
    stop: int,
    closed_ms: float,
    instances: Int32,
    finished_ms: Float64,
    awaited: Bool,
    heard_ms: Float64,
) -> None:
    """Note when each awaited pair of source and instance is done with its first record."""
    sources = awaited.shape[0]
    for i in range(start, stop):
        source, instance = i % sources, instances[i]
        if awaited[source, instance] and finished_ms[i] > closed_ms:
            awaited[source, instance] = False
            heard_ms[source, instance] = finished_ms[i]
