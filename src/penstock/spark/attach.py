"""`penstock.attach`: the slow loop, for a query that already runs."""

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Elasticity, ExecutorPlan, Journal, Limits, Timeline
from penstock.errors import PenstockError
from penstock.policies.scaling import Scaler
from penstock.policies.validation import milliseconds
from penstock.spark import internals
from penstock.spark.fleet import Fleet
from penstock.spark.internals import first_line
from penstock.spark.sensors import QuerySensor

log = logging.getLogger("penstock")

# How often a query is looked at, at most and as a share of the period.
_LOOK_S = 1.0
_LOOKS = 5
# Share of an executor's memory that a query's state may fill.
_STATE = 0.5
# Periods after which executors that do not come are told of.
_PATIENCE = 3


@dataclass(frozen=True)
class ScaleStats:
    """What an attachment does.

    Attributes:
        query: name or identity of the query.
        executors: that the application has now.
        wanted: executors that the last plan wants; None before the first one.
        rate_per_s: at which records come.
        pending: records that wait for want of capacity.
        reason: of the last plan.
        dry_run: whether plans are only written down.
        running: whether the loop still runs.
        failures: how often the loop has failed; the query goes on as it is.
        failure: what the last one was.
    """

    query: str
    executors: int
    wanted: int | None
    rate_per_s: float
    pending: float
    reason: str
    dry_run: bool
    running: bool
    failures: int
    failure: str


def attach(
    query: StreamingQuery,
    *,
    scale: Scaler,
    period: float | str = "10 s",
    dry_run: bool = False,
    journal: Path | str | None = None,
) -> "Attachment":
    """Let the number of executors, and of active instances, follow a query that runs.

    Every period the scaler plans from what the query tells: what arrives, what records cost, what
    its sources are behind by and by how much its batches overrun their trigger. Executors are
    then requested or removed, and balanced operators give records to as many instances as there
    are slots. It works for any query of a classic session, with balanced operators or without.

    A loop that fails says so and leaves everything as it is: the query goes on.

    Args:
        query: a streaming query that is active.
        scale: a scaler, as `penstock.Preventive(min_executors=1, max_executors=8)`.
        period: how often to plan, in milliseconds or as text; not shorter than the trigger.
        dry_run: write down what would be done, and do nothing.
        journal: file for observations and plans (JSON lines, rotated).

    Returns:
        What tells how it goes (`stats()`), and ends it (`detach()`).
    """
    if not isinstance(query, StreamingQuery):
        raise PenstockError(f"query must be a streaming query of a classic session; got {query!r}")
    if not isinstance(scale, Scaler):
        raise PenstockError(
            "scale must be a scaler, as penstock.Preventive(min_executors=1, max_executors=8); "
            f"got {scale!r}"
        )
    period_s = milliseconds("period", period) / 1000
    spark = _session_of(query)
    refuse_short_period(spark, query, period_s)
    dry = dry_run or _must_watch_only(spark)
    return Attachment.begin(spark, query, scale, period_s, dry, Journal(journal))


def detach(query: StreamingQuery) -> None:
    """End what `attach` began: executors stay as they are, and all instances get records again."""
    found = Attachment.of(query)
    if found is None:
        raise PenstockError(f"query {_called(query)} is not attached; nothing to detach")
    found.detach()


def _session_of(query: StreamingQuery) -> SparkSession:
    """Return the session of a query that is active."""
    if query.isActive:
        return SparkSession.builder.getOrCreate()
    failure = query.exception()
    why = f"has failed ({first_line(failure)})" if failure is not None else "has ended"
    raise PenstockError(f"query {_called(query)} {why}; start it again, then attach")


def refuse_short_period(spark: SparkSession, query: StreamingQuery, period_s: float) -> None:
    """Refuse a period in which the query would often have nothing to tell."""
    interval_ms = internals.trigger_interval_ms(spark, str(query.id))
    if interval_ms is not None and 1000 * period_s < interval_ms:
        raise PenstockError(
            f"period must be at least the query's trigger interval ({interval_ms / 1000:g} s); "
            f"got {period_s:g} s"
        )


def _must_watch_only(spark: SparkSession) -> bool:
    """Whether somebody else scales; refuse an application that nobody can scale."""
    if not internals.can_scale(spark):
        raise PenstockError(
            f"executors cannot be added or removed on master {spark.sparkContext.master!r}; use a "
            "cluster (standalone, YARN, Kubernetes), or dry_run=True to see what would be done"
        )
    if spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        log.warning(
            "spark.dynamicAllocation.enabled is true: two would scale the same executors, so "
            "this one only watches (dry run). Set it to false to let Penstock scale"
        )
        return True
    return False


def _called(query: StreamingQuery) -> str:
    return str(query.name or query.id)


