"""The result of a simulation."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.kernels import Bool, Float64, Int32, Int64
from penstock.policies.measures import imbalance
from penstock.policies.validation import whole
from penstock.sim.workloads import Stream


@dataclass(frozen=True)
class StateChange:
    """Change of the state of a policy, or of its tracker at an instance.

    Attributes:
        record: number of the record at which the state changed.
        time_ms: time at which that record arrived.
        who: name of the policy ("scheduler", "shedder") or of the instance of the tracker.
        state: new state.
    """

    record: int
    time_ms: float
    who: str
    state: str


@dataclass(frozen=True, eq=False)
class Result:
    """Result of the simulation of an operator.

    Attributes:
        completion_ms: waiting plus execution time of each record; 0 for a shed record.
        executed_ms: execution time of each record; 0 for a shed record.
        instances: instance that executed each record; -1 for a shed record.
        load_ms: total execution time of each instance.
        messages: number of messages that the instances sent to the scheduler.
        message_bytes: total size of these messages.
        scheduler_bytes: memory of the grouping at the end.
        tracker_bytes: memory of the largest tracker at the end; 0 without trackers.
        changes: changes of state, in the order of time.
        moves: virtual workers that were moved between instances, the mean over sources.
        stream: stream that was executed.
    """

    completion_ms: Float64
    executed_ms: Float64
    instances: Int32
    load_ms: Float64
    messages: int
    message_bytes: int
    scheduler_bytes: int
    tracker_bytes: int
    changes: tuple[StateChange, ...]
    moves: float
    stream: Stream

    def mean_completion_ms(self, start: int = 0, stop: int | None = None) -> float:
        """Mean completion time of the records from `start` up to `stop`; NaN if there are none."""
        return self._mean(self.completion_ms, start, stop)

    def mean_waiting_ms(self, start: int = 0, stop: int | None = None) -> float:
        """Mean waiting time of the records from `start` up to `stop`; NaN if there are none."""
        return self._mean(self.completion_ms - self.executed_ms, start, stop)

    def _mean(self, values: Float64, start: int, stop: int | None) -> float:
        part = values[start:stop][self.kept[start:stop]]
        return float(part.mean()) if part.size else float("nan")

    @cached_property
    def kept(self) -> Bool:
        """Whether each record was executed and not shed."""
        return self.instances >= 0

    def dropped_ratio(self, start: int = 0, stop: int | None = None) -> float:
        """Share of the records from `start` up to `stop` that was shed; NaN if there are none."""
        part = self.kept[start:stop]
        return 1 - float(part.mean()) if part.size else float("nan")

    @property
    def messages_per_100(self) -> float:
        """Messages per 100 records."""
        return 100 * self.messages / max(1, self.completion_ms.size)

    @property
    def imbalance(self) -> float:
        """Load of the busiest instance over the mean load, minus 1."""
        return imbalance(self.load_ms)

    @property
    def memory(self) -> float:
        """Instances on which a key has state, the mean over keys: 1 if every key has one."""
        kept = self.kept
        return replication(self.stream.keys[kept], self.instances[kept], self.load_ms.size)

    def utilization(self, slots: int) -> Float64:
        """Work that each instance received in each of `slots` equal slots, over a slot's length."""
        arrivals = self.stream.arrivals_ms
        if not arrivals.size or arrivals[-1] <= arrivals[0]:
            raise PenstockError("utilization needs records that arrive over time; see Stream.every")
        whole("slots", slots, least=1)
        length_ms = float(arrivals[-1] - arrivals[0]) / slots
        slot = np.minimum(((arrivals - arrivals[0]) / length_ms).astype(np.int64), slots - 1)
        k = self.load_ms.size
        cell = (slot * k + self.instances)[self.kept]
        work = np.bincount(cell, weights=self.executed_ms[self.kept], minlength=slots * k)
        return work.reshape(slots, k) / length_ms

    def queues(self, slots: int) -> Int64:
        """Records that have arrived and are not done at the end of each slot, by instance."""
        whole("slots", slots, least=1)
        arrivals = self.stream.arrivals_ms
        if not arrivals.size:
            return np.zeros((slots, self.load_ms.size), dtype=np.int64)
        ends = np.linspace(arrivals[0], arrivals[-1], slots + 1)[1:]
        finished = arrivals + self.completion_ms
        out = np.zeros((slots, self.load_ms.size), dtype=np.int64)
        for instance in range(self.load_ms.size):
            own = self.instances == instance
            # Both are in order: an instance is first in, first out.
            arrived = np.searchsorted(arrivals[own], ends, side="right")
            out[:, instance] = arrived - np.searchsorted(finished[own], ends, side="right")
        return out


def replication(keys: Int64, instances: Int32, count: int) -> float:
    """Return the number of instances that a key was routed to, the mean over keys."""
    distinct, numbered = np.unique(keys, return_inverse=True)
    if not distinct.size:
        return 0.0
    return np.unique(numbered * count + instances).size / distinct.size
