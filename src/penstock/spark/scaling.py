"""How many executors a query has: read from its progress, changed through the cluster."""

import time
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Elasticity, ExecutorPlan, Journal, Limits, Timeline
from penstock.policies.scaling import Scaler
from penstock.spark import internals
from penstock.spark.fleet import Fleet
from penstock.spark.sensors import QuerySensor

# Share of an executor's memory that a query's state may fill.
_STATE = 0.5
# Periods after which executors that do not come are told of.
_PATIENCE = 3


@dataclass
class Scaling:
    """Plans the executors of one query's application, and lets active instances follow them."""

    spark: SparkSession
    query: StreamingQuery
    scaler: Scaler
    journal: Journal
    name: str
    period_s: float
    dry_run: bool
    plan: ExecutorPlan | None = None

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.spark, patience_s=self.period_s)
        self._sensor = QuerySensor(self.spark, self.query)
        self._loop: Elasticity | None = None
        self._short = 0

    def look(self) -> None:
        """Read the query's progress."""
        if self.fleet.joined():
            self._sensor.executors_joined()
        looks = self._sensor.looks()
        if self._loop is None and any(look.rows for look in looks):
            self._begin()
        if self._loop is not None:
            for look in looks:
                self._loop.timeline.add(look)

    def _begin(self) -> None:
        """Begin to plan when a batch with records is done, and there are executors."""
        executors = len(self.fleet.executors())
        if not executors:
            return
        interval_ms = internals.trigger_interval_ms(self.spark, str(self.query.id))
        interval_s = None if interval_ms is None else interval_ms / 1000
        limits = _limits(self.spark, self.scaler, executors)
        line = Timeline(self.period_s, interval_s)
        given = self.name, self.scaler, limits, line, executors
        self._loop = Elasticity(*given, self.journal, self.dry_run)

    def decide(self) -> None:
        """Plan, and ask the cluster for what is planned."""
        loop = self._loop
        if loop is None:
            return
        active = bool(self.query.status["isTriggerActive"])
        before = loop.executors
        self.plan = loop.plan(time.time(), self._sensor.running(active))
        if not self.dry_run:
            self._aim(self.plan.executors, anew=self.plan.executors != before)

    def _aim(self, executors: int, anew: bool) -> None:
        """Ask for executors, again if some have not come."""
        missing = self.fleet.missing
        self._short = self._short + 1 if missing and not anew else 0
        if (anew or missing) and not self.fleet.aim(executors):
            self.journal.warn(self.name, "the cluster has not taken the request")
        if self._short == _PATIENCE:
            self.journal.warn(
                self.name,
                f"{missing} of {executors} executors have not come for {_PATIENCE} periods; the "
                "cluster may have no room for them",
            )

    @property
    def marked(self) -> frozenset[str]:
        """Executors that are to be removed, or are about to go."""
        return frozenset() if self.dry_run else self.fleet.leaving

    def follow(self, holders: frozenset[str] = frozenset()) -> None:
        """Give records to as many instances as there are slots, then let go what is too much.

        Args:
            holders: executors that still hold key groups which are to be moved first.
        """
        if self.dry_run or self._loop is None:
            return
        staying = len(self.fleet.executors()) - len(self.fleet.surplus())
        for one in self._sensor.controllers():
            one.activate(max(1, staying) * self._loop.limits.slots)
        undrained = self.fleet.approach(holders)
        if undrained:
            self.journal.warn(
                self.name,
                f"executors {', '.join(undrained)} go although they were not emptied in time; "
                "their state is loaded elsewhere, from the checkpoint",
            )

    def release(self) -> None:
        """Let all instances get records again."""
        if not self.dry_run:
            for one in self._sensor.controllers():
                one.activate(one.instances)


def _limits(spark: SparkSession, scaler: Scaler, executors: int) -> Limits:
    """Return what plans for an application must keep to."""
    most = scaler.max_executors
    return Limits(
        scaler.min_executors,
        max(executors, scaler.min_executors) if most is None else most,
        internals.slots_per_executor(spark),
        _STATE * internals.executor_memory_bytes(spark),
    )
