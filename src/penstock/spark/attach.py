"""`penstock.attach`: the slow loop, for a query that already runs."""

import logging
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Journal
from penstock.errors import PenstockError
from penstock.policies.allocation import Allocator
from penstock.policies.scaling import Scaler
from penstock.policies.validation import milliseconds
from penstock.spark import internals
from penstock.spark.attachment import Attachment, called
from penstock.spark.internals import first_line
from penstock.spark.placing import Placing
from penstock.spark.scaling import Scaling

log = logging.getLogger("penstock")

_SHORTEST_S = 0.2


def attach(
    query: StreamingQuery,
    *,
    scale: Scaler | None = None,
    allocate: Allocator | None = None,
    period: float | str = "10 s",
    dry_run: bool = False,
    journal: Path | str | None = None,
) -> Attachment:
    """Let executors follow a query that runs, and its state move to where there is room.

    Every period a scaler plans from what the query tells: what arrives, what records cost, what its
    sources are behind by and by how much its batches overrun their trigger. Executors are
    then requested or removed, and balanced operators give records to as many instances as there
    are slots. An allocator plans on which executor each partition of the query's state lives, and
    empties executors before they are removed. It works for any query of a classic session, with
    balanced operators or without.

    A loop that fails says so and leaves everything as it is: the query goes on.

    Args:
        query: a streaming query that is active.
        scale: a scaler, as `penstock.Preventive(min_executors=1, max_executors=8)`.
        allocate: an allocator, as `penstock.Albic(max_migrations=10)`; see `penstock.placed`.
        period: how often to plan, in milliseconds or as text; not shorter than the trigger.
        dry_run: write down what would be done, and do nothing.
        journal: file for observations and plans (JSON lines, rotated).

    Returns:
        What tells how it goes (`stats()`), and ends it (`detach()`).
    """
    if not isinstance(query, StreamingQuery):
        raise PenstockError(
            "query must be a streaming query of a classic session, as DataStreamWriter.start() "
            f"returns it; got {query!r}"
        )
    _refuse_wrong(scale, allocate)
    period_s = milliseconds("period", period) / 1000
    spark = _session_of(query)
    _refuse_short_period(spark, query, period_s)
    dry = dry_run or _must_watch_only(spark, scale is not None)
    written, name = Journal(journal), called(query)
    scaling = placing = None
    if scale is not None:
        scaling = Scaling(spark, query, scale, written, name, period_s, dry)
    if allocate is not None:
        _refuse_stateless(spark, query)
        placing = Placing(spark, query, allocate, written, name, dry)
    return Attachment(spark, query, scaling, placing, period_s, dry, written).begin()


def _refuse_wrong(scale: object, allocate: object) -> None:
    if scale is None and allocate is None:
        raise PenstockError("give a scaler as scale=, an allocator as allocate=, or both; got none")
    if scale is not None and not isinstance(scale, Scaler):
        raise PenstockError(
            "scale must be a scaler, as penstock.Preventive(min_executors=1, max_executors=8); "
            f"got {scale!r}"
        )
    if allocate is not None and not isinstance(allocate, Allocator):
        raise PenstockError(
            f"allocate must be an allocator, as penstock.Albic(max_migrations=10); got {allocate!r}"
        )


def _refuse_stateless(spark: SparkSession, query: StreamingQuery) -> None:
    """Refuse a query that is known to have no state, and tasks that may run anywhere."""
    if not internals.can_place(spark):
        raise PenstockError(
            f"state cannot be placed on Spark {spark.version}, whose state stores are unknown to "
            "this version of Penstock; use scale= alone"
        )
    if internals.state_operators(spark, str(query.id)) == []:
        raise PenstockError(
            f"query {called(query)} has no stateful operator, so there is nothing to allocate; "
            "use scale= alone"
        )
    if internals.locality_wait_ms(spark) == 0:
        raise PenstockError(
            "spark.locality.wait and spark.locality.wait.process must be > 0 for state to be "
            "placed, better 10s; got 0"
        )


def detach(query: StreamingQuery) -> None:
    """End what `attach` began: executors stay as they are, and all instances get records again."""
    found = Attachment.of(query)
    if found is not None:
        found.detach()
    elif query.isActive:
        raise PenstockError(f"query {called(query)} is not attached; nothing to detach")


def _session_of(query: StreamingQuery) -> SparkSession:
    """Return the session of a query that is active."""
    if query.isActive:
        return SparkSession.builder.getOrCreate()
    failure = query.exception()
    why = f"has failed ({first_line(failure)})" if failure is not None else "has ended"
    raise PenstockError(f"query {called(query)} {why}; start it again, then attach")


def _refuse_short_period(spark: SparkSession, query: StreamingQuery, period_s: float) -> None:
    """Refuse a period in which the query would often have nothing to tell."""
    if period_s < _SHORTEST_S:
        raise PenstockError(
            f"period must be at least {_SHORTEST_S:g} s; got {period_s:g} s. Numbers are "
            "milliseconds: write '10 s'"
        )
    interval_ms = internals.trigger_interval_ms(spark, str(query.id))
    if interval_ms is not None and 1000 * period_s < interval_ms:
        raise PenstockError(
            f"period must be at least the query's trigger interval ({interval_ms / 1000:g} s); "
            f"got {period_s:g} s"
        )


def _must_watch_only(spark: SparkSession, scales: bool) -> bool:
    """Whether somebody else scales; refuse an application that nobody can scale."""
    if not internals.can_scale(spark):
        raise PenstockError(
            f"there is but one executor on master {spark.sparkContext.master!r}: nothing can be "
            "added, removed or moved; use a cluster (standalone, YARN, Kubernetes), or "
            "dry_run=True to see what would be done"
        )
    if (
        scales
        and spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"
    ):
        log.warning(
            "spark.dynamicAllocation.enabled is true: two would scale the same executors, so "
            "this one only watches (dry run). Set it to false to let Penstock scale"
        )
        return True
    return False
