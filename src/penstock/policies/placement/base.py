"""The placer: decides on which worker each key group lives."""

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
from penstock.policies.validation import at_least_zero, int64s, refuse_other, whole


class Move(NamedTuple):
    """A key group that moves from one worker to another.

    Attributes:
        key_group: number of the key group.
        source: worker that it leaves.
        target: worker that it moves to.
    """

    key_group: int
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class PlacementPlan:
    """The worker of each key group, the moves that this takes, and the reason.

    Attributes:
        moves: moves in the order in which they should be made: those that relieve most come first.
        placement: worker of each key group after all moves.
        distance_before: present load distance, in points.
        distance_after: load distance after all moves, in points.
        lower_bound: load distance that no plan within the budget can beat, in points.
        cost: total migration cost of the moved key groups.
        collocation_before: share of the traffic that stays on its worker; NaN without traffic.
        collocation_after: share of the traffic that stays on its worker after all moves.
        reason: reason of the plan, for a person.
        obstacle: reason why nothing could be planned; "" if there is none.
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
    obstacle: str = ""


class Placer(Policy, ABC):
    """Plans on which worker each key group of a cluster lives.

    It is a function of the cluster: it remembers nothing, so it can be restarted at any time. A
    placer of your own needs `place` only.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit. Give at most one
            of both.

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
                f"got {max_cost!r}. Give only one of both"
            )
        self.max_migrations = (
            None if max_migrations is None else whole("max_migrations", max_migrations, least=0)
        )
        self.max_cost = None if max_cost is None else at_least_zero("max_cost", max_cost)

    @abstractmethod
    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Return the worker of each key group, and a note that is added to the reason, or "".

        Called by `plan`, if the budget is not 0 and there is something to place. That means: there
        are key groups, a worker stays, all loads are known, and not all of them are 0.
        """

    @property
    def budget(self) -> float:
        """Limit of a plan: number of migrations, or their total cost; infinite without a limit.

        Read by `plan` and by placers.
        """
        limits = (self.max_migrations, self.max_cost)
        return min((float(limit) for limit in limits if limit is not None), default=np.inf)

    def prices(self, cluster: Cluster) -> Float64:
        """Return the price of moving each key group: the part of the budget that it takes.

        Called by `plan` and by `problem`.
        """
        costly = self.max_cost is not None
        return cluster.migration_cost.copy() if costly else np.ones(cluster.key_groups)

    def problem(self, cluster: Cluster) -> Problem:
        """Return the problem to solve, with every key group as a unit.

        Called by `plan` and by placers.
        """
        return Problem.of(cluster, self.prices(cluster), self.budget)

    def plan(self, cluster: Cluster) -> PlacementPlan:
        """Return on which worker each key group should live; nothing moves if there is an obstacle.

        Called by the placement loop on the driver, every period.
        """
        refuse_other("cluster", cluster, Cluster)
        obstacle = self._obstacle(cluster)
        if obstacle:
            return self._planned(cluster, cluster.placement, obstacle=obstacle)
        placement, note = self._placed(self.place(cluster))
        self._refuse_wrong(cluster, placement)
        return self._planned(cluster, placement, note)

    def _placed(self, found: object) -> tuple[Int64, str]:
        """Return what `place` has returned, if it is a placement and a note."""
        name = f"{type(self).__name__}.place"
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], str):
            raise PenstockError(
                f"{name} must return the workers of all key groups and a note, such as "
                f"(workers, ''); got {found!r}"
            )
        return int64s(f"the workers of {name}", found[0]), found[1]

    def _obstacle(self, cluster: Cluster) -> str:
        """Return the reason why nothing can be planned; "" if there is none."""
        unknown = np.flatnonzero(~np.isfinite(cluster.load).all(axis=1))
        if not cluster.key_groups:
            return "there are no key groups"
        if not cluster.live.any():
            return f"all {cluster.workers} workers are marked for removal"
        if unknown.size:
            return (
                f"the load of {unknown.size} key groups is unknown, "
                f"for example of key group {unknown[0]}"
            )
        if self.budget == 0:
            limit = "max_migrations" if self.max_cost is None else "max_cost"
            return f"the budget is 0 ({limit})"
        if not cluster.load.any() and not cluster.undrained(cluster.placement):
            return "all loads are 0"
        return ""

    def _refuse_wrong(self, cluster: Cluster, placement: Int64) -> None:
        name = type(self).__name__
        if placement.shape != cluster.placement.shape:
            raise PenstockError(
                f"{name} must place each of {cluster.key_groups} key groups; "
                f"got shape {placement.shape}"
            )
        moved = placement != cluster.placement
        inside = (placement >= 0) & (placement < cluster.workers)
        wrong = np.flatnonzero(moved & ~(inside & cluster.live[placement * inside]))
        if wrong.size:
            raise PenstockError(
                f"{name} must move key groups to workers that stay; "
                f"got {placement[wrong[0]]} for key group {wrong[0]}"
            )
        spent = float(self.prices(cluster)[moved].sum())
        if spent > self.budget * (1 + ROUNDING) + ROUNDING:
            raise PenstockError(f"{name} must spend at most {self.budget:g}; got {spent:g}")

    def _planned(
        self, cluster: Cluster, placement: Int64, note: str = "", obstacle: str = ""
    ) -> PlacementPlan:
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
            reason=f"nothing is moved: {obstacle}"
            if obstacle
            else self._why(cluster, placement, bound, note),
            obstacle=obstacle,
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
    """Return the moves: off the fullest worker first, and its largest key groups first."""
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
