"""Streaming queries that run."""

import json
import logging
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from penstock.spark.internals.files import file_names, read_file
from penstock.spark.internals.jvm import JvmError, java, private

log = logging.getLogger("penstock")


def checkpoint_of(spark: SparkSession, query: str) -> str | None:
    """Return the checkpoint folder of an active streaming query."""
    try:
        execution = execution_of(spark, query)
        return str(execution.resolvedCheckpointRoot()) if execution is not None else None
    except (JvmError, TypeError) as error:
        log.warning(
            "the checkpoint of query %s is unknown, so costs are not kept: %s", query, error
        )
        return None


def execution_of(spark: SparkSession, query: str) -> Any:  # noqa: ANN401 - a py4j object
    """Return an active streaming query of any session: it may run in a clone of the user's."""
    active = spark._jsparkSession.sharedState().activeStreamingQueries()
    return active.get(java(spark).java.util.UUID.fromString(query))


def run_of(spark: SparkSession, query: str) -> str:
    """Return the identity of an active query's run; empty if the query is not active."""
    execution = execution_of(spark, query)
    return str(execution.runId()) if execution is not None else ""


def name_of(execution: Any) -> str:  # noqa: ANN401 - a py4j object
    """Return the name of a query, given by `execution_of`; empty if it has none."""
    name = execution.name() if execution is not None else None
    return str(name) if name is not None else ""


