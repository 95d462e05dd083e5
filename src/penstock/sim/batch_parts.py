"""Parts of micro-batches in the simulator: workers, overheads, stages, and the result."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import at_least_zero, positive, whole


@dataclass(frozen=True)
class Overheads:
    """The time that an engine of micro-batches spends besides the records.

    Attributes:
        batch_ms: time of a batch in which no task runs: planning, offsets, commits.
        stage_ms: time from the end of one stage to the first task of the next.
        task_ms: time of a slot for each task besides its records.
        router_ms: time of a router task.
        launch_ms: time between the starts of two tasks: the scheduler starts one after the other.
        empty_ms: time of a slot for a task without records; None for that of any other task.
    """

    batch_ms: float = 0.0
    stage_ms: float = 0.0
    task_ms: float = 10.0
    router_ms: float = 0.0
    launch_ms: float = 0.0
    empty_ms: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                at_least_zero(name, value)

    def of_tasks(self, records: Int64) -> Float64:
        """Return the time of a slot for each task besides its records, by their number."""
        empty_ms = self.task_ms if self.empty_ms is None else self.empty_ms
        return np.where(records > 0, self.task_ms, empty_ms)


@dataclass(frozen=True)
class Worker:
    """An executor.

    Attributes:
        slots: number of tasks that it runs at a time.
        slowdown: time that it takes for a record over the time of an ordinary worker.
    """

    slots: int = 1
    slowdown: float = 1.0

    def __post_init__(self) -> None:
        whole("slots", self.slots, least=1)
        positive("slowdown", self.slowdown)


class Tasks(NamedTuple):
    """All tasks that had records, in the order of their starts; one entry of each array for each.

    Attributes:
        batch: number of the batch.
        stage: number of the operator.
        task: number of the task in its stage.
        worker: number of the worker that ran it.
        slot: number of the slot that ran it.
        records: number of its records.
        start_ms: time at which it started, from the start of the batch.
        busy_ms: time that its records took.
    """

    batch: Int64
    stage: Int64
    task: Int64
    worker: Int64
    slot: Int64
    records: Int64
    start_ms: Float64
    busy_ms: Float64


def no_tasks() -> Tasks:
    """Return the tasks of no batch."""
    none, never_ms = np.zeros(0, dtype=np.int64), np.zeros(0)
    return Tasks(
        batch=none,
        stage=none,
        task=none,
        worker=none,
        slot=none,
        records=none,
        start_ms=never_ms,
        busy_ms=never_ms,
    )


@dataclass(frozen=True, eq=False)
class BatchesResult:
    """Result of a simulation of micro-batches.

    Attributes:
        duration_ms: duration of each batch.
        ideal_ms: shortest possible duration of each batch, with perfect knowledge and without any
            overhead: the work over all speeds, or the longest record on the fastest worker.
        tasks: all tasks that had records.
    """

    duration_ms: Float64
    ideal_ms: Float64
    tasks: Tasks

    def to_ideal(self, skip: int = 0) -> float:
        """Return the mean ratio of duration to ideal, without the first batches."""
        return float((self.duration_ms[skip:] / self.ideal_ms[skip:]).mean())


class Stage(NamedTuple):
    """An operator of a query.

    Attributes:
        grouping: grouping that routes its records; it learns.
        costs_ms: cost of each record of the stream; None for those of the stream.
    """

    grouping: Grouping
    costs_ms: Float64 | None = None
