"""ALBIC: balancing that collocates key groups with much traffic between them."""

from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.extras import refuse_missing
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.placement.cluster import Cluster, Traffic
from penstock.policies.placement.collocation import Collocation
from penstock.policies.placement.draining import drain
from penstock.policies.placement.local_search import Balancer
from penstock.policies.placement.partitioning import connected, cut
from penstock.policies.placement.problem import ROUNDING, Problem
from penstock.policies.validation import at_least_zero, positive, whole

# Share of the budget for bringing key groups together; the rest is for balance.
_SHARE = 0.5
# Share of the best saving for its price from which on pairs are as good as the best one.
_NEARLY = 0.5


class Albic(Balancer):
    r"""Balances load and, within the same budget, collocates key groups with much traffic.

    1. *Scores.* A pair counts if its traffic is more than `score_factor` times the average traffic
       of its sender to a key group downstream: $out(k, m) > sF \cdot \overline{out}(k)$.
    2. *Maintain.* Pairs that are together already form sets, and a set moves as a unit. A set that
       is too large for the budget or for `max_part_load` is cut by METIS, along little traffic.
    3. *Improve.* Other pairs are brought together, up to half of the budget. Pairs that save most
       traffic for their price come first. They meet on the worker of the key group that belongs to
       a unit, or on the less loaded one. No worker may end up too far from the mean.
    4. *Solve.* Pairs that were brought together stay for this plan. The other units are balanced
       with the rest of the budget (`LocalSearch`). The load distance must not exceed
       `max_distance`, or the distance of balancing alone if that is larger. Otherwise it starts
       again with units smaller by `step`, and at last without units.

    While the distance is within the limit and no worker has to be drained, no plan lowers the
    collocation. So plans for the same loads come to an end. Without traffic it is the local search.
    The same holds where all key groups send alike to all others, as no pair stands out.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit.
        max_distance: load distance in points that collocation must not exceed (maxLD), >= 0.
        max_part_load: load of a unit in points above which it is cut (maxPL), > 0.
        step: load in points by which units get smaller from try to try (stepPL), > 0.
        score_factor: factor by which the traffic of a pair must exceed the average (sF), > 0.
        pairs: number of pairs that a plan brings together, >= 1; None for half of the budget.
        goal: load distance in points at which balancing stops, >= 0.
        tolerated: load distance in points that is reached before workers are drained, >= 0;
            infinite to drain first.
        seed: seed of ties between pairs, and of METIS, >= 0.

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
        Several pairs a plan, ordered by their saving for their price. One pair a plan takes
        hundreds of plans (`as_published`). A pair whose move alone would exceed the limit on the
        distance waits: otherwise a few heavy key groups would make every plan exceed it. The limit
        is the distance of balancing alone if that is above `max_distance`. No plan lowers the
        collocation without need. The local search instead of the exact program, as it is fast at
        any size. A pair is left alone if bringing it together is not within the budget. It is also
        left alone if this plan has moved both, or if both are on workers that are to be removed.
        A unit that is too large for the rest of the budget does not keep a worker from being
        drained: its key groups leave one by one.
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
        refuse_missing("pymetis", extra="solvers", what="Albic")
        super().__init__(max_migrations, max_cost, goal, tolerated)
        self.max_distance = at_least_zero("max_distance", max_distance)
        self.max_part_load = positive("max_part_load", max_part_load)
        self.step = positive("step", step)
        self.score_factor = positive("score_factor", score_factor)
        self.pairs = None if pairs is None else whole("pairs", pairs, least=1)
        self.seed = whole("seed", seed, least=0)

    @classmethod
    def as_published(cls, **params: Any) -> "Albic":  # noqa: ANN401
        """Return the paper's choice: one pair a plan, with the most traffic; the rest is ours."""
        if "pairs" in params:
            raise PenstockError(f"pairs must be left out: as published it is 1; got {params}")
        return cls(pairs=1, **params)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Try with smaller and smaller units, and at last without any."""
        problem = self.problem(cluster)
        heavy = _heavy_pairs(cluster, self.score_factor)
        balanced = self.balanced(problem)
        if not len(heavy):
            return balanced, ""
        limit = max(self.max_distance, problem.distance(balanced)) + ROUNDING
        urgent = problem.distance(problem.home) > limit or problem.undrained(problem.home).size > 0
        now = _collocated(heavy, problem.home)
        load = self.max_part_load
        while load > 0:
            for improves in (True, False):
                placement = self._attempt(problem, heavy, load, limit if improves else None)
                # Unless it is urgent, no plan undoes the collocation of earlier plans.
                gain = _collocated(heavy, placement) - now
                useful = urgent or gain > ROUNDING or (not improves and gain >= -ROUNDING)
                if useful and problem.distance(placement) <= limit:
                    return placement, ""
            load -= self.step
        if not urgent:
            return problem.home, "any move would cost collocation"
        return balanced, f"collocation given up for a load distance of at most {limit:.3g} points"

    def _attempt(
        self, problem: Problem, heavy: Traffic, max_load: float, limit: float | None
    ) -> Int64:
        """Maintain, improve and solve, with units up to a load.

        Pairs are brought together for a distance up to the limit; not at all if it is None.
        """
        units = self._units(problem, heavy, max_load)
        collocation = Collocation(problem, units)
        if limit is not None:
            self._improve(collocation, heavy, limit)
        rest = problem._replace(
            home=collocation.where,
            frozen=collocation.pinned,
            budget=problem.budget - problem.spent(collocation.where),
        )
        unit = np.unique(collocation.unit, return_inverse=True)[1].astype(np.int64)
        where = self.balanced(rest.merged(unit))[unit]
        drain(problem, where)
        return where

    def _units(self, problem: Problem, heavy: Traffic, max_load: float) -> Int64:
        """Return the unit of each key group: sets of pairs that are together, cut if too large."""
        near = problem.home[heavy.source] == problem.home[heavy.target]
        units = connected(problem.load.size, heavy.source[near], heavy.target[near])
        waiting = list(np.flatnonzero(np.bincount(units) > 1))
        while waiting:
            own = np.flatnonzero(units == waiting.pop())
            by_price = problem.price[own].sum() / problem.budget
            by_load = problem.load[own].sum() / max_load
            parts = min(int(np.ceil(max(by_price, by_load) - ROUNDING)), own.size)
            if parts < 2:
                continue
            weight = problem.price[own] if by_price > by_load else problem.load[own]
            labels = cut(weight, _within(heavy, own), np.ones(parts), self.seed)
            fresh = int(units.max()) + labels
            units[own[labels > 0]] = fresh[labels > 0]
            waiting += list(np.unique(units[own]))
        return units

    def _improve(self, collocation: Collocation, heavy: Traffic, limit: float) -> None:
        """Bring pairs together, as many as the share of the budget for it allows."""
        several = self.pairs is None
        apart = collocation.where[heavy.source] != collocation.where[heavy.target]
        left = collocation.problem.budget * (_SHARE if several else 1.0)
        ties = np.random.default_rng(self.seed).random(len(heavy))
        done = 0
        while apart.any() and left > ROUNDING and done != self.pairs:
            options = collocation.options(heavy.source, heavy.target)
            apart &= options.possible & (options.price <= left + ROUNDING)
            if several:
                # Of the pairs that save much for their price, the one that balances most.
                worth = heavy.volume / np.maximum(options.price, ROUNDING)
                chosen = _best(apart & (options.distance <= limit), worth, _NEARLY, options.balance)
            else:
                chosen = _best(apart, heavy.volume, 1.0, ties)
            if chosen is None:
                return
            apart[chosen] = False
            if collocation.bring(heavy.source[chosen], heavy.target[chosen], options.to[chosen]):
                left -= options.price[chosen]
                done += 1


def _best(allowed: Bool, worth: Float64, part: float, second: Float64) -> int | None:
    """Return the best choice by a second measure, of those that are nearly best by the first."""
    choices = np.flatnonzero(allowed)
    if not choices.size:
        return None
    choices = choices[worth[choices] >= part * worth[choices].max()]
    return int(choices[np.argmax(second[choices])])


def _heavy_pairs(cluster: Cluster, factor: float) -> Traffic:
    """Return the pairs whose traffic exceeds a multiple of the average of their sender."""
    traffic, operator = cluster.traffic, cluster.operator
    if not len(traffic):
        return traffic
    names, which = np.unique(operator, return_inverse=True)
    sizes = np.bincount(which)
    # Operators that receive records of an operator are downstream, with all their key groups.
    links = np.unique(np.stack((which[traffic.source], which[traffic.target])), axis=1)
    downstream = np.bincount(links[0], weights=sizes[links[1]], minlength=names.size)
    sent = np.bincount(traffic.source, weights=traffic.volume, minlength=cluster.key_groups)
    average = sent / np.maximum(downstream[which], 1)
    kept = (traffic.volume > factor * average[traffic.source]) & (traffic.source != traffic.target)
    return Traffic(traffic.source[kept], traffic.target[kept], traffic.volume[kept])


def _collocated(heavy: Traffic, where: Int64) -> float:
    """Return the share of the traffic between these pairs that stays on its worker."""
    near = where[heavy.source] == where[heavy.target]
    return float(heavy.volume[near].sum() / heavy.volume.sum())


def _within(heavy: Traffic, own: Int64) -> Traffic:
    """Return the traffic between some key groups, numbered among themselves."""
    source = np.searchsorted(own, heavy.source).clip(max=own.size - 1)
    target = np.searchsorted(own, heavy.target).clip(max=own.size - 1)
    inside = (own[source] == heavy.source) & (own[target] == heavy.target)
    return Traffic(source[inside], target[inside], heavy.volume[inside])
