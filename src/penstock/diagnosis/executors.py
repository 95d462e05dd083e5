"""Speeds of executors: the same work, other times."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from penstock.diagnosis.queries import Group
from penstock.policies.kernels import Float64

# A slow executor takes at least this much longer, and by this many standard errors.
_SLOW = 1.25
_ERRORS = 3.0
_FEWEST_PARTITIONS = 3
# Shorter tasks show little about the speed of an executor.
_SHORTEST_MS = 20.0


def slowdowns(groups: Iterable[Group], executors: int) -> Float64:
    """Return the slowdown of each executor; 1 for all that are not clearly slow.

    A task's time is compared with the mean of its stage for as many records. One partition with
    costly records makes no slow executor: several partitions must have been slow there.

    Args:
        groups: stages of a query.
        executors: number of executors of the application.
    """
    # Logarithms of a task's time over its stage's, by executor, stage and partition.
    cells: dict[int, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        for run in group.runs:
            tasks = run.tasks.chosen(run.tasks.failed == 0)
            spent_ms = np.maximum(tasks.run_ms - tasks.python_ms - tasks.gc_ms, 0.0)
            if tasks.size < 2 or spent_ms.mean() < _SHORTEST_MS:
                continue
            known = (tasks.records > 0).all()
            share = tasks.records / tasks.records.mean() if known else np.ones(tasks.size)
            ratio = np.log(np.maximum(spent_ms, 1.0) / share / spent_ms.mean())
            for executor, partition, one in zip(
                tasks.executor, tasks.partition, ratio, strict=True
            ):
                cells[int(executor)][run.stage.name, int(partition)].append(float(one))
    means = {n: np.array([np.mean(own) for own in parts.values()]) for n, parts in cells.items()}
    found = np.ones(executors)
    for executor, own in means.items():
        others = [other for n, other in means.items() if n != executor]
        if own.size < _FEWEST_PARTITIONS or not others:
            continue
        usual = np.median(np.concatenate(others))
        excess = np.median(own) - usual
        spread = 1.4826 * np.median(np.abs(own - np.median(own))) + 0.02
        if excess > np.log(_SLOW) and excess > _ERRORS * spread / np.sqrt(own.size):
            found[executor] = float(np.exp(excess))
    return found
