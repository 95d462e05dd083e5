"""The kernel of the local search: moves and swaps that bring the worst worker nearer."""

import numpy as np

from penstock.policies.kernels import Bool, Float64, Int64, kernel

# How much deviations count that are within the threshold already: enough to break ties.
_WITHIN = 1e-3
# Preferred among equals: to take from a worker that is to be removed.
_DRAINS = 1e-6
# What a free step counts as when gains are compared by price, as part of a typical price.
_FREE = 1 / 3
_TINY = 1e-9
_NONE = -1


@kernel
def descend(
    load: Float64,
    others: Float64,
    price: Float64,
    home: Int64,
    frozen: Bool,
    capacity: Float64,
    live: Bool,
    room: Float64,
    budget: float,
    mean: float,
    threshold: float,
    steps: int,
    where: Int64,
) -> int:
    """Improve a placement in place until all are within the threshold; return steps taken."""
    workers = capacity.size
    carried, used = np.zeros(workers), np.zeros((workers, others.shape[1]))
    spent = 0.0
    for unit in range(load.size):
        carried[where[unit]] += load[unit]
        used[where[unit]] += others[unit]
        spent += price[unit] * (where[unit] != home[unit])
    for step in range(steps):
        deviations = carried / capacity - mean
        worst, far = _NONE, threshold
        for worker in range(workers):
            if live[worker] and abs(deviations[worker]) > far:
                worst, far = worker, abs(deviations[worker])
        if worst == _NONE:
            return step
        unit, target, partner = _best_step(
            load, others, price, home, frozen, capacity, live, room, budget - spent, threshold,
            where, deviations, used, worst,
        )  # fmt: skip
        if unit == _NONE:
            return step
        source = where[unit]
        for one, to in ((unit, target), (partner, source)):
            if one == _NONE:
                continue
            spent += _extra(price, home, where, one, to)
            carried[where[one]] -= load[one]
            carried[to] += load[one]
            used[where[one]] -= others[one]
            used[to] += others[one]
            where[one] = to
    return steps


@kernel
def _best_step(  # noqa: PLR0912 - one search over two kinds of steps
    load: Float64,
    others: Float64,
    price: Float64,
    home: Int64,
    frozen: Bool,
    capacity: Float64,
    live: Bool,
    room: Float64,
    left: float,
    threshold: float,
    where: Int64,
    deviations: Float64,
    used: Float64,
    worst: int,
) -> tuple[int, int, int]:
    """Return the unit to move, its target, and the unit that comes back for it (or -1).

    It is the step with the largest gain for its price.
    """
    units, starts = _by_worker(where, capacity.size)
    over = deviations[worst] > 0
    far = abs(deviations[worst]) - _TINY
    free = max(_TINY, _FREE * price.mean())
    best, most = (_NONE, _NONE, _NONE), _TINY
    for other in np.argsort(deviations if over else -deviations):
        if other == worst or (over and not live[other]):
            continue
        # The worst one is to give if it has too much, and to get if it has too little.
        giver, taker = (worst, other) if over else (other, worst)
        now = _badness(deviations, capacity, live, threshold, giver, taker, 0.0)
        even = _even(deviations, capacity, live, giver, taker)
        hoped = now - _badness(deviations, capacity, live, threshold, giver, taker, even)
        if hoped <= most * free:
            continue
        # Whoever gives or takes more than this ends up as far from the mean as the worst one.
        reach = (far - deviations[taker]) * capacity[taker]
        if live[giver]:
            reach = min(reach, (far + deviations[giver]) * capacity[giver])
        for a in range(starts[giver], starts[giver + 1]):
            unit = units[a]
            if frozen[unit]:
                continue
            extra = _extra(price, home, where, unit, taker)
            given = load[unit]
            if given < reach and extra <= left + _TINY:
                gain = now - _badness(deviations, capacity, live, threshold, giver, taker, given)
                gain /= free + max(0.0, extra)
                if gain > most and _fits(others, room, used, taker, unit, _NONE):
                    best, most = (unit, taker, _NONE), gain
            if not live[giver]:
                continue
            for b in range(starts[taker], starts[taker + 1]):
                partner = units[b]
                given = load[unit] - load[partner]
                if given <= 0 or given >= reach or frozen[partner]:
                    continue
                both = extra + _extra(price, home, where, partner, giver)
                paid = free + max(0.0, both)
                if hoped <= most * paid or both > left + _TINY:
                    continue
                gain = now - _badness(deviations, capacity, live, threshold, giver, taker, given)
                if (
                    gain > most * paid
                    and _fits(others, room, used, taker, unit, partner)
                    and _fits(others, room, used, giver, partner, unit)
                ):
                    best, most = (unit, taker, partner), gain / paid
    return best


@kernel
def _badness(
    deviations: Float64,
    capacity: Float64,
    live: Bool,
    threshold: float,
    giver: int,
    taker: int,
    given: float,
) -> float:
    """How bad it is for two workers if one has given some load to the other one."""
    taken = deviations[taker] + given / capacity[taker]
    bad = capacity[taker] * _far(taken, threshold)
    if not live[giver]:
        return float(bad + (_DRAINS if given == 0 else 0.0))
    rest = deviations[giver] - given / capacity[giver]
    return float(bad + capacity[giver] * _far(rest, threshold))


@kernel
def _even(deviations: Float64, capacity: Float64, live: Bool, giver: int, taker: int) -> float:
    """What one worker would have to give to the other one for both to be even."""
    if not live[giver]:
        return float(-deviations[taker] * capacity[taker])
    both = 1 / capacity[giver] + 1 / capacity[taker]
    return float((deviations[giver] - deviations[taker]) / both)


@kernel
def _far(deviation: float, threshold: float) -> float:
    """How bad a deviation is: its square beyond the threshold, and next to nothing within it."""
    beyond = max(0.0, abs(deviation) - threshold)
    return beyond * beyond + _WITHIN * deviation * deviation


@kernel
def _extra(price: Float64, home: Int64, where: Int64, unit: int, target: int) -> float:
    """What a move takes from the budget; less than 0 if the unit returns home."""
    if where[unit] == home[unit]:
        return float(price[unit])
    return -float(price[unit]) if target == home[unit] else 0.0


@kernel
def _fits(
    others: Float64, room: Float64, used: Float64, target: int, unit: int, leaving: int
) -> bool:
    """Whether a worker has room for a unit when another one has left."""
    for resource in range(others.shape[1]):
        change = others[unit, resource] - (others[leaving, resource] if leaving >= 0 else 0.0)
        if change > 0 and used[target, resource] + change > room[target, resource] + _TINY:
            return False
    return True


@kernel
def _by_worker(where: Int64, workers: int) -> tuple[Int64, Int64]:
    """Return the units ordered by worker, and where each worker begins."""
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
