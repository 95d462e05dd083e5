"""What engines share: instances that serve first in, first out, at speeds that change."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, Int64, kernel
from penstock.policies.learner import Learner
from penstock.policies.validation import float64s, positive, whole
from penstock.sim.result import Result
from penstock.sim.workloads import Stream

Schedule = Sequence[tuple[int, npt.ArrayLike]]


class Service:
    """The instances: when they are free, and what they have done.

    Args:
        stream: what arrives.
        instances: how many.
        slowdowns: pairs of a record's number and the instances' slowdowns from there on.
    """

    def __init__(self, stream: Stream, instances: int, slowdowns: Schedule) -> None:
        m = len(stream)
        self.stream = stream
        self.schedule = checked_slowdowns(slowdowns, instances)
        self.slowdown = np.ones(instances)
        start_ms = float(stream.arrivals_ms[0]) if m else 0.0
        self.free_ms = np.full(instances, min(0.0, start_ms))
        self.finished_ms = np.empty(m)
        self.executed_ms = np.empty(m)
        self.instances = np.empty(m, dtype=np.int32)
        self._given = self.instances, stream.arrivals_ms, stream.costs_ms
        self._outcome = self.free_ms, self.executed_ms, self.finished_ms

    def next_change(self) -> int:
        """Record at which slowdowns change next; the stream's length if they do not."""
        return min(self.schedule[0][0], len(self.stream)) if self.schedule else len(self.stream)

    def change(self, record: int) -> bool:
        """Take the slowdowns of this record, if they are others."""
        changed = False
        while self.schedule and self.schedule[0][0] <= record:
            self.slowdown = self.schedule.pop(0)[1]
            changed = True
        return changed

    def tell_slowdowns(self, policy: Learner) -> None:
        """Tell a yardstick how fast instances really are."""
        if policy.knows_truth:
            for instance, slowdown in enumerate(self.slowdown):
                policy.observe(Feedback(instance, slowdown=float(slowdown)))

    def execute(self, start: int, stop: int) -> None:
        """Execute records whose instances have been filled in."""
        serve(start, stop, *self._given, self.slowdown, *self._outcome)

    def result(self, groupings: Sequence[Grouping], **more: object) -> Result:
        """Return what happened."""
        k = self.free_ms.size
        kept = self.instances >= 0
        load = np.bincount(self.instances[kept], weights=self.executed_ms[kept], minlength=k)
        return Result(
            completion_ms=self.finished_ms - self.stream.arrivals_ms,
            executed_ms=self.executed_ms,
            instances=self.instances,
            load_ms=load.astype(np.float64),
            scheduler_bytes=max(grouping.memory_bytes for grouping in groupings),
            moves=float(np.mean([grouping.moves for grouping in groupings])),
            stream=self.stream,
            **more,  # type: ignore[arg-type]
        )


def refuse_outside(grouping: Grouping, instances: Int32, most: int, least: int = 1) -> None:
    """Refuse what would be written outside of arrays: a user's grouping may be wrong."""
    if not least <= instances.size <= most or not _inside(instances, grouping.instances):
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


def checked_slowdowns(slowdowns: Schedule, instances: int) -> list[tuple[int, Float64]]:
    """Validate slowdowns, and put them in order."""
    schedule = []
    for record, factors in slowdowns:
        array = float64s("slowdowns", factors, instances)
        for factor in array:
            positive("slowdowns", float(factor))
        schedule.append((whole("slowdowns: record", record, least=0), array))
    return sorted(schedule, key=lambda pair: pair[0])


@kernel
def serve(
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
        if chosen < 0:  # shed
            executed_ms[i] = 0.0
            finished_ms[i] = arrivals_ms[i]
            continue
        executed_ms[i] = costs_ms[i] * slowdown[chosen]
        free_ms[chosen] = max(free_ms[chosen], arrivals_ms[i]) + executed_ms[i]
        finished_ms[i] = free_ms[chosen]


@kernel
def records_of(
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
