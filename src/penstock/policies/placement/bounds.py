"""The lower bound of the load distance: combinatorial, without a solver."""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Float64, Int64, kernel
from penstock.policies.placement.problem import ROUNDING, Problem

_HALVINGS = 40


class Movable(NamedTuple):
    """Units that may move, the largest load for their price first.

    Attributes:
        anywhere: all of them.
        by_worker: all of them, ordered by worker.
        starts: first position of each worker in `by_worker`, and the end of the last one.
        equal: whether all prices are equal.
    """

    anywhere: Int64
    by_worker: Int64
    starts: Int64
    equal: bool

    @classmethod
    def of(cls, problem: Problem) -> "Movable":
        """Return the units of a problem that may move."""
        units = np.flatnonzero(~problem.frozen)
        worth = problem.load / np.maximum(problem.price, ROUNDING)
        anywhere = units[np.argsort(-worth[units], kind="stable")]
        by_worker = anywhere[np.argsort(problem.home[anywhere], kind="stable")]
        workers = np.arange(problem.capacity.size + 1)
        return cls(
            anywhere=anywhere,
            by_worker=by_worker,
            starts=np.searchsorted(problem.home[by_worker], workers),
            equal=np.unique(problem.price[units]).size == 1,
        )


def lower_bound(problem: Problem) -> float:
    r"""Return a load distance that no placement within the budget can beat, in points.

    For a distance $d$, a worker above $c_i (mean + d)$ must give away at least its excess. A worker
    below $c_i (mean - d)$ must receive at least its lack. At best these are the units with
    the most load for their price. Every move has one source and one target, so both sums must be
    within the budget.

    If all prices are equal, units are counted as wholes. A worker that no single unit brings within
    $d$ then takes part in two moves, and twice the budget must suffice for all these parts. The
    bound is the least $d$ that meets these conditions. It is at least the distance that the largest
    unit or a lack of units enforces.
    """
    if not problem.live.any():
        return 0.0
    least = max(_largest_unit(problem), _too_few_units(problem))
    if problem.budget >= problem.price[~problem.frozen].sum():
        return least
    return _least_within(problem, Movable.of(problem), problem.deviations(problem.home), least)


def _largest_unit(problem: Problem) -> float:
    """Return the distance of the worker that has to carry the largest unit.

    A unit on a worker that is to be removed does not count: it may be left there.
    """
    bound = problem.live[problem.home]
    if not bound.any():
        return 0.0
    most = float(problem.capacity[problem.live].max())
    return max(0.0, float(problem.load[bound].max()) / most - problem.mean)


def _too_few_units(problem: Problem) -> float:
    """Return the distance of a worker without units, if there are fewer units than workers."""
    return problem.mean if problem.load.size < problem.live.sum() else 0.0


@kernel
def _least_within(problem: Problem, movable: Movable, deviations: Float64, least: float) -> float:
    """Return the least distance whose price is within the budget, and at least a given one."""
    low, high = least, max(least, np.abs(deviations).max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _needed(problem, movable, deviations, middle) <= problem.budget + ROUNDING:
            high = middle
        else:
            low = middle
    return low


@kernel
def _needed(problem: Problem, movable: Movable, deviations: Float64, distance: float) -> float:
    """Return the least price of bringing every worker within a distance."""
    capacity, starts = problem.capacity, movable.starts
    given, got, touched = 0.0, 0.0, 0.0
    for worker in range(capacity.size):
        missing = (abs(deviations[worker]) - distance) * capacity[worker]
        if missing <= 1e-9:
            continue
        over = deviations[worker] > 0
        own = movable.by_worker[starts[worker] : starts[worker + 1]]
        units = own if over else movable.anywhere
        cost = _cheapest(problem, units, movable.equal, missing)
        if over:
            given += cost
        else:
            got += cost
        most = missing + 2 * distance * capacity[worker]
        several = cost > problem.price[movable.anywhere[0]]
        enough = several or _any_between(problem.load, units, missing, most)
        touched += cost if enough else 2 * cost
    return max(given, got, touched / 2 if movable.equal else 0.0)


@kernel
def _cheapest(problem: Problem, ordered: Int64, equal: bool, wanted: float) -> float:
    """Return the least price of units with a total load; infinity if there are not enough.

    If prices differ, a part of the last unit is enough.
    """
    load, price = problem.load, problem.price
    total, cost = 0.0, 0.0
    for unit in ordered:
        if load[unit] <= 0:
            break
        if total + load[unit] >= wanted - 1e-9:
            part = 1.0 if equal else (wanted - total) / load[unit]
            return float(cost + part * price[unit])
        total += load[unit]
        cost += price[unit]
    return np.inf


@kernel
def _any_between(load: Float64, ordered: Int64, least: float, most: float) -> bool:
    """Whether the load of a unit is within limits; units are ordered by load."""
    low, high = 0, ordered.size
    while low < high:
        middle = (low + high) // 2
        if load[ordered[middle]] > most + 1e-9:
            low = middle + 1
        else:
            high = middle
    return low < ordered.size and load[ordered[low]] >= least - 1e-9
