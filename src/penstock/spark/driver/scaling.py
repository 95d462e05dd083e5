"""Scales the executors of one query: sense with a sensor, plan with the loop, act with a fleet."""

import math
import time

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import ExecutorPlan, Journal, Limits, ScalingLoop, Timeline
from penstock.control.lag import Partition
from penstock.control.saved_scaling import SavedScaling
from penstock.policies.scaling import Scaler
from penstock.spark import internals
from penstock.spark.driver.fleet import Fleet
from penstock.spark.driver.query_sensor import QuerySensor, name_of_query
from penstock.spark.driver.scaling_memory import ScalingMemory

# Share of an executor's memory that a query's state may fill.
_STATE = 0.5
# Periods without requested executors after which the journal warns.
_PATIENCE = 3
# Longest time for which one look waits for the end of a batch.
_LONGEST_WAIT_S = 1.0


class QueryScaling:
    """Plans the executors of one query's application; active instances follow them.

    Args:
        spark: session of the query.
        query: active streaming query.
        scaler: policy that plans.
        journal: journal for observations, plans and warnings.
        period_s: time between two plans.
        dry_run: whether plans are written to the journal only.
    """

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        scaler: Scaler,
        *,
        journal: Journal,
        period_s: float,
        dry_run: bool,
    ) -> None:
        self.plan: ExecutorPlan | None = None
        self._spark = spark
        self._query = query
        self._scaler = scaler
        self._journal = journal
        self._name = name_of_query(query)
        self._period_s = period_s
        self._dry_run = dry_run
        self._sensor = QuerySensor(spark, query)
        self._fleet = Fleet(
            spark,
            lambda: self._sensor.wait_for_pause(min(_LONGEST_WAIT_S, period_s / 2)),
            patience_s=period_s,
        )
        self._executors_before: int | None = None
        self._loop: ScalingLoop | None = None
        self._periods_short = 0
        self._named: set[Partition] = set()
        self._memory = ScalingMemory(spark, str(query.id), self._name)
        interval_ms = internals.trigger_interval_ms(spark, str(query.id))
        interval_s = None if interval_ms is None else interval_ms / 1000
        self._timeline = Timeline(period_s, interval_s)
        self._saved = self._memory.load(self._timeline, self._sensor.rest)
        if self._saved is not None:
            self._fleet.leads_s.extend(self._saved.leads_s.tolist())

    @property
    def behind(self) -> float:
        """Number of unread records of sources with offsets."""
        return self._sensor.behind

    @property
    def lag_s(self) -> float:
        """Age of the oldest unread record of sources with offsets."""
        return self._sensor.lag_s

    @property
    def lead_s(self) -> float:
        """Time from the request of an executor until it works; NaN before the first one."""
        return self._fleet.lead_s

    def look(self) -> None:
        """Read the query's progress."""
        joined = self._fleet.joined()
        self._sensor.executors(internals.slots(self._spark), joined=joined)
        looks = self._sensor.looks()
        if self._loop is None:
            self._begin(seen=any(look.rows for look in looks))
        if self._loop is not None:
            for look in looks:
                self._timeline.add(look)
        self._name_skewed()

    def _name_skewed(self) -> None:
        """Warn once about each partition of a source that gets far more records than others."""
        for (topic, number), share, partitions in self._sensor.skewed():
            if (topic, number) in self._named:
                continue
            self._named.add((topic, number))
            self._journal.warn(
                self._name,
                f"partition {number} of topic {topic} gets {share:.0%} of the records, and there "
                f"are {partitions} partitions: one task reads them. penstock.balance spreads them "
                "over all instances; minPartitions divides them among reading tasks",
            )

    def _begin(self, *, seen: bool) -> None:
        """Begin to plan, if there are executors and something is known about the query.

        Args:
            seen: whether a batch with records has ended.
        """
        executors = len(self._fleet.executors())
        known = self._saved is not None and self._scaler.max_executors is not None
        if not executors or not (seen or known):
            return
        self._executors_before = executors
        limits = _limits(self._spark, self._scaler, executors)
        if self._saved is not None and not self._dry_run:
            # Until the first plan, as many executors as before the restart. Others may still join.
            before = max(self._saved.executors, limits.min_executors)
            executors = min(before, limits.max_executors)
            self._fleet.aim(executors)
        self._loop = ScalingLoop(
            self._name,
            self._scaler,
            limits,
            timeline=self._timeline,
            executors=executors,
            journal=self._journal,
            dry_run=self._dry_run,
        )

    def decide(self) -> None:
        """Plan, and request the planned executors."""
        loop = self._loop
        if loop is None:
            return
        active = bool(self._query.status["isTriggerActive"])
        before = loop.executors
        lead_s = self._fleet.lead_s
        loop.lead_s = 0.0 if math.isnan(lead_s) else lead_s
        self.plan = loop.plan(time.time(), self._sensor.running(active))
        if not self._dry_run:
            self._request(self.plan.executors, changed=self.plan.executors != before)
            known = SavedScaling(self.plan.executors, np.array(self._fleet.leads_s))
            self._memory.save(self._timeline, self._sensor.rest, known)

    def _request(self, executors: int, *, changed: bool) -> None:
        """Request executors; repeat the request while some are missing."""
        missing = self._fleet.missing
        self._periods_short = self._periods_short + 1 if missing and not changed else 0
        if (changed or missing) and not self._fleet.aim(executors):
            self._journal.warn(self._name, "the cluster has not accepted the request")
        if self._periods_short == _PATIENCE:
            self._journal.warn(
                self._name,
                f"{missing} of {executors} executors are missing for {_PATIENCE} periods; the "
                "cluster may have no room for them",
            )

    @property
    def marked(self) -> frozenset[str]:
        """Executors that are to be removed, or are being removed."""
        return frozenset() if self._dry_run else self._fleet.leaving

    def follow(self, holders: frozenset[str] = frozenset()) -> None:
        """Use as many instances as there are slots, then remove surplus executors.

        Args:
            holders: executors that still hold key groups, which should move first.
        """
        if self._dry_run or self._loop is None:
            return
        staying = len(self._fleet.executors()) - len(self._fleet.surplus())
        for one in self._sensor.controllers():
            one.managed = True
            one.activate(max(1, staying) * self._loop.limits.slots)
        undrained = self._fleet.approach(holders)
        if undrained:
            self._journal.warn(
                self._name,
                f"executors {', '.join(undrained)} are removed although they still hold state; "
                "Spark reloads that state from the checkpoint",
            )

    def release(self, *, ended: bool) -> None:
        """Give records to all instances again.

        Args:
            ended: whether the query has ended. The application then goes back to the executors
                that it had before, if it has more of them now.
        """
        if self._dry_run:
            return
        for one in self._sensor.controllers():
            one.managed = False
            one.activate(one.instances)
        if ended and self._executors_before is not None:
            self._fleet.shrink_to(self._executors_before)


def _limits(spark: SparkSession, scaler: Scaler, executors: int) -> Limits:
    """Return the limits of all plans for an application."""
    most = scaler.max_executors
    return Limits(
        min_executors=scaler.min_executors,
        max_executors=max(executors, scaler.min_executors) if most is None else most,
        slots=internals.slots_per_executor(spark),
        state_bytes=_STATE * internals.executor_memory_bytes(spark),
    )
