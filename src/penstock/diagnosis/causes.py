"""Where the time of stages goes: the time above the ideal, split into causes that add up."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from penstock.diagnosis.queries import Group, Run
from penstock.diagnosis.tasks import Tasks
from penstock.policies.grouping.list_scheduling import makespan
from penstock.policies.kernels import Float64, Int64

# Bytes per second of a disk that spilled bytes are written to and read from; an assumption.
_DISK_BYTES_PER_MS = 200e3


class Cause(StrEnum):
    """Why a query takes longer than its work on all slots would."""

    TOO_FEW_TASKS = "too_few_tasks"
    TASK_OVERHEAD = "task_overhead"
    HOT_KEYS = "hot_keys"
    UNEVEN_COSTS = "uneven_costs"
    SLOW_EXECUTOR = "slow_executor"
    CROWDED_STATE = "crowded_state"
    LOCALITY_WAIT = "locality_wait"
    GARBAGE_COLLECTION = "garbage_collection"
    DISK_SPILL = "disk_spill"
    FETCH_WAIT = "fetch_wait"
    PYTHON_START = "python_start"
    FAILED_TASKS = "failed_tasks"
    LATE_TASKS = "late_tasks"
    OVER_PROVISIONED = "over_provisioned"
    UNDER_PROVISIONED = "under_provisioned"
    HEALTHY = "healthy"


class Split(NamedTuple):
    """The time of a group of stages.

    Attributes:
        wall_ms: time from the first start to the last end.
        ideal_ms: work over slots: the shortest possible time.
        causes_ms: time of each cause; with `ideal_ms` they add up to `wall_ms`.
        work_ms: pure work of each task that succeeded, in the order of their starts.
        overhead_ms: mean time of a task besides its work.
    """

    wall_ms: float
    ideal_ms: float
    causes_ms: dict[Cause, float]
    work_ms: Float64
    overhead_ms: float


def split(group: Group, slowdown: Float64, slots: list[int]) -> Split:
    """Split the time of a group of stages.

    Causes are taken away one after the other. After each, the tasks are scheduled again in their
    order, each one on the slot that is free first; the time that this saves is the cause's.

    Args:
        group: stages that ran at the same time.
        slowdown: slowdown of each executor.
        slots: slots of each executor.
    """
    tasks = Tasks.together([run.tasks for run in group.runs])
    order = np.argsort(tasks.launch_ms, kind="stable")
    tasks = tasks.chosen(order)
    stages = np.concatenate(
        [np.full(run.tasks.size, number) for number, run in enumerate(group.runs)]
    )[order]
    left = _Peel(tasks, group.slots)
    found = _waiting(group, tasks, slots, free_ms=left.schedule_ms)
    found[Cause.FAILED_TASKS] = left.scale(1.0 - tasks.failed)
    # Metrics come before the rest: they are measured, and the rest is what remains.
    found[Cause.PYTHON_START] = left.remove(tasks.python_ms)
    found[Cause.GARBAGE_COLLECTION] = left.remove(tasks.gc_ms)
    found[Cause.FETCH_WAIT] = left.remove(tasks.fetch_ms)
    found[Cause.DISK_SPILL] = left.remove(2 * tasks.spilled_bytes / _DISK_BYTES_PER_MS)
    outside_ms = np.where(tasks.run_ms > 0, tasks.duration_ms - tasks.run_ms, 0.0)
    found[Cause.TASK_OVERHEAD] = left.remove(outside_ms)
    found[Cause.SLOW_EXECUTOR] = left.scale(1 / slowdown[tasks.executor.astype(np.int64)])
    good = tasks.failed == 0
    work_ms = left.left_ms[good]
    ideal_ms = float(work_ms.sum()) / group.slots
    found |= _imbalance(work_ms, tasks.records[good], stages[good], slots=group.slots)
    overhead_ms = float(outside_ms[good].mean()) if good.any() else 0.0
    causes = _adding_up(found, group.wall_ms - ideal_ms)
    return Split(
        wall_ms=group.wall_ms,
        ideal_ms=min(ideal_ms, group.wall_ms),
        causes_ms=causes,
        work_ms=work_ms,
        overhead_ms=overhead_ms,
    )


class _Peel:
    """Times of tasks, from which causes are taken away.

    Args:
        tasks: tasks in the order of their starts.
        slots: number of slots.
    """

    def __init__(self, tasks: Tasks, slots: int) -> None:
        self.left_ms = tasks.duration_ms
        self._slots = np.ones(slots)
        self.schedule_ms = makespan(self.left_ms, self._slots, 0.0)

    def remove(self, part_ms: Float64) -> float:
        """Take a part of each task away; return how much shorter the schedule becomes."""
        return self._to(np.maximum(self.left_ms - np.minimum(part_ms, self.left_ms), 0.0))

    def scale(self, factor: Float64) -> float:
        """Multiply the time of each task; return how much shorter the schedule becomes."""
        return self._to(self.left_ms * factor)

    def _to(self, left_ms: Float64) -> float:
        before_ms = self.schedule_ms
        self.left_ms = left_ms
        self.schedule_ms = makespan(left_ms, self._slots, 0.0)
        return before_ms - self.schedule_ms


def _waiting(group: Group, tasks: Tasks, slots: list[int], *, free_ms: float) -> dict[Cause, float]:
    """Return time in which tasks waited although slots were free.

    Args:
        group: stages.
        tasks: their tasks in the order of their starts.
        slots: slots of each executor.
        free_ms: duration with tasks that may run anywhere.
    """
    longest_ms = 0.0
    for executor in np.unique(tasks.executor):
        own = tasks.duration_ms[tasks.executor == executor]
        count = slots[int(executor)] if int(executor) < len(slots) else 0
        longest_ms = max(longest_ms, makespan(own, np.ones(max(count, 1)), 0.0))
    many = sum(1 for count in slots if count) > 1
    pinned_ms = min(longest_ms, group.wall_ms) - free_ms if many else 0.0
    pinned_ms = pinned_ms if tasks.near.mean() > 0.5 else 0.0
    stateful = any(run.stage.stateful for run in group.runs)
    cause = Cause.CROWDED_STATE if stateful else Cause.LOCALITY_WAIT
    late_ms = group.wall_ms - free_ms - max(pinned_ms, 0.0)
    return {cause: pinned_ms, Cause.LATE_TASKS: late_ms}


def _imbalance(
    work_ms: Float64, records: Float64, stages: Int64, *, slots: int
) -> dict[Cause, float]:
    """Return the time above the ideal that the division into tasks causes."""
    count = work_ms.size
    if not count:
        return {}
    even_ms = -(-count // slots) * float(work_ms.mean())
    ideal_ms = float(work_ms.sum()) / slots
    schedule_ms = makespan(work_ms, np.ones(slots), 0.0)
    few_ms = min(even_ms, schedule_ms) - ideal_ms
    uneven_ms = max(schedule_ms - even_ms, 0.0)
    expected_ms = np.zeros(count)
    for stage in np.unique(stages):
        own = stages == stage
        total = records[own].sum()
        share = records[own] / total if total > 0 else np.full(own.sum(), 1 / own.sum())
        expected_ms[own] = work_ms[own].sum() * share
    hot_ms = makespan(expected_ms, np.ones(slots), 0.0) - even_ms
    # Records explain a time only if the tasks with more of them took longer.
    explained = _correlation(expected_ms, work_ms)
    hot_ms = min(max(hot_ms, 0.0) * max(explained, 0.0), uneven_ms)
    return {
        Cause.TOO_FEW_TASKS: few_ms,
        Cause.HOT_KEYS: hot_ms,
        Cause.UNEVEN_COSTS: uneven_ms - hot_ms,
    }


def _correlation(one: Float64, other: Float64) -> float:
    if one.size < 2 or one.std() < 1e-9 or other.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _adding_up(found: dict[Cause, float], total_ms: float) -> dict[Cause, float]:
    """Return causes without negative times, which add up to a total.

    Example:
        >>> _adding_up({Cause.HOT_KEYS: 30.0, Cause.FETCH_WAIT: -5.0, Cause.LATE_TASKS: 20.0}, 40.0)
        {<Cause.HOT_KEYS: 'hot_keys'>: 24.0, <Cause.LATE_TASKS: 'late_tasks'>: 16.0}
    """
    positive = {cause: value for cause, value in found.items() if value > 0}
    sum_ms = sum(positive.values())
    if sum_ms <= 0 or total_ms <= 0:
        return {}
    return {cause: value * total_ms / sum_ms for cause, value in positive.items()}


def heaviest(group: Group) -> Run:
    """Return the stage of a group with the most work."""
    return max(group.runs, key=lambda run: float(run.tasks.duration_ms.sum()))
