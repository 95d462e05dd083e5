"""An oracle of divisions: the best numbers of records of tasks, found with true costs.

It knows nothing about single records, so it is a bound for divisions of records whose keys tell
nothing.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from penstock.policies.grouping.list_scheduling import makespan
from penstock.policies.kernels import Float64, Int64

# Divisions that are tried: tasks for each slot, and records of the last task over the mean.
_PER_SLOT = (2, 3, 4, 5, 6, 7, 8, 10, 12)
_LAST = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)


def falling(tasks: int, last: float, records: int) -> Int64:
    """Return numbers of records of tasks that fall linearly to `last` times their mean.

    Example:
        >>> falling(tasks=4, last=0.5, records=100)
        array([38, 29, 21, 12])
    """
    sizes = np.linspace(2 - last, last, tasks)
    ends = np.rint(records * np.cumsum(sizes) / sizes.sum()).astype(np.int64)
    counts: Int64 = np.diff(ends, prepend=0)
    return counts


def duration_ms(sizes: Int64, costs_ms: Float64, slowdown: Float64, *, task_ms: float) -> float:
    """Return the duration of a batch whose records go to tasks in their order.

    Args:
        sizes: number of records of each task.
        costs_ms: cost of each record.
        slowdown: slowdown of each slot.
        task_ms: time of a slot for each task besides its records.
    """
    done_ms = np.concatenate([[0.0], np.cumsum(costs_ms)])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return makespan(np.diff(done_ms[ends]), slowdown, task_ms)


def best_division(
    batches_ms: Sequence[Float64], slowdowns: Sequence[Float64], *, task_ms: float
) -> Int64:
    """Return the numbers of records of tasks with which batches are shortest, over their work.

    Args:
        batches_ms: costs of the records of each batch; all batches have as many records.
        slowdowns: slowdown of each slot, for each batch.
        task_ms: time of a slot for each task besides its records.
    """
    slots, records = slowdowns[0].size, batches_ms[0].size
    known = [falling(slots * n, last, records) for n, last in product(_PER_SLOT, _LAST)]
    means = [
        np.mean(
            [
                duration_ms(sizes, costs_ms, slowdown, task_ms=task_ms) / costs_ms.sum()
                for costs_ms, slowdown in zip(batches_ms, slowdowns, strict=True)
            ]
        )
        for sizes in known
    ]
    return known[int(np.argmin(means))]