class Attachment:
    """The slow loop of one query: made by `penstock.attach`."""

    _of_query: ClassVar[dict[str, "Attachment"]] = {}
    _starting = threading.Lock()

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        scaler: Scaler,
        period_s: float,
        dry_run: bool,
        journal: Journal,
    ) -> None:
        self.query = _called(query)
        self.dry_run = dry_run
        self.journal = journal
        self._spark = spark
        self._query = query
        self._scaler = scaler
        self._period_s = period_s
        self._fleet = Fleet(spark, patience_s=period_s)
        self._sensor = QuerySensor(spark, query)
        self._loop: Elasticity | None = None
        self._plan: ExecutorPlan | None = None
        self._due_s = 0.0
        self._short = 0
        self._failures = 0
        self._failure = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-attach", daemon=True)

    @classmethod
    def begin(cls, spark: SparkSession, query: StreamingQuery, *more: Any) -> "Attachment":  # noqa: ANN401
        """Start the loop of a query, if nobody scales the application yet."""
        with cls._starting:
            running = {k: one for k, one in cls._of_query.items() if one.running}
            cls._of_query = running
            if str(query.id) in running:
                raise PenstockError(
                    f"query {_called(query)} is attached already; penstock.detach(query) first"
                )
            made = cls(spark, query, *more)
            other = next((one.query for one in running.values() if not one.dry_run), None)
            if other is not None and not made.dry_run:
                raise PenstockError(
                    f"query {other} already scales this application, whose executors are shared by "
                    "its queries; detach it first, or use dry_run=True"
                )
            running[str(query.id)] = made
            made._thread.start()
            return made

    @classmethod
    def of(cls, query: StreamingQuery) -> "Attachment | None":
        """Return the running attachment of a query."""
        found = cls._of_query.get(str(query.id))
        return found if found is not None and found.running else None

    @property
    def running(self) -> bool:
        """Whether the loop runs: until the query ends or it is detached."""
        return self._thread.is_alive()

    def stats(self) -> ScaleStats:
        """Return what is done now, and why."""
        plan = self._plan
        return ScaleStats(
            query=self.query,
            executors=len(self._fleet.executors()),
            wanted=plan.executors if plan else None,
            rate_per_s=plan.rate_per_s if plan else float("nan"),
            pending=plan.pending if plan else float("nan"),
            reason=plan.reason if plan else "nothing is planned yet",
            dry_run=self.dry_run,
            running=self.running,
            failures=self._failures,
            failure=self._failure,
        )

    def detach(self) -> None:
        """End the loop: executors stay as they are, and all instances get records again."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)
        if not self.dry_run:
            for one in self._sensor.controllers():
                one.activate(one.instances)

    def _run(self) -> None:
        pause_s = min(_LOOK_S, self._period_s / _LOOKS)
        self._due_s = time.monotonic() + self._period_s
        while not self._stop.wait(pause_s):
            try:
                if not self._query.isActive:
                    self.journal.write("end", query=self.query, reason="the query has ended")
                    return
                self._step()
            except Exception as error:
                # The loop is there to help: it must not stop, nor the query.
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._failure = f"{type(error).__name__}: {first_line(error)}"
        self.journal.write("failure", query=self.query, reason=self._failure)
        if self._failures == 1:
            log.warning(
                "%s: the scaling loop has failed, executors stay as they are (%s)",
                self.query,
                self._failure,
            )

    def _step(self) -> None:
        """Look at the query; plan if it is time."""
        if self._fleet.joined():
            self._sensor.executors_joined()
        looks = self._sensor.looks()
        if self._loop is None:
            self._begin_loop(any(look.rows for look in looks))
        if self._loop is None:
            return
        for look in looks:
            self._loop.timeline.add(look)
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + self._period_s
            self._decide(self._loop)
        if not self.dry_run:
            self._follow(self._loop.limits)

    def _begin_loop(self, has_rows: bool) -> None:
        """Begin to plan when a batch with records is done, and there are executors."""
        executors = len(self._fleet.executors())
        if not has_rows or not (executors or self.dry_run):
            return
        interval_ms = internals.trigger_interval_ms(self._spark, str(self._query.id))
        interval_s = None if interval_ms is None else interval_ms / 1000
        self._loop = Elasticity(
            self.query,
            self._scaler,
            limits_of(self._spark, self._scaler, executors),
            Timeline(self._period_s, interval_s),
            max(1, executors),
            self.journal,
            self.dry_run,
        )

    def _decide(self, loop: Elasticity) -> None:
        active = bool(self._query.status["isTriggerActive"])
        before = loop.executors
        self._plan = plan = loop.plan(time.time(), self._sensor.running(active))
        if not self.dry_run and (plan.executors != before or self._fleet.missing):
            self._aim(plan.executors)

    def _aim(self, executors: int) -> None:
        taken = self._fleet.aim(executors)
        missing = self._fleet.missing
        self._short = self._short + 1 if missing else 0
        if not taken or self._short == _PATIENCE:
            reason = (
                "the cluster has not taken the request"
                if not taken
                else f"{missing} of {executors} executors have not come for {_PATIENCE} periods; "
                "the cluster may have no room for them"
            )
            log.warning("%s: %s", self.query, reason)
            self.journal.write("warning", query=self.query, reason=reason)

    def _follow(self, limits: Limits) -> None:
        """Give records to as many instances as there are slots, then let go what is too much."""
        there = len(self._fleet.executors())
        wanted = self._plan.executors if self._plan else there
        for one in self._sensor.controllers():
            one.activate(max(1, min(there, wanted)) * limits.slots)
        self._fleet.approach()


def limits_of(spark: SparkSession, scaler: Scaler, executors: int) -> Limits:
    """Return what plans for an application must keep to."""
    most = scaler.max_executors
    return Limits(
        scaler.min_executors,
        max(executors, scaler.min_executors) if most is None else most,
        internals.slots_per_executor(spark),
        _STATE * internals.executor_memory_bytes(spark),
    )
