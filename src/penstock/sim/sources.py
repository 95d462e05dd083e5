"""Several sources that route on their own, and instances that are watched in time slots.

Records reach the sources in turn. At the end of a slot every instance knows its utilization: the
work that it received over the slot's length. It reports it to a source with the acknowledgement of
that source's next record (piggybacking). So each source receives it at another time, and late if
the instance has a long queue.
"""

import heapq
from itertools import count
from typing import NamedTuple

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.grouping.base import refuse_outside
from penstock.policies.kernels import Bool, Float64, kernel
from penstock.sim.result import Result
from penstock.sim.service import Execution, Schedule, Service
from penstock.sim.workloads import Stream

# Records per source and instance that are executed in one step while acknowledgements are awaited.
_STEP = 4


class _Slot(NamedTuple):
    """The last time slot that has ended, and the acknowledgements that carry its signals.

    Attributes:
        closed_ms: time at which the slot ended.
        awaited: whether a source (row) still waits for an instance (column).
        acknowledged_ms: time at which an instance (column) acknowledges to a source (row); NaN if
            there is nothing to send.
    """

    closed_ms: float
    awaited: Bool
    acknowledged_ms: Float64


class _Span(NamedTuple):
    """Records from `start` up to `stop`."""

    start: int
    stop: int


class SourcesRun:
    """A simulation in steps. A step ends with a slot, or where a source receives a signal."""

    def __init__(
        self,
        grouping: Grouping,
        stream: Stream,
        slowdowns: Schedule,
        *,
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
        shape = sources, grouping.instances
        self.slot = _Slot(0.0, np.zeros(shape, dtype=np.bool_), np.full(shape, np.nan))
        self.slot_start = 0
        self.oldest = 0
        # Number of pairs of a source and an instance whose acknowledgement is awaited.
        self.awaited = 0
        self.signals: list[Feedback] = []
        self.mailbox: list[tuple[float, int, int, Feedback]] = []
        self.order = count()
        self.messages = 0
        self.message_bytes = 0

    def result(self) -> Result:
        """Run the simulation, and return its result."""
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
                    self.service.report_slowdowns(grouping)
            while arrivals[at] >= self.slot_end_ms:
                self._close_slot(at)
            self._deliver(float(arrivals[at]))
            ends_ms = min(self.slot_end_ms, self.mailbox[0][0] if self.mailbox else np.inf)
            stop = min(self.service.next_change, int(arrivals.searchsorted(ends_ms)))
            if self.awaited:
                stop = min(stop, at + _STEP * self.slot.awaited.size)
            at = self._advance(at, max(stop, at + 1))

    def _advance(self, at: int, stop: int) -> int:
        """Let every source route its records from `at` up to `stop`."""
        sources = len(self.groupings)
        for number, grouping in enumerate(self.groupings):
            own = slice(at + (number - at) % sources, stop, sources)
            keys = self.stream.keys[own]
            if keys.size:
                routed = grouping.route(keys, self.stream.arrivals_ms[own])
                refuse_outside(grouping, routed, most=keys.size, least=keys.size)
                self.service.execution.instances[own] = routed
        if self.awaited:
            self._acknowledge(_Span(at, stop))
        return stop

    def _close_slot(self, at: int) -> None:
        """Measure the utilization of every instance, as a signal for all sources."""
        done, length_ms = self.service.execution, self.slot_ms
        assert length_ms is not None  # noqa: S101 - without slots none is closed
        self.service.execute_until(at)
        given = slice(self.slot_start, at)
        work = np.bincount(
            done.instances[given], done.executed_ms[given], minlength=done.free_ms.size
        )
        self.signals = [Feedback(i, utilization=float(w) / length_ms) for i, w in enumerate(work)]
        self.slot = self.slot._replace(closed_ms=float(self.slot_end_ms))
        self.slot.awaited[:] = True
        self.awaited = self.slot.awaited.size
        self.slot_end_ms += length_ms
        self.slot_start = at
        self.oldest = _first_unfinished(done.finished_ms[:at], self.oldest, self.slot.closed_ms)
        self._acknowledge(_Span(self.oldest, at))

    def _acknowledge(self, records: _Span) -> None:
        """Send the slot's signals with the first record of each source that is done after it."""
        self.service.execute_until(records.stop)
        found = _acknowledged(self.service.execution, self.slot, records)
        if not found:
            return
        self.awaited -= found
        sent_ms = self.slot.acknowledged_ms
        sources, instances = np.nonzero(~np.isnan(sent_ms))
        for source, instance in zip(sources.tolist(), instances.tolist(), strict=True):
            signal = self.signals[instance]
            when_ms = float(sent_ms[source, instance]) + self.delay_ms
            heapq.heappush(self.mailbox, (when_ms, next(self.order), source, signal))
            self.messages += 1
            self.message_bytes += signal.message_bytes
        sent_ms[:] = np.nan

    def _deliver(self, now_ms: float) -> None:
        while self.mailbox and self.mailbox[0][0] <= now_ms:
            _, _, source, signal = heapq.heappop(self.mailbox)
            self.groupings[source].observe(signal)


@kernel
def _first_unfinished(finished_ms: Float64, start: int, now_ms: float) -> int:
    while start < finished_ms.size and finished_ms[start] <= now_ms:
        start += 1
    return start


@kernel
def _acknowledged(execution: Execution, slot: _Slot, records: _Span) -> int:
    """Note when awaited pairs of source and instance are done with a record; return how many."""
    sources = slot.awaited.shape[0]
    found = 0
    for i in range(records.start, records.stop):
        source, instance = i % sources, execution.instances[i]
        if slot.awaited[source, instance] and execution.finished_ms[i] > slot.closed_ms:
            slot.awaited[source, instance] = False
            slot.acknowledged_ms[source, instance] = execution.finished_ms[i]
            found += 1
    return found
