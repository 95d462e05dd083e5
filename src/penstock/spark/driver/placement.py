"""Places the state of one query: sense with a sensor, plan with the loop, act with moves."""

import math
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Journal
from penstock.control.keygroups import KeyGroup, KeyGroups
from penstock.control.placement_loop import MigrationPlan, PlacementLoop
from penstock.policies.placement import Placer
from penstock.spark import internals
from penstock.spark.driver.moves import Moves
from penstock.spark.driver.query_sensor import name_of_query
from penstock.spark.driver.state_sensor import StateSensor


@dataclass(frozen=True)
class StatePlaces:
    """Where the state of a query lives.

    Attributes:
        where: executor of each key group in the newest batch.
        moving: target of each key group that moves.
        speeds: speed of each executor relative to the others.
        distance: load distance at the last plan, in points; NaN before it.
        expected: load distance that the last plan expects, in points; NaN before it.
    """

    where: dict[KeyGroup, str]
    moving: dict[KeyGroup, str]
    speeds: dict[str, float]
    distance: float
    expected: float


class QueryPlacement:
    """Plans where the key groups of one query live, and moves them there.

    Args:
        spark: session of the query.
        query: active streaming query.
        placer: policy that plans.
        journal: journal for plans, outcomes and warnings.
        dry_run: whether plans are written to the journal only.
    """

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        placer: Placer,
        *,
        journal: Journal,
        dry_run: bool,
    ) -> None:
        self.plan: MigrationPlan | None = None
        name = name_of_query(query)
        self._spark = spark
        self._placer = placer
        self._dry_run = dry_run
        self._sensor = StateSensor(spark, query, name, journal=journal)
        self._loop = PlacementLoop(name, placer, self.groups, journal=journal, dry_run=dry_run)
        self._moves = Moves(
            spark,
            self._sensor.run,
            done=self._loop.carried_out,
            failed=lambda reason: journal.write("warning", query=name, reason=reason),
        )

    @property
    def groups(self) -> KeyGroups:
        """Loads and executors of the query's key groups."""
        return self._sensor.groups

    @property
    def moved(self) -> int:
        """Number of key groups that have run on the planned executor."""
        return self._moves.confirmed

    @property
    def not_moved(self) -> int:
        """Number of key groups that did not reach the planned executor."""
        return self._moves.given_up

    def places(self) -> StatePlaces:
        """Return where the state lives now."""
        where, plan = dict(self.groups.where), self.plan
        return StatePlaces(
            where=where,
            moving=self._moves.pending(),
            speeds={one: self.groups.speed(one) for one in sorted(set(where.values()))},
            distance=plan.distance_before if plan else math.nan,
            expected=plan.distance_after if plan else math.nan,
        )

    def look(self) -> None:
        """Read the batches that have ended, and repeat the hints of unconfirmed moves."""
        if not self._sensor.find_operators():
            return
        for _ in self._sensor.new_batches():
            self._moves.confirm(self.groups.where)
        self.hint()

    def decide(self, marked: frozenset[str]) -> None:
        """Plan, and begin to move.

        Args:
            marked: executors that are to be removed; they are emptied.
        """
        if not self._sensor.operators:
            return
        self._moves.give_up_to(marked)
        if self._moves.under_way:
            return  # a plan is carried out before the next one is made
        executors = internals.live_executors(self._spark)
        self.plan = self._loop.plan(
            {name: executor.slots for name, executor in executors.items()},
            marked=marked,
            traffic=self._sensor.traffic(),
            migration_cost=self._sensor.state_bytes() if self._placer.max_cost is not None else {},
        )
        if not self._dry_run:
            self._moves.begin(self.plan.moves, executors)
            self.hint()

    def hint(self) -> None:
        """Give Spark the hints of all moves that are under way."""
        self._moves.hint(self._sensor.operators)

    def holders(self) -> frozenset[str]:
        """Return the executors on which key groups live, or will live."""
        return frozenset([*self.groups.where.values(), *self._moves.targets()])
