"""The kernel of the local search: moves and swaps that bring the worst worker nearer."""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Float64, Int64, kernel
from penstock.policies.placement.problem import Problem

# Weight of deviations within the threshold: enough to break ties.
_WITHIN = 1e-3
# Preference for moves off a worker that is to be removed, among equal moves.
_DRAINS = 1e-6
# Price of a free step when gains are compared by price, as a part of the mean price.
_FREE = 1 / 3
_TINY = 1e-9
_NONE = -1


class Standing(NamedTuple):
    """The state of a search: placement of the units, and loads of the workers; changed in place.

    Attributes:
        where: worker of each unit.
        carried: load of each worker on the bottleneck resource.
        used: load of each worker on the other resources, with a column for each.
        deviations: deviation of each worker from the mean, in points.
    """

    where: Int64
    carried: Float64
    used: Float64
    deviations: Float64


class Pair(NamedTuple):
    """A worker that may give load, and a worker that may receive it.

    Attributes:
        giver_deviation: deviation of the giver from the mean, in points.
        taker_deviation: deviation of the taker from the mean, in points.
        giver_capacity: capacity of the giver.
        taker_capacity: capacity of the taker.
        stays: whether the giver stays; otherwise it is to be removed.
    """

    giver_deviation: float
    taker_deviation: float
    giver_capacity: float
    taker_capacity: float
    stays: bool


@kernel
def descend(problem: Problem, threshold: float, steps: int, where: Int64) -> int:
    """Improve a placement in place; return the number of steps taken.

    It ends when all workers are within the threshold, when no step helps, or after `steps`.
    """
    workers = problem.capacity.size
    used = np.zeros((workers, problem.others.shape[1]))
    standing = Standing(
        where=where, carried=np.zeros(workers), used=used, deviations=np.zeros(workers)
    )
    spent = 0.0
    for unit in range(problem.load.size):
        standing.carried[where[unit]] += problem.load[unit]
        used[where[unit]] += problem.others[unit]
        spent += problem.price[unit] * (where[unit] != problem.home[unit])
    for step in range(steps):
        standing.deviations[:] = standing.carried / problem.capacity - problem.mean
        worst, far = _NONE, threshold
        for worker in range(workers):
            if problem.live[worker] and abs(standing.deviations[worker]) > far:
                worst, far = worker, abs(standing.deviations[worker])
        if worst == _NONE:
            return step
        left = problem.budget - spent
        unit, target, partner = _best_step(problem, standing, worst, threshold, left)
        if unit == _NONE:
            return step
        source = where[unit]
        spent += _move(problem, standing, unit, target)
        if partner != _NONE:
            spent += _move(problem, standing, partner, source)
    return steps


@kernel
def _move(problem: Problem, standing: Standing, unit: int, target: int) -> float:
    """Move a unit; return its price."""
    price = _extra(problem, standing.where, unit, target)
    source = standing.where[unit]
    standing.carried[source] -= problem.load[unit]
    standing.carried[target] += problem.load[unit]
    standing.used[source] -= problem.others[unit]
    standing.used[target] += problem.others[unit]
    standing.where[unit] = target
    return price


