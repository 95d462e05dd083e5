"""The placement loop: asks a placer for plans, and compares their effect with the promise."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from penstock.control.journal import Journal
from penstock.control.keygroups import KeyGroup, KeyGroups
from penstock.policies.placement import Cluster, PlacementPlan, Placer

# Batches after which the effect of a plan is known.
_SETTLED = 4
# By how much a plan must have made things worse to be noticed: a share, and points.
_WORSE, _POINTS = 0.1, 1.0
_MOST_PAUSES = 16


@dataclass(frozen=True)
class MigrationPlan:
    """The key groups that should move, with the reason.

    Attributes:
        moves: target executor of each key group that should move.
        distance_before: present load distance, in points.
        distance_after: expected load distance, in points.
        reason: reason, for a person.
        obstacle: reason why nothing could be planned; "" if there is none.
    """

    moves: Mapping[KeyGroup, str]
    distance_before: float
    distance_after: float
    reason: str
    obstacle: str = ""


@dataclass(frozen=True)
class _Judged:
    """A plan whose effect is still unknown, and the state before it."""

    plan: MigrationPlan
    places: Mapping[KeyGroup, str]
    mean: float
    drains: bool


@dataclass
class PlacementLoop:
    """Asks a placer for a plan every period, and judges the effect of its plans.

    After a plan that made things worse nothing moves for one period, after the next such plan for
    two, then four, and so on.

    Args:
        query: name of the query, for people.
        placer: policy that plans.
        groups: loads and executors of key groups.
        journal: journal for plans and outcomes.
        dry_run: whether plans are written to the journal only.

    Example:
        >>> from penstock.control.keygroups import Ran
        >>> from penstock.policies.placement import LocalSearch
        >>> groups = KeyGroups()
        >>> for _ in range(5):
        ...     groups.add([Ran((0, i), "1", 100.0) for i in range(4)], interval_ms=1000.0)
        >>> loop = PlacementLoop("words", LocalSearch(max_migrations=3), groups)
        >>> plan = loop.plan({"1": 1, "2": 1})
        >>> sorted(plan.moves.values()), plan.distance_before, plan.distance_after
        (['2', '2'], 20.0, 0.0)
    """

    query: str
    placer: Placer
    groups: KeyGroups
    _: KW_ONLY
    journal: Journal = field(default_factory=Journal)
    dry_run: bool = False
    _judged: "_Judged | None" = None
    _since: int = 0
    _pauses: int = 0
    _paused: int = 0

    def plan(
        self,
        executors: Mapping[str, int],
        *,
        marked: frozenset[str] = frozenset(),
        traffic: Mapping[tuple[KeyGroup, KeyGroup], float] | None = None,
        migration_cost: Mapping[KeyGroup, float] | None = None,
    ) -> MigrationPlan:
        """Return which key groups should move.

        Args:
            executors: live executors, and the number of tasks that each runs at a time.
            marked: executors that are to be removed; they are drained.
            traffic: bytes sent between key groups.
            migration_cost: migration cost of key groups; 1 for each if it is empty.
        """
        if not executors:
            return self._nothing("there are no executors")
        cluster, names = self.groups.cluster(
            executors, marked=marked, traffic=traffic, migration_cost=migration_cost
        )
        if self._judged is not None and self.groups.batches - self._since < _SETTLED:
            return self._nothing("the effect of the last plan is still unknown")
        self._judge(cluster, names)
        if self._paused and not marked:
            self._paused -= 1
            return self._nothing(f"the last plan made things worse; {self._paused} more pauses")
        planned = self.placer.plan(cluster)
        ids = self.groups.groups(executors)
        moves = {ids[move.key_group]: names[move.target] for move in planned.moves}
        plan = MigrationPlan(
            moves=moves,
            distance_before=planned.distance_before,
            distance_after=planned.distance_after,
            reason=planned.reason,
            obstacle=planned.obstacle,
        )
        self._write_plan(plan, planned)
        if moves and not self.dry_run:
            places = {group: names[at] for group, at in zip(ids, cluster.placement, strict=True)}
            self._judged = _Judged(plan, places, cluster.mean, bool(marked))
            self._since = self.groups.batches
        return plan

    def carried_out(self) -> None:
        """Note that all moves have been made or given up: loads show their effect from now on."""
        self._since = self.groups.batches

    def _nothing(self, why: str) -> MigrationPlan:
        reason = f"nothing is moved: {why}"
        self._write("plan", moves={}, reason=reason, dry_run=self.dry_run)
        return MigrationPlan(
            moves={},
            distance_before=np.nan,
            distance_after=np.nan,
            reason=reason,
            obstacle=why,
        )

    def _write_plan(self, plan: MigrationPlan, planned: PlacementPlan) -> None:
        self._write(
            "plan",
            moves={f"{g[0]}/{g[1]}": target for g, target in plan.moves.items()},
            distance=_rounded(plan.distance_before),
            expected=_rounded(plan.distance_after),
            bound=_rounded(planned.lower_bound),
            collocation=_rounded(planned.collocation_before),
            reason=plan.reason,
            dry_run=self.dry_run,
        )

    def _judge(self, cluster: Cluster, names: list[str]) -> None:
        """Compare the effect of the last plan with the state without it.

        The state without it is the old placement with the present loads and executors. A plan is
        not blamed for the distance that it predicted, nor for draining.
        """
        judged, self._judged = self._judged, None
        if judged is None:
            return
        ids = self.groups.groups(names)
        places = [judged.places.get(group) for group in ids]
        worker = {name: i for i, name in enumerate(names)}
        gone = not judged.plan.moves.keys() <= set(ids)
        unlike = gone or any(one not in worker for one in places) or not cluster.live.any()
        if unlike or np.isnan(cluster.load).any():
            why = "executors have changed" if unlike else "loads are unknown"
            self._write("outcome", reason=f"{why}: the plan cannot be judged")
            return
        old = np.array([worker[str(one)] for one in places], dtype=np.int64)
        before, achieved = cluster.distance(old), cluster.distance(cluster.placement)
        more = cluster.mean / judged.mean if judged.mean else 1.0
        allowed = max(before, judged.plan.distance_after * more) * (1 + _WORSE) + _POINTS
        worse = achieved > allowed and not judged.drains
        self._pauses = min(max(1, 2 * self._pauses), _MOST_PAUSES) if worse else 0
        self._paused = self._pauses
        self._write(
            "outcome",
            before=_rounded(before),
            expected=_rounded(judged.plan.distance_after),
            achieved=_rounded(achieved),
            reason="it made things worse: a pause follows" if worse else "as planned, or nearly so",
        )

    def _write(self, kind: str, **fields: object) -> None:
        self.journal.write(kind, query=self.query, **fields)


def _rounded(points: float) -> float | None:
    return None if np.isnan(points) else round(points, 3)
