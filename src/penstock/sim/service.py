"""Instances that serve their records first in, first out, at speeds that may change."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, kernel
from penstock.policies.learner import Learner
from penstock.policies.validation import float64s, positive, whole
from penstock.sim.result import Result
from penstock.sim.workloads import Stream

Schedule = Sequence[tuple[int, npt.ArrayLike]]


class Execution(NamedTuple):
    """Arrays of a simulation, as the kernels take them.

    Attributes:
        arrivals_ms: time at which each record arrives.
        costs_ms: cost of each record on an instance with slowdown 1.
        instances: instance of each record, filled in by the engine; negative for a shed record.
        executed_ms: execution time of each record, filled in by `serve`; 0 for a shed record.
        finished_ms: time at which each record is done, filled in by `serve`.
        slowdown: current slowdown of each instance.
        free_ms: time at which each instance has done all records that it received.
    """

    arrivals_ms: Float64
    costs_ms: Float64
    instances: Int32
    executed_ms: Float64
    finished_ms: Float64
    slowdown: Float64
    free_ms: Float64


class Service:
    """The instances of a simulation and the records that they execute.

    Args:
        stream: records that arrive.
        instances: number of instances.
        slowdowns: pairs of a record's number and the instances' slowdowns from there on.
    """

    def __init__(self, stream: Stream, instances: int, slowdowns: Schedule) -> None:
        m = len(stream)
        self.stream = stream
        self.schedule = checked_slowdowns(slowdowns, instances)
        # Record at which slowdowns change next; the stream's length if they do not.
        self.next_change = self._next_change()
        # Number of the records that have been executed.
        self.executed = 0
        start_ms = float(stream.arrivals_ms[0]) if m else 0.0
        self.execution = Execution(
            arrivals_ms=stream.arrivals_ms,
            costs_ms=stream.costs_ms,
            instances=np.empty(m, dtype=np.int32),
            executed_ms=np.empty(m),
            finished_ms=np.empty(m),
            slowdown=np.ones(instances),
            free_ms=np.full(instances, min(0.0, start_ms)),
        )

    def _next_change(self) -> int:
        m = len(self.stream)
        return min(self.schedule[0][0], m) if self.schedule else m

    def change(self, record: int) -> bool:
        """Apply the slowdowns that start at or before a record; return whether there were any."""
        if not self.schedule or self.schedule[0][0] > record:
            return False
        self.execute_until(record)
        while self.schedule and self.schedule[0][0] <= record:
            self.execution.slowdown[:] = self.schedule.pop(0)[1]
        self.next_change = self._next_change()
        return True

    def report_slowdowns(self, policy: Learner) -> None:
        """Report the true slowdowns to a policy that serves as a yardstick."""
        if policy.knows_truth:
            for instance, slowdown in enumerate(self.execution.slowdown):
                policy.observe(Feedback(instance, slowdown=float(slowdown)))

    def execute_until(self, stop: int) -> None:
        """Execute all records up to `stop`; their instances have been filled in."""
        serve(self.execution, self.executed, stop)
        self.executed = stop

    def result(self, groupings: Sequence[Grouping], **more: object) -> Result:
        """Return the result of the simulation, with the fields in `more`."""
        self.execute_until(len(self.stream))
        done = self.execution
        kept = done.instances >= 0
        load = np.bincount(
            done.instances[kept], weights=done.executed_ms[kept], minlength=done.free_ms.size
        )
        return Result(
            completion_ms=done.finished_ms - self.stream.arrivals_ms,
            executed_ms=done.executed_ms,
            instances=done.instances,
            load_ms=load.astype(np.float64),
            scheduler_bytes=max(grouping.memory_bytes for grouping in groupings),
            moves=float(np.mean([grouping.moves for grouping in groupings])),
            stream=self.stream,
            **more,  # type: ignore[arg-type]
        )


def checked_slowdowns(slowdowns: Schedule, instances: int) -> list[tuple[int, Float64]]:
    """Validate slowdowns, and return them in the order of their records."""
    schedule = []
    for record, factors in _pairs(slowdowns):
        array = float64s("slowdowns", factors, instances)
        for factor in array:
            positive("slowdowns", float(factor))
        schedule.append((whole("slowdowns: record", record, least=0), array))
    return sorted(schedule, key=lambda pair: pair[0])


def _pairs(slowdowns: Schedule) -> Schedule:
    pairs = isinstance(slowdowns, Sequence) and not isinstance(slowdowns, str)
    if not pairs or not all(isinstance(one, Sequence) and len(one) == 2 for one in slowdowns):
        raise PenstockError(
            "slowdowns must be pairs of a record's number and slowdowns, such as "
            f"[(100, [1.0, 2.0])]; got {slowdowns!r}"
        )
    return slowdowns


@kernel
def serve(execution: Execution, start: int, stop: int) -> None:
    """Execute each record when its instance is done with all records before it."""
    instances, arrivals_ms, free_ms = execution.instances, execution.arrivals_ms, execution.free_ms
    executed_ms, finished_ms = execution.executed_ms, execution.finished_ms
    for i in range(start, stop):
        chosen = instances[i]
        if chosen < 0:  # shed
            executed_ms[i] = 0.0
            finished_ms[i] = arrivals_ms[i]
            continue
        executed_ms[i] = execution.costs_ms[i] * execution.slowdown[chosen]
        free_ms[chosen] = max(free_ms[chosen], arrivals_ms[i]) + executed_ms[i]
        finished_ms[i] = free_ms[chosen]