class ActiveQueries:
    """The active queries of an application, as a view that the JVM keeps up to date.

    Args:
        spark: any session of the application.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._keys: Any = None

    def now(self) -> frozenset[str]:
        """Return the identities of all active queries, in one call to the JVM."""
        if self._keys is None:
            active = self._spark._jsparkSession.sharedState().activeStreamingQueries()
            self._keys = active.keySet()
        found = str(self._keys.toString()).strip("[]")
        return frozenset(found.split(", ")) if found else frozenset()


def failure_of(execution: Any) -> str:  # noqa: ANN401 - a py4j object
    """Return why a query has ended, in one line; empty if it was stopped or is still active."""
    try:
        failure = execution.exception()
        if failure.isEmpty():
            return ""
        lines = str(failure.get().getMessage()).splitlines()
        return next((line.strip() for line in lines if line.strip()), "unknown error")
    except JvmError:
        return ""


def is_busy(spark: SparkSession, query: str) -> bool | None:
    """Whether a query works on a batch now; None if the query is not active."""
    execution = execution_of(spark, query)
    if execution is None:
        return None
    status = execution.status()
    return bool(status.isTriggerActive()) and bool(status.isDataAvailable())


def is_running(spark: SparkSession, execution: int) -> bool:
    """Return whether a SQL execution runs."""
    return _execution(spark, execution) is not None


def _execution(spark: SparkSession, number: int) -> Any:  # noqa: ANN401 - an object of the JVM
    return java(spark).org.apache.spark.sql.execution.SQLExecution.getQueryExecution(number)


def stream_of(spark: SparkSession, execution: int) -> tuple[str, str] | None:
    """Return the query and the batch to which a running SQL execution belongs; None for no query.

    A streaming query runs its batches in a session of its own. An execution in this session is part
    of the query, whichever thread has started it.
    """
    running = _execution(spark, execution)
    if running is None:
        return None
    session = running.sparkSession()
    for one in spark._jsparkSession.sharedState().activeStreamingQueries().values():
        if one.sparkSessionForStream().equals(session) and one.lastExecution() is not None:
            return str(one.id()), str(one.lastExecution().currentBatchId())
    return None


# Number of progress reports in which to look for a batch, if the query was idle.
_RECENT = 20


class BatchDone(NamedTuple):
    """A batch that has ended.

    Attributes:
        batch: number of the batch.
        duration_ms: duration of the batch.
    """

    batch: str
    duration_ms: float


def last_batch(spark: SparkSession, query: str, *, before: str | None = None) -> BatchDone | None:
    """Return the newest batch that an active query has finished.

    Args:
        spark: session of the query.
        query: id of the query.
        before: number of a later batch, which may have ended meanwhile; None for any batch.
    """
    try:
        execution = execution_of(spark, query)
        progress = execution.recentProgress() if execution is not None else ()
        for i in reversed(range(max(0, len(progress) - _RECENT), len(progress))):
            taken, batch = progress[i].durationMs(), int(progress[i].batchId())
            # A trigger without new data has the number of the batch to come.
            if taken.get("addBatch") is not None and (before is None or batch < int(before)):
                return BatchDone(str(batch), float(taken.get("triggerExecution")))
        return None
    except (JvmError, TypeError) as error:
        log.warning("the duration of batches of query %s is unknown: %s", query, error)
        return None


def newest_batch(spark: SparkSession, query: str) -> int:
    """Return the newest batch of which an active query has reported progress; -1 before that."""
    execution = execution_of(spark, query)
    last = execution.lastProgress() if execution is not None else None
    return int(last.batchId()) if last is not None else -1


def unfinished_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the batch that had started and was not committed when the query stopped."""
    newest = _newest(spark, f"{checkpoint}/offsets")
    return newest if newest > committed_batch(spark, checkpoint) else None


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the identity of the query of a checkpoint; empty if there is none."""
    metadata = read_file(spark, f"{checkpoint}/metadata")
    return str(json.loads(metadata)["id"]) if metadata is not None else ""


def batch_began_s(spark: SparkSession, query: str, batch: int) -> float | None:
    """Return when the first attempt of a batch began, in seconds since 1970; None if unknown.

    Spark logs the offsets of a batch at that time, after a line with metadata.
    """
    checkpoint = checkpoint_of(spark, query)
    logged = read_file(spark, f"{checkpoint}/offsets/{batch}") if checkpoint else None
    if logged is None:
        return None
    return float(json.loads(logged.decode().splitlines()[1])["batchTimestampMs"]) / 1000


def committed_batch(spark: SparkSession, checkpoint: str) -> int:
    """Return the newest batch that was committed; -1 if there is none."""
    return _newest(spark, f"{checkpoint}/commits")


def _newest(spark: SparkSession, folder: str) -> int:
    names = file_names(spark, folder)
    return max((int(name) for name in names if name.isdigit()), default=-1)


def trigger_interval_ms(spark: SparkSession, query: str) -> float | None:
    """Return the trigger interval of an active query; None if batches follow one another."""
    try:
        execution = execution_of(spark, query)
        trigger = execution.trigger() if execution is not None else None
        if trigger is None or not str(trigger).startswith("ProcessingTimeTrigger"):
            return None
        return float(trigger.intervalMs()) or None
    except (JvmError, TypeError, AttributeError):
        return None


def progress_after(spark: SparkSession, query: str, timestamp: str) -> list[dict[str, Any]]:
    """Return the progress of an active query since a time, the oldest first."""
    execution = execution_of(spark, query)
    recent = execution.recentProgress() if execution is not None else ()
    found: list[dict[str, Any]] = []
    for i in reversed(range(len(recent))):
        progress = json.loads(recent[i].json())
        if progress["timestamp"] <= timestamp:
            break
        found.append(progress)
    return found[::-1]


def newest_progress(execution: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a py4j object
    """Return the newest progress of a query, given by `execution_of`; None before the first."""
    progress = execution.lastProgress()
    if progress is None:
        return None
    found: dict[str, Any] = json.loads(progress.json())
    return found


def unread_files(spark: SparkSession, query: str, *, source: int, log_offset: int) -> float:
    """Return the unread files of a file source, over the files of a batch.

    Args:
        spark: session of the query.
        query: identity of the active query.
        source: number of the source among those of the query.
        log_offset: offset at which the batch ends.
    """
    found = execution_of(spark, query).sources().apply(source)
    unread = private(found, "unreadFiles")
    batch = private(found, "metadataLog").get(log_offset)
    if unread is None or not batch.isDefined():
        return 0.0
    return float(unread.size()) / max(1, len(batch.get()))
