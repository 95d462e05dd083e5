"""Divisions of a batch into tasks of falling size, and their rehearsal with random costs."""

from typing import NamedTuple

import numpy as np

from penstock.policies.grouping.greedy import least_loaded
from penstock.policies.grouping.list_scheduling import makespan
from penstock.policies.kernels import Float64, Int32, Int64, kernel

# Records whose servers are rehearsed one by one.
_REHEARSED = 10_000


class Records(NamedTuple):
    """Records that arrive together.

    Attributes:
        costs_ms: expected cost of each record.
        order: numbers of the records, those that may be longest first.
    """

    costs_ms: Float64
    order: Int64


class Division(NamedTuple):
    """How the work of some records is divided.

    Attributes:
        first: share of the work in tasks of equal size that start first; 1 means no tail.
        equal: number of these tasks.
        least_ms: work of the smallest task.
        tail: largest number of tasks in the tail.
    """

    first: float
    equal: int
    least_ms: float
    tail: int


class Rehearsal(NamedTuple):
    """The input of a rehearsed division.

    Attributes:
        drawn_ms: random costs of the records, a row for each draw.
        slowdown: slowdown of each slot, a row for each draw.
        overhead_ms: time of a slot for each task besides its records.
        routers: number of routers, which are assumed to have records of the same kind.
        servers: number of records that a task executes at a time. So many tasks of the division in
            a row are one task of the engine.
    """

    drawn_ms: Float64
    slowdown: Float64
    overhead_ms: float
    routers: int
    servers: int


@kernel
def _trapezoid(left_ms: float, most_ms: float, division: Division) -> tuple[int, float, float]:
    """Return the number of tasks of the tail, and the sizes of the first and of the last one."""
    last_ms = min(division.least_ms, most_ms)
    wanted = np.ceil(2 * left_ms / (most_ms + last_ms)) if most_ms > 0 else 1.0
    tasks = max(1, min(int(wanted), division.tail))
    first_ms = 2 * left_ms / tasks - last_ms
    if first_ms < last_ms:
        return tasks, left_ms / tasks, left_ms / tasks
    return tasks, first_ms, last_ms


@kernel
def divide(records: Records, division: Division, loads_ms: Float64, out: Int32) -> None:
    """Assign records to tasks.

    Args:
        records: records that arrive together.
        division: how their work is divided.
        loads_ms: work of the first tasks so far, moved on in place; one for each of equal size.
        out: task of each record, filled in.
    """
    left_ms = records.costs_ms.sum()
    part_ms = division.first * left_ms
    taken_ms = 0.0
    p = 0
    while p < records.order.size:
        i = records.order[p]
        cost_ms = records.costs_ms[i]
        if division.first < 1 and taken_ms + cost_ms > part_ms and p >= division.equal:
            break
        chosen = least_loaded(loads_ms)
        loads_ms[chosen] += cost_ms
        out[i] = chosen
        taken_ms += cost_ms
        p += 1
    if p < records.order.size:
        tail = _trapezoid(left_ms - taken_ms, taken_ms / division.equal, division)
        _fill(records, p, tail, division.equal, out)


@kernel
def _fill(
    records: Records, start: int, tail: tuple[int, float, float], first: int, out: Int32
) -> None:
    """Assign the records from a position on to the tasks of the tail, one task after the other.

    Args:
        records: records that arrive together.
        start: position of the first record of the tail.
        tail: number of tasks, and the sizes of the first and of the last one.
        first: number of the first task of the tail.
        out: task of each record, filled in.
    """
    tasks, first_ms, last_ms = tail
    step_ms = (first_ms - last_ms) / max(1, tasks - 1)
    task = 0
    filled_ms = 0.0
    for p in range(start, records.order.size):
        i = records.order[p]
        cost_ms = records.costs_ms[i]
        while task < tasks - 1 and filled_ms + cost_ms / 2 > first_ms - step_ms * task:
            filled_ms -= first_ms - step_ms * task
            task += 1
        filled_ms += cost_ms
        out[i] = first + task


@kernel
def rehearse(records: Records, division: Division, rehearsal: Rehearsal) -> float:
    """Return the mean duration of a batch with a division, over all draws.

    All routers divide their records in the same way, and begin at different first tasks.
    """
    draws, servers = rehearsal.slowdown.shape[0], rehearsal.servers
    out = np.empty(records.order.size, dtype=np.int32)
    divide(records, division, np.zeros(division.equal), out)
    equal = division.equal // servers
    tasks = equal
    for i in range(out.size):
        out[i] //= servers
        tasks = max(tasks, out[i] + 1)
    own_ms = np.zeros((draws, tasks))
    for d in range(draws):
        for i in range(out.size):
            own_ms[d, out[i]] += rehearsal.drawn_ms[d, i] / servers
    total_ms = 0.0
    for d in range(draws):
        work_ms = np.zeros(tasks)
        for router in range(rehearsal.routers):
            row = (d + router) % draws
            for task in range(equal):
                work_ms[task] += own_ms[row, (task + router) % equal]
            for task in range(equal, tasks):
                work_ms[task] += own_ms[row, task]
        if servers > 1:
            _add_idle(records, out, rehearsal, d, equal, work_ms)
        total_ms += makespan(work_ms, rehearsal.slowdown[d], rehearsal.overhead_ms)
    return float(total_ms / draws)


@kernel
def _add_idle(
    records: Records, tasks: Int32, rehearsal: Rehearsal, draw: int, equal: int, work_ms: Float64
) -> None:
    """Add the time in which servers of a task wait for its last records.

    The servers of a task take the longest records first. The time depends on the last records of
    the task only, so of many routers the first ones are enough.

    Args:
        records: records of one router.
        tasks: task of each record.
        rehearsal: what the division is rehearsed with.
        draw: number of the draw.
        equal: number of tasks that start first.
        work_ms: mean time of the servers of each task, moved on in place to its duration.
    """
    draws = rehearsal.slowdown.shape[0]
    free_ms = np.zeros((work_ms.size, rehearsal.servers))
    some = max(1, min(rehearsal.routers, _REHEARSED // max(1, tasks.size)))
    for i in records.order:
        for router in range(some):
            task = tasks[i] if tasks[i] >= equal else (tasks[i] - router) % equal
            server = least_loaded(free_ms[task])
            free_ms[task, server] += rehearsal.drawn_ms[(draw + router) % draws, i]
    for task in range(work_ms.size):
        work_ms[task] += free_ms[task].max() - free_ms[task].mean()
