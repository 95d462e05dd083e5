"""What a simulation gives."""

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
        executed_ms: per record, execution alone.
        instances: per record, where it was executed; -1 if it was shed, its times are 0 then.
        load_ms: per instance, total execution time.
        messages: how many messages the instances sent to the scheduler.
        message_bytes: their size in total.
        scheduler_bytes: the grouping's memory at the end.
        tracker_bytes: memory of the largest tracker at the end; 0 without trackers.
        changes: of states, in the order of time.
        moves: virtual workers that were moved between instances, the mean over sources.
        stream: what was executed.
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
        """Which records were executed and not shed."""
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
        """Places where keys have state, over the number of keys: 1 if every key has one."""
        kept = self.kept
        return replication(self.stream.keys[kept], self.instances[kept], self.load_ms.size)

    def utilization(self, slots: int) -> Float64:
        """Work given to each instance in each of `slots` equal slots of time, over its length."""
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
        """Records that have arrived and are not done at the end of each slot, per instance."""
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
    """Places where keys have been, over the number of keys; 1 if every key has one place."""
    distinct, numbered = np.unique(keys, return_inverse=True)
    if not distinct.size:
        return 0.0
    return np.unique(numbered * count + instances).size / distinct.size