@kernel
def _best_step(
    problem: Problem, standing: Standing, worst: int, threshold: float, left: float
) -> tuple[int, int, int]:
    """Return the step with the largest gain for its price.

    It is the unit to move, its target, and the unit that is moved back in exchange (or -1).
    """
    load, frozen, where = problem.load, problem.frozen, standing.where
    units, starts = _by_worker(where, problem.capacity.size)
    over = standing.deviations[worst] > 0
    far = abs(standing.deviations[worst]) - _TINY
    free = max(_TINY, _FREE * problem.price.mean())
    best, most = (_NONE, _NONE, _NONE), _TINY
    for other in np.argsort(standing.deviations if over else -standing.deviations):
        if other == worst or (over and not problem.live[other]):
            continue
        # The worst worker gives if it has too much, and receives if it has too little.
        giver, taker = (worst, other) if over else (other, worst)
        pair = _paired(problem, standing.deviations, giver, taker)
        now = _badness(pair, 0.0, threshold)
        hoped = now - _badness(pair, _even(pair), threshold)
        if hoped <= most * free:
            continue
        reach = _reach(pair, far)
        for a in range(starts[giver], starts[giver + 1]):
            unit = units[a]
            if frozen[unit]:
                continue
            extra = _extra(problem, where, unit, taker)
            given = load[unit]
            if given < reach and extra <= left + _TINY:
                gain = now - _badness(pair, given, threshold)
                gain /= free + max(0.0, extra)
                if gain > most and _fits(problem, standing.used, taker, unit, _NONE):
                    best, most = (unit, taker, _NONE), gain
            if not pair.stays:
                continue
            for b in range(starts[taker], starts[taker + 1]):
                partner = units[b]
                given = load[unit] - load[partner]
                if given <= 0 or given >= reach or frozen[partner]:
                    continue
                both = extra + _extra(problem, where, partner, giver)
                paid = free + max(0.0, both)
                if hoped <= most * paid or both > left + _TINY:
                    continue
                gain = now - _badness(pair, given, threshold)
                if (
                    gain > most * paid
                    and _fits(problem, standing.used, taker, unit, partner)
                    and _fits(problem, standing.used, giver, partner, unit)
                ):
                    best, most = (unit, taker, partner), gain / paid
    return best


@kernel
def _paired(problem: Problem, deviations: Float64, giver: int, taker: int) -> Pair:
    return Pair(
        giver_deviation=deviations[giver],
        taker_deviation=deviations[taker],
        giver_capacity=problem.capacity[giver],
        taker_capacity=problem.capacity[taker],
        stays=problem.live[giver],
    )


@kernel
def _badness(pair: Pair, given: float, threshold: float) -> float:
    """Return the badness of two workers after one has given some load to the other."""
    taken = pair.taker_deviation + given / pair.taker_capacity
    bad = pair.taker_capacity * _far(taken, threshold)
    if not pair.stays:
        return float(bad + (_DRAINS if given == 0 else 0.0))
    rest = pair.giver_deviation - given / pair.giver_capacity
    return float(bad + pair.giver_capacity * _far(rest, threshold))


@kernel
def _even(pair: Pair) -> float:
    """Return the load that the giver would have to give for both workers to be even."""
    if not pair.stays:
        return float(-pair.taker_deviation * pair.taker_capacity)
    both = 1 / pair.giver_capacity + 1 / pair.taker_capacity
    return float((pair.giver_deviation - pair.taker_deviation) / both)


@kernel
def _reach(pair: Pair, far: float) -> float:
    """Return the given load from which on one of both workers deviates by `far` or more."""
    reach = (far - pair.taker_deviation) * pair.taker_capacity
    if pair.stays:
        reach = min(reach, (far + pair.giver_deviation) * pair.giver_capacity)
    return float(reach)


@kernel
def _far(deviation: float, threshold: float) -> float:
    """Return the badness of a deviation: its square beyond the threshold, and a tie-breaker."""
    beyond = max(0.0, abs(deviation) - threshold)
    return beyond * beyond + _WITHIN * deviation * deviation


@kernel
def _extra(problem: Problem, where: Int64, unit: int, target: int) -> float:
    """Return the price of a move; less than 0 if the unit returns home."""
    home, price = problem.home[unit], float(problem.price[unit])
    if where[unit] == home:
        return price
    return -price if target == home else 0.0


@kernel
def _fits(problem: Problem, used: Float64, target: int, unit: int, leaving: int) -> bool:
    """Whether a worker has room for a unit after another one has left."""
    others = problem.others
    for resource in range(others.shape[1]):
        change = others[unit, resource] - (others[leaving, resource] if leaving >= 0 else 0.0)
        if change > 0 and used[target, resource] + change > problem.room[target, resource] + _TINY:
            return False
    return True


@kernel
def _by_worker(where: Int64, workers: int) -> tuple[Int64, Int64]:
    """Return the units ordered by worker, and the first position of each worker."""
    starts = np.zeros(workers + 1, dtype=np.int64)
    for worker in where:
        starts[worker + 1] += 1
    starts = np.cumsum(starts)
    filled = starts.copy()
    units = np.empty(where.size, dtype=np.int64)
    for unit in range(where.size):
        units[filled[where[unit]]] = unit
        filled[where[unit]] += 1
    return units, starts
