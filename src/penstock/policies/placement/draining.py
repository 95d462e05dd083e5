"""Emptying workers that are to be removed, whatever the rest of a plan does."""

import numpy as np

from penstock.policies.kernels import Int64
from penstock.policies.placement.problem import ROUNDING, Problem


def drain(problem: Problem, where: Int64) -> None:
    """Move units off workers that are to be removed, as far as the budget allows; in place.

    The largest units go first, each to the worker that is least loaded with it. Among equals it is
    the worker with the fewest units, as units without load must leave, too.
    """
    leaving = problem.undrained(where)
    left = problem.budget - problem.spent(where)
    carried = np.bincount(where, weights=problem.load, minlength=problem.capacity.size)
    units = np.bincount(where, minlength=problem.capacity.size)
    used = np.zeros_like(problem.room)
    np.add.at(used, where, problem.others)
    for unit in leaving[np.lexsort((problem.price[leaving], -problem.load[leaving]))]:
        extra = problem.price[unit] if where[unit] == problem.home[unit] else 0.0
        roomy = (used + problem.others[unit] <= problem.room + ROUNDING).all(axis=1)
        targets = np.flatnonzero(problem.live & roomy)
        if extra > left + ROUNDING or not targets.size:
            continue
        full = (carried[targets] + problem.load[unit]) / problem.capacity[targets]
        target = targets[np.lexsort((units[targets] / problem.capacity[targets], full))[0]]
        source, where[unit] = where[unit], target
        for totals, own in ((carried, problem.load[unit]), (units, 1)):
            totals[source] -= own
            totals[target] += own
        used[source] -= problem.others[unit]
        used[target] += problem.others[unit]
        left -= extra
