"""ALBIC: balancing that brings key groups together that talk to each other."""

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.placement.base import Placer
from penstock.policies.placement.cluster import Cluster, Traffic
from penstock.policies.placement.draining import drain
from penstock.policies.placement.local_search import search
from penstock.policies.placement.partitioning import connected, cut
from penstock.policies.placement.problem import ROUNDING, Problem
from penstock.policies.placement.together import Together
from penstock.policies.validation import at_least_zero, positive, whole

# The part of the budget that may bring key groups together; the rest is for balance.
_SHARE = 0.5
# Pairs that save so much of what the best one does for its price are as good.
_NEARLY = 0.5


class Albic(Placer):
    r"""Balances load and, within the same budget, collocates key groups that talk to each other.

    1. *Scores.* A pair matters if it sends more than `score_factor` times what the sender sends
       to a key group downstream on average: $out(k, m) > sF \cdot \overline{out}(k)$.
    2. *Maintain.* Pairs that are together already form sets, and a set moves as a unit. One that
       is too large for the budget or for `max_part_load` is cut by METIS where it hurts least.
    3. *Improve.* Pairs that are not together are brought together, those first that save most
       traffic for their price, up to half of the budget: to the worker of the one that belongs to
       a unit, or to the less loaded one. Not if a worker would end up too far from the mean.
    4. *Solve.* What was brought together stays for this plan. The other units are balanced with the
       rest of the budget (`LocalSearch`). If the load distance exceeds `max_distance`, and what
       balancing alone reaches, it starts again with parts smaller by `step`, and without any when
       these come to nothing. While the distance is within the limit and nothing has to be drained,
       no plan lowers the collocation, so plans for the same loads come to an end.

    Without traffic it is the local search. Where everybody sends to everybody, no pair stands out,
    and it is the same.

    Args:
        max_migrations: how many key groups a plan may move, >= 0; None for any number.
        max_cost: what their migration costs may sum up to, >= 0; None for anything.
        max_distance: load distance in points that collocation must not exceed (maxLD), >= 0.
        max_part_load: load of a unit in points above which it is cut (maxPL), > 0.
        step: by how much smaller units are tried, in points (stepPL), > 0.
        score_factor: how far above average a pair must be (sF), > 0.
        pairs: how many pairs a plan brings together, >= 1; None for half of the budget.
        goal: load distance in points at which balancing stops, >= 0.
        tolerated: load distance in points that is reached before workers are drained, >= 0;
            infinite to drain first.
        seed: of ties between pairs, and of METIS, >= 0.

    Example:
        >>> pairs = Traffic(source=[0, 1], target=[2, 3], volume=[5, 5])
        >>> cluster = Cluster([10] * 4, [0, 0, 1, 1], [1, 1], [], [0, 0, 1, 1], traffic=pairs)
        >>> plan = Albic(max_migrations=2).plan(cluster)
        >>> plan.collocation_before, plan.collocation_after, plan.distance_after
        (0.0, 1.0, 0.0)

    References:
        K. G. S. Madsen, Y. Zhou and J. Cao, "Integrative Dynamic Reconfiguration in a Parallel
        Stream Processing Engine", ICDE 2017, section 4.3.2, Algorithm 2.

    Deviations:
        Several pairs a plan instead of one, which takes hundreds of plans (`as_published`), ordered
        by what they save for their price; a pair whose move alone would exceed the limit on the
        distance waits, or a few heavy key groups would make every plan exceed it. The limit is what
        balancing alone reaches, if that is above `max_distance`, and no plan lowers the collocation
        without need. The local search instead of the exact program: it is fast at any size. A pair
        is left as it is if bringing it together is not within the budget, if both have been brought
        elsewhere in this plan, or if both are on workers that are to be removed. A unit too large
        for what is left of the budget does not keep a worker from being drained: its key groups
        leave one by one.
    """

    name = "albic"

    def __init__(
        self,
        max_migrations: int | None = None,
        max_cost: float | None = None,
        max_distance: float = 10.0,
        max_part_load: float = 25.0,
        step: float = 5.0,
        score_factor: float = 1.5,
        pairs: int | None = None,
        goal: float = 0.01,
        tolerated: float = 5.0,
        seed: int = 0,
    ) -> None:
        super().__init__(max_migrations, max_cost)
        self.max_distance = at_least_zero("max_distance", max_distance)
        self.max_part_load = positive("max_part_load", max_part_load)
        self.step = positive("step", step)
        self.score_factor = positive("score_factor", score_factor)
        self.pairs = None if pairs is None else whole("pairs", pairs, least=1)
        self.goal = at_least_zero("goal", goal)
        self.tolerated = np.inf if tolerated == np.inf else at_least_zero("tolerated", tolerated)
        self.seed = whole("seed", seed, least=0)

    @classmethod
    def as_published(cls, **params: Any) -> "Albic":  # noqa: ANN401
        """Return the paper's choice: one pair a plan, the one that sends most; the rest is ours."""
        if "pairs" in params:
            raise PenstockError(f"pairs must be left out: as published it is 1; got {params}")
        return cls(pairs=1, **params)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Try with smaller and smaller units, and at last without any."""
        problem = self.problem(cluster)
        talking = _talking(cluster, self.score_factor)
        balanced = search(problem, self.goal, self.tolerated)
        if not len(talking):
            return balanced, ""
        limit = max(self.max_distance, problem.distance(balanced)) + ROUNDING
        urgent = problem.distance(problem.home) > limit or problem.undrained(problem.home).size > 0
        now = _together(talking, problem.home)
        load = self.max_part_load
        while load > 0:
            for improves in (True, False):
                placement = self._attempt(problem, talking, load, limit if improves else None)
                # Unless something has to be done, no plan undoes what others have reached.
                gain = _together(talking, placement) - now
                useful = urgent or gain > ROUNDING or (not improves and gain >= -ROUNDING)
                if useful and problem.distance(placement) <= limit:
                    return placement, ""
            load -= self.step
        if not urgent:
            return problem.home, "any move would cost collocation"
        return balanced, f"collocation given up for a load distance of at most {limit:.3g} points"

    def _attempt(
        self, problem: Problem, talking: Traffic, max_load: float, limit: float | None
    ) -> Int64:
        """Maintain, improve (for a distance up to a limit) and solve, with units up to a load."""
        units = self._units(problem, talking, max_load)
        together = Together(problem, units)
        if limit is not None:
            self._improve(together, talking, limit)
        rest = replace(
            problem,
            home=together.where,
            frozen=together.pinned,
            budget=problem.budget - problem.spent(together.where),
        )
        unit = np.unique(together.unit, return_inverse=True)[1].astype(np.int64)
        where = search(rest.merged(unit), self.goal, self.tolerated)[unit]
        drain(problem, where)
        return where

    def _units(self, problem: Problem, talking: Traffic, max_load: float) -> Int64:
        """Return the unit of each key group: sets of pairs that are together, cut if too large."""
        near = problem.home[talking.source] == problem.home[talking.target]
        units = connected(problem.load.size, talking.source[near], talking.target[near])
        waiting = list(np.flatnonzero(np.bincount(units) > 1))
        while waiting:
            own = np.flatnonzero(units == waiting.pop())
            by_price = problem.price[own].sum() / problem.budget
            by_load = problem.load[own].sum() / max_load
            parts = min(int(np.ceil(max(by_price, by_load) - ROUNDING)), own.size)
            if parts < 2:
                continue
            weight = problem.price[own] if by_price > by_load else problem.load[own]
            labels = cut(weight, _within(talking, own), np.ones(parts), self.seed)
            fresh = int(units.max()) + labels
            units[own[labels > 0]] = fresh[labels > 0]
            waiting += list(np.unique(units[own]))
        return units

    def _improve(self, together: Together, talking: Traffic, limit: float) -> None:
        """Bring pairs together, as many as the budget for it allows."""
        several = self.pairs is None
        apart = together.where[talking.source] != together.where[talking.target]
        left = together.problem.budget * (_SHARE if several else 1.0)
        ties = np.random.default_rng(self.seed).random(len(talking))
        done = 0
        while apart.any() and left > ROUNDING and done != self.pairs:
            ways = together.ways(talking.source, talking.target)
            apart &= ways.possible & (ways.price <= left + ROUNDING)
            if several:
                # Of those that save much for their price, the one that balances most.
                worth = talking.volume / np.maximum(ways.price, ROUNDING)
                chosen = _best(apart & (ways.distance <= limit), worth, _NEARLY, ways.balance)
            else:
                chosen = _best(apart, talking.volume, 1.0, ties)
            if chosen is None:
                return
            apart[chosen] = False
            if together.bring(talking.source[chosen], talking.target[chosen], ways.to[chosen]):
                left -= ways.price[chosen]
                done += 1


def _best(allowed: Bool, worth: Float64, part: float, second: Float64) -> int | None:
    """Return which is best by a second measure, of those that have nearly the best first one."""
    choices = np.flatnonzero(allowed)
    if not choices.size:
        return None
    choices = choices[worth[choices] >= part * worth[choices].max()]
    return int(choices[np.argmax(second[choices])])


def _talking(cluster: Cluster, factor: float) -> Traffic:
    """Return the pairs that send more than a multiple of what their sender sends on average."""
    traffic, operator = cluster.traffic, cluster.operator
    if not len(traffic):
        return traffic
    names, which = np.unique(operator, return_inverse=True)
    sizes = np.bincount(which)
    # Operators that get anything from an operator are downstream, with all their key groups.
    links = np.unique(np.stack((which[traffic.source], which[traffic.target])), axis=1)
    downstream = np.bincount(links[0], weights=sizes[links[1]], minlength=names.size)
    sent = np.bincount(traffic.source, weights=traffic.volume, minlength=cluster.key_groups)
    average = sent / np.maximum(downstream[which], 1)
    kept = (traffic.volume > factor * average[traffic.source]) & (traffic.source != traffic.target)
    return Traffic(traffic.source[kept], traffic.target[kept], traffic.volume[kept])


def _together(talking: Traffic, where: Int64) -> float:
    """Return the part of the traffic between such pairs that stays on its worker."""
    near = where[talking.source] == where[talking.target]
    return float(talking.volume[near].sum() / talking.volume.sum())


def _within(talking: Traffic, own: Int64) -> Traffic:
    """Return the traffic between some key groups, numbered among themselves."""
    ends = [np.searchsorted(own, end).clip(max=own.size - 1) for end in _ends(talking)]
    inside = (own[ends[0]] == talking.source) & (own[ends[1]] == talking.target)
    return Traffic(ends[0][inside], ends[1][inside], talking.volume[inside])


def _ends(talking: Traffic) -> tuple[Int64, Int64]:
    return talking.source, talking.target
