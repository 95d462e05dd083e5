"""`penstock.attach`: the slow loop, for a query that already runs."""

import logging
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Journal
from penstock.errors import PenstockError, first_line
from penstock.policies.placement import Placer
from penstock.policies.scaling import Scaler
from penstock.policies.validation import seconds
from penstock.spark import internals
from penstock.spark.dashboard import dashboard as serve
from penstock.spark.driver.attachment import Attachment
from penstock.spark.driver.placement import QueryPlacement
from penstock.spark.driver.query_sensor import name_of_query
from penstock.spark.driver.scaling import QueryScaling

log = logging.getLogger("penstock")

_SHORTEST_S = 0.2


def attach(
    query: StreamingQuery,
    *,
    scale: Scaler | None = None,
    place: Placer | None = None,
    period: float | str = "10 s",
    dry_run: bool = False,
    journal: Path | str | None = None,
    dashboard: bool = False,
) -> Attachment:
    """Scale the executors of a running query, and place its state on them.

    Every period the scaler plans from the query's progress. It knows the rate of arrivals, the cost
    of records, the backlog of the sources, and the time by which batches overrun their trigger.
    Executors are then requested or removed, and balanced operators use as many instances as there
    are slots. The placer plans the executor of each partition of the query's state, and empties
    executors before they are removed. Any query of a classic session can be attached, with balanced
    operators or without.

    A loop that fails logs the failure and changes nothing; the query goes on.

    Args:
        query: active streaming query.
        scale: scaler, such as `penstock.scaling.Preventive(min_executors=1, max_executors=8)`.
        place: placer, such as `penstock.placement.Albic(max_migrations=10)`; see
            `penstock.with_placement`.
        period: time between two plans, such as "10 s"; a number is in milliseconds. Not shorter
            than the trigger interval.
        dry_run: write plans to the journal, and change nothing.
        journal: file for observations and plans (JSON lines, rotated).
        dashboard: whether to serve a live page on this machine; its address is
            `attached.dashboard.url`. It ends with `detach()` or with the Spark session, not with
            the query: a failed query stays visible. See `penstock.dashboard`.

    Returns:
        An attachment with `stats()`, `detach()` and `dashboard`.
    """
    if not isinstance(query, StreamingQuery):
        raise PenstockError(
            "query must be a streaming query of a classic session, as DataStreamWriter.start() "
            f"returns it; got {query!r}"
        )
    _refuse_wrong(scale, place)
    period_s = seconds("period", period, least=_SHORTEST_S)
    spark = _session_of(query)
    _refuse_short_period(spark, query, period_s)
    dry_run = dry_run or _must_watch_only(spark, scales=scale is not None)
    shared = Journal(journal)
    scaling = placement = None
    if scale is not None:
        scaling = QueryScaling(
            spark, query, scale, journal=shared, period_s=period_s, dry_run=dry_run
        )
    if place is not None:
        _refuse_stateless(spark, query)
        placement = QueryPlacement(spark, query, place, journal=shared, dry_run=dry_run)
    attachment = Attachment(
        spark,
        query,
        scaling=scaling,
        placement=placement,
        period_s=period_s,
        dry_run=dry_run,
        journal=shared,
    )
    attachment.begin()
    if dashboard:
        attachment.dashboard = serve()
        log.info("the dashboard of query %s is at %s", attachment.query, attachment.dashboard.url)
    return attachment


def detach(query: StreamingQuery) -> None:
    """End the loop that `attach` began: executors stay, and all instances get records again."""
    found = Attachment.of(query)
    if found is not None:
        found.detach()
    elif query.isActive:
        raise PenstockError(f"query {name_of_query(query)} is not attached; nothing to detach")


def _refuse_wrong(scale: object, place: object) -> None:
    if scale is None and place is None:
        raise PenstockError("give a scaler as scale=, a placer as place=, or both; got none")
    if scale is not None and not isinstance(scale, Scaler):
        raise PenstockError(
            "scale must be a scaler, such as "
            "penstock.scaling.Preventive(min_executors=1, max_executors=8); "
            f"got {scale!r}"
        )
    if place is not None and not isinstance(place, Placer):
        raise PenstockError(
            "place must be a placer, such as penstock.placement.Albic(max_migrations=10); "
            f"got {place!r}"
        )


def _refuse_stateless(spark: SparkSession, query: StreamingQuery) -> None:
    """Refuse a query that has no state, and a Spark on which state cannot be placed."""
    if not internals.can_place(spark):
        raise PenstockError(
            f"state cannot be placed on Spark {spark.version}, whose state stores are unknown to "
            "this version of Penstock; use scale= alone"
        )
    if internals.state_operators(spark, str(query.id)) == []:
        raise PenstockError(
            f"query {name_of_query(query)} has no stateful operator, so there is nothing to "
            "place; use scale= alone"
        )
    if internals.locality_wait_ms(spark) == 0:
        raise PenstockError(
            "spark.locality.wait and spark.locality.wait.process must be > 0 for state to be "
            "placed, better 10s; got 0"
        )


def _session_of(query: StreamingQuery) -> SparkSession:
    """Return the session of an active query."""
    if query.isActive:
        return SparkSession.builder.getOrCreate()
    failure = query.exception()
    why = f"has failed ({first_line(failure)})" if failure is not None else "has ended"
    raise PenstockError(f"query {name_of_query(query)} {why}; start it again, then attach")


def _refuse_short_period(spark: SparkSession, query: StreamingQuery, period_s: float) -> None:
    """Refuse a period in which the query would often have nothing to report."""
    interval_ms = internals.trigger_interval_ms(spark, str(query.id))
    if interval_ms is not None and 1000 * period_s < interval_ms:
        raise PenstockError(
            f"period must be at least the query's trigger interval ({interval_ms / 1000:g} s); "
            f"got {period_s:g} s"
        )


def _must_watch_only(spark: SparkSession, *, scales: bool) -> bool:
    """Whether Spark itself scales; refuse an application that cannot be scaled at all."""
    if not internals.can_scale(spark):
        raise PenstockError(
            f"master {spark.sparkContext.master!r} has only one executor: nothing can be added, "
            "removed or moved; use a cluster (standalone, YARN, Kubernetes), or dry_run=True to "
            "see the plans"
        )
    dynamic = spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false")
    if scales and dynamic == "true":
        log.warning(
            "spark.dynamicAllocation.enabled is true: Spark scales the same executors, so Penstock "
            "only watches (dry run). Set it to false to let Penstock scale"
        )
        return True
    return False
