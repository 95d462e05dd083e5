"""Where key groups should live: an allocator's plans, and whether they were worth it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.control.journal import Journal
from penstock.control.keygroups import KeyGroup, KeyGroups
from penstock.policies.allocation import Allocation, Allocator, Cluster

# Batches after which what a plan has achieved is known.
_SETTLED = 4
# By how much a plan must have made things worse to be noticed: a share, and points.
_WORSE, _POINTS = 0.1, 1.0
_MOST_PAUSES = 16


@dataclass(frozen=True)
class PlacementPlan:
    """Which key groups should move, and why.

    Attributes:
        moves: the executor that each of them should go to.
        distance_before: load distance now, in points.
        distance_after: load distance that is expected.
        reason: in words.
    """

    moves: Mapping[KeyGroup, str]
    distance_before: float
    distance_after: float
    reason: str


@dataclass(frozen=True)
class _Judged:
    """A plan whose effect is not known yet, and what was before it."""

    plan: PlacementPlan
    places: Mapping[KeyGroup, str]
    mean: float
    drains: bool


@dataclass
class Adaptation:
    """Asks an allocator every period, and looks at what its plans have achieved.

    A plan that made things worse is noticed: nothing is moved for a period then, for two the next
    time, and so on.

    Args:
        query: how the query is called, for people.
        allocator: what plans.
        groups: loads and places of key groups.
        journal: where plans and outcomes are written.
        dry_run: whether plans are only written down.

    Example:
        >>> from penstock.control.keygroups import Ran
        >>> from penstock.policies.allocation import LocalSearch
        >>> groups = KeyGroups()
        >>> for _ in range(5):
        ...     groups.add([Ran((0, i), "1", 100.0) for i in range(4)], interval_ms=1000.0)
        >>> loop = Adaptation("words", LocalSearch(max_migrations=3), groups)
        >>> plan = loop.plan({"1": 1, "2": 1})
        >>> sorted(plan.moves.values()), plan.distance_before, plan.distance_after
        (['2', '2'], 20.0, 0.0)
    """

    query: str
    allocator: Allocator
    groups: KeyGroups
    journal: Journal = field(default_factory=Journal)
    dry_run: bool = False
    _judged: "_Judged | None" = None
    _since: int = 0
    _pauses: int = 0
    _paused: int = 0

    def plan(
        self,
        executors: Mapping[str, int],
        marked: frozenset[str] = frozenset(),
        traffic: Mapping[tuple[KeyGroup, KeyGroup], float] | None = None,
        migration_cost: Mapping[KeyGroup, float] | None = None,
    ) -> PlacementPlan:
        """Return which key groups should move.

        Args:
            executors: that are alive, and the tasks that each runs at a time.
            marked: those that are to be removed: they are drained.
            traffic: between key groups, in bytes.
            migration_cost: of key groups; 1 if none is given.
        """
        if not executors:
            return self._nothing("there are no executors")
        cluster, names = self.groups.cluster(executors, marked, traffic, migration_cost)
        if self._judged is not None and self.groups.batches - self._since < _SETTLED:
            return self._nothing("what the last plan has achieved is not known yet")
        self._judge(cluster, names)
        if self._paused and not marked:
            self._paused -= 1
            return self._nothing(f"the last plan made things worse; {self._paused} more pauses")
        planned = self.allocator.plan(cluster)
        ids = self.groups.groups(executors)
        moves = {ids[move.key_group]: names[move.target] for move in planned.moves}
        distances = planned.distance_before, planned.distance_after
        plan = PlacementPlan(moves, *distances, planned.reason)
        self._take(plan, planned)
        if moves and not self.dry_run:
            places = {group: names[at] for group, at in zip(ids, cluster.placement, strict=True)}
            self._judged = _Judged(plan, places, cluster.mean, bool(marked))
            self._since = self.groups.batches
        return plan

    def carried_out(self) -> None:
        """Hear that all moves have been made, or given up: from now on loads tell of them."""
        self._since = self.groups.batches

    def _nothing(self, why: str) -> PlacementPlan:
        self._write("plan", moves={}, reason=f"nothing is moved: {why}", dry_run=self.dry_run)
        return PlacementPlan({}, np.nan, np.nan, f"nothing is moved: {why}")

    def _take(self, plan: PlacementPlan, planned: Allocation) -> None:
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
        """Compare what the last plan has achieved with what would be without it.

        That is the old placement, with the loads and the executors of today. What a plan promised
        is no fault of it, nor what draining takes.
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
            why = "executors have changed" if unlike else "loads are not known"
            self._write("outcome", reason=f"{why}: nothing can be said of the plan")
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
