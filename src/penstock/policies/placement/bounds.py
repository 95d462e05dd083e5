"""How good can a placement be at best? A combinatorial bound, without solving anything."""

import numpy as np

from penstock.policies.kernels import Float64, Int64, kernel
from penstock.policies.placement.problem import ROUNDING, Problem

_HALVINGS = 40


def lower_bound(problem: Problem) -> float:
    r"""Return a load distance that no placement within the budget can beat, in points.

    For a distance $d$, a worker above $c_i (mean + d)$ must give away at least what is too much,
    and one below $c_i (mean - d)$ must get at least what is missing: at best the units with the
    most load for their price. Every move has one source and one target, so both sums must be
    within the budget. If all prices are equal, units are counted as wholes, and a worker that no
    single unit brings within $d$ takes part in two moves; twice the budget must suffice for what
    all take part in. The bound is the least $d$ for which all this is so, and at least what the
    largest unit or a lack of units enforces.
    """
    if not problem.live.any():
        return 0.0
    least = max(_largest_unit(problem), _too_few_units(problem))
    deviations = problem.deviations(problem.home)
    high = max(least, float(np.abs(deviations).max()))
    movable = np.flatnonzero(~problem.frozen)
    if problem.budget >= problem.price[movable].sum():
        return least
    worth = problem.load / np.maximum(problem.price, ROUNDING)
    anywhere = movable[np.argsort(-worth[movable], kind="stable")]
    by_worker = anywhere[np.argsort(problem.home[anywhere], kind="stable")]
    starts = np.searchsorted(problem.home[by_worker], np.arange(problem.capacity.size + 1))
    equal = np.unique(problem.price[movable]).size == 1
    low = least
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        needed = _needed(
            problem.load,
            problem.price,
            deviations,
            problem.capacity,
            by_worker,
            starts,
            anywhere,
            equal,
            middle,
        )
        if needed <= problem.budget + ROUNDING:
            high = middle
        else:
            low = middle
    return low


def _largest_unit(problem: Problem) -> float:
    """Some worker has to carry the largest unit, unless it may be left on one to be removed."""
    bound = problem.live[problem.home]
    if not bound.any():
        return 0.0
    most = float(problem.capacity[problem.live].max())
    return max(0.0, float(problem.load[bound].max()) / most - problem.mean)


def _too_few_units(problem: Problem) -> float:
    """With fewer units than workers one of these has nothing."""
    return problem.mean if problem.load.size < problem.live.sum() else 0.0


@kernel
def _needed(
    load: Float64,
    price: Float64,
    deviations: Float64,
    capacity: Float64,
    by_worker: Int64,
    starts: Int64,
    anywhere: Int64,
    equal: bool,
    distance: float,
) -> float:
    """What it costs at least to bring every worker within a distance."""
    given, got, touched = 0.0, 0.0, 0.0
    for worker in range(capacity.size):
        missing = (abs(deviations[worker]) - distance) * capacity[worker]
        if missing <= 1e-9:
            continue
        over = deviations[worker] > 0
        units = by_worker[starts[worker] : starts[worker + 1]] if over else anywhere
        cost = _cheapest(load, price, units, equal, missing)
        if over:
            given += cost
        else:
            got += cost
        most = missing + 2 * distance * capacity[worker]
        alone = cost > price[anywhere[0]] or _any_between(load, units, missing, most)
        touched += cost if alone else 2 * cost
    return max(given, got, touched / 2 if equal else 0.0)


@kernel
def _cheapest(load: Float64, price: Float64, ordered: Int64, equal: bool, wanted: float) -> float:
    """Least price of units that have a load together; of different prices, the last one in part."""
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
    """Whether a unit of those, which are ordered by load, is within limits."""
    low, high = 0, ordered.size
    while low < high:
        middle = (low + high) // 2
        if load[ordered[middle]] > most + 1e-9:
            low = middle + 1
        else:
            high = middle
    return low < ordered.size and load[ordered[low]] >= least - 1e-9
