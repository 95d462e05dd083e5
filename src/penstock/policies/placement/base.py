"""The placer: on which worker each key group lives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.base import Policy
from penstock.policies.kernels import Float64, Int64
from penstock.policies.placement.bounds import lower_bound
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.problem import ROUNDING, Problem
from penstock.policies.validation import at_least_zero, whole


class Move(NamedTuple):
    """A key group that goes from one worker to another."""

    key_group: int
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class PlacementPlan:
    """Where the key groups should live, what that takes, and why.

    Attributes:
        moves: in the order in which they should be made: what relieves most comes first.
        placement: the worker of each key group when all are made.
        distance_before: load distance now, in points.
        distance_after: load distance when all moves are made.
        lower_bound: load distance that no plan within the budget can beat.
        cost: sum of the moved key groups' migration costs.
        collocation_before: share of the traffic that stays on its worker; NaN without traffic.
        collocation_after: the same when all moves are made.
        reason: for a person.
    """

    moves: tuple[Move, ...]
    placement: Int64
    distance_before: float
    distance_after: float
    lower_bound: float
    cost: float
    collocation_before: float
    collocation_after: float
    reason: str


class Placer(Policy, ABC):
    """Plans where key groups live, from what is known of a cluster.

    It is a function of the cluster: it remembers nothing, so it can be restarted at any time. An
    placer of your own needs `place` only.

    Args:
        max_migrations: how many key groups a plan may move, >= 0; None for any number.
        max_cost: what their migration costs may sum up to, >= 0; None for anything. Give one of
            both at most.

    Example:
        >>> class Home(Placer):
        ...     def place(self, cluster):
        ...         return cluster.key_groups * [0], "all to the first worker"
        >>> plan = Home().plan(Cluster(load=[30, 30], placement=[0, 1], capacity=[1, 1]))
        >>> plan.moves, plan.distance_before, plan.distance_after
        ((Move(key_group=1, source=1, target=0),), 0.0, 30.0)
    """

    family = "placer"

    def __init__(self, max_migrations: int | None = None, max_cost: float | None = None) -> None:
        if max_migrations is not None and max_cost is not None:
            raise PenstockError(
                f"max_cost must be None if max_migrations = {max_migrations} is given; "
                f"got {max_cost!r}. Give one of both"
            )
        self.max_migrations = (
            None if max_migrations is None else whole("max_migrations", max_migrations, least=0)
        )
        self.max_cost = None if max_cost is None else at_least_zero("max_cost", max_cost)

    @abstractmethod
    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Return the worker of each key group, and what else is to be said; "" for nothing.

        It is called with at least one worker that stays, loads that are known, and a budget.
        """

    @property
    def budget(self) -> float:
        """What a plan may spend: migrations, or their cost; infinite if it is not limited."""
        limits = (self.max_migrations, self.max_cost)
        return min((float(limit) for limit in limits if limit is not None), default=np.inf)

    def prices(self, cluster: Cluster) -> Float64:
        """What moving each key group takes from the budget."""
        costly = self.max_cost is not None
        return cluster.migration_cost.copy() if costly else np.ones(cluster.key_groups)

    def problem(self, cluster: Cluster) -> Problem:
        """Return what is to be solved, key group by key group."""
        return Problem.of(cluster, self.prices(cluster), self.budget)

    def plan(self, cluster: Cluster) -> PlacementPlan:
        """Return where the key groups should live; nothing moves where nothing can be said."""
        obstacle = self._obstacle(cluster)
        if obstacle:
            return self._planned(cluster, cluster.placement, f"nothing is moved: {obstacle}")
        placed, note = self.place(cluster)
        placement = np.asarray(placed, dtype=np.int64)
        self._refuse_wrong(cluster, placement)
        return self._planned(cluster, placement, note)

    def _obstacle(self, cluster: Cluster) -> str:
        """Why nothing can be planned; "" if something can."""
        unknown = np.flatnonzero(~np.isfinite(cluster.load).all(axis=1))
        if not cluster.key_groups:
            return "there are no key groups"
        if not cluster.live.any():
            return f"all {cluster.workers} workers are marked for removal"
        if unknown.size:
            return f"the load of {unknown.size} key groups is not known, as of {unknown[0]}"
        if self.budget == 0:
            limit = "max_migrations" if self.max_cost is None else "max_cost"
            return f"the budget is 0 ({limit})"
        if not cluster.load.any() and not cluster.undrained(cluster.placement):
            return "all loads are 0"
        return ""

    def _refuse_wrong(self, cluster: Cluster, placement: Int64) -> None:
        who = type(self).__name__
        if placement.shape != cluster.placement.shape:
            raise PenstockError(
                f"{who} must place each of {cluster.key_groups} key groups; "
                f"got shape {placement.shape}"
            )
        moved = placement != cluster.placement
        inside = (placement >= 0) & (placement < cluster.workers)
        wrong = np.flatnonzero(moved & ~(inside & cluster.live[placement * inside]))
        if wrong.size:
            raise PenstockError(
                f"{who} must move key groups to workers that stay; "
                f"got {placement[wrong[0]]} for key group {wrong[0]}"
            )
        spent = float(self.prices(cluster)[moved].sum())
        if spent > self.budget * (1 + ROUNDING) + ROUNDING:
            raise PenstockError(f"{who} must spend at most {self.budget:g}; got {spent:g}")

    def _planned(self, cluster: Cluster, placement: Int64, note: str) -> PlacementPlan:
        now, moves = cluster.placement, _ordered(cluster, placement)
        known = bool(np.isfinite(cluster.load).all()) and bool(cluster.live.any())
        distances = [cluster.distance(one) if known else np.nan for one in (now, placement)]
        bound = lower_bound(self.problem(cluster)) if known and cluster.key_groups else 0.0
        moved = placement != now
        return PlacementPlan(
            moves=moves,
            placement=placement,
            distance_before=distances[0],
            distance_after=distances[1],
            lower_bound=bound,
            cost=float(cluster.migration_cost[moved].sum()),
            collocation_before=cluster.collocation(now),
            collocation_after=cluster.collocation(placement),
            reason=note
            if note.startswith("nothing")
            else self._why(cluster, placement, bound, note),
        )

    def _why(self, cluster: Cluster, placement: Int64, bound: float, note: str) -> str:
        before, after = cluster.distance(cluster.placement), cluster.distance(placement)
        count = int((placement != cluster.placement).sum())
        limit = "" if self.max_migrations is None else f" of at most {self.max_migrations}"
        if self.max_cost is not None:
            cost = cluster.migration_cost[placement != cluster.placement].sum()
            limit = f" that cost {cost:g} of at most {self.max_cost:g}"
        parts = [
            f"load distance {before:.3g} -> {after:.3g} points (bound {bound:.3g}) "
            f"with {count} migrations{limit}"
            if count
            else f"nothing to move: load distance {before:.3g} points (bound {bound:.3g})"
        ]
        waiting = cluster.undrained(cluster.placement)
        if waiting:
            rest = cluster.undrained(placement)
            parts.append(f"{waiting - rest} of {waiting} key groups leave workers to be removed")
        shares = [cluster.collocation(one) for one in (cluster.placement, placement)]
        if not np.isnan(shares[0]):
            parts.append(f"collocation {shares[0]:.0%} -> {shares[1]:.0%}")
        return "; ".join([*parts, note] if note else parts)


def _ordered(cluster: Cluster, placement: Int64) -> tuple[Move, ...]:
    """Return the moves, from the fullest worker first, and its largest key groups first."""
    moved = np.flatnonzero(placement != cluster.placement)
    if not moved.size:
        return ()
    source = cluster.placement[moved]
    load = cluster.load[moved, cluster.bottleneck]
    order = np.lexsort((moved, -load, -cluster.deviations(cluster.placement)[source]))
    return tuple(
        Move(int(group), int(cluster.placement[group]), int(placement[group]))
        for group in moved[order]
    )
