"""Streaming queries that run."""

import json
import logging
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from penstock.spark.internals.files import file_system
from penstock.spark.internals.jvm import JvmError, java, private

log = logging.getLogger("penstock")


def checkpoint_of(spark: SparkSession, query: str) -> str | None:
    """Return the checkpoint folder of an active streaming query."""
    try:
        execution = execution_of(spark, query)
        return str(execution.resolvedCheckpointRoot()) if execution is not None else None
    except (JvmError, TypeError) as error:
        log.warning("the checkpoint of query %s is not found, costs are not kept: %s", query, error)
        return None


def execution_of(spark: SparkSession, query: str) -> Any:  # noqa: ANN401 - whatever py4j has
    """Return an active streaming query, of all sessions: it may run in a clone of the user's."""
    active = spark._jsparkSession.sharedState().activeStreamingQueries()
    return active.get(java(spark).java.util.UUID.fromString(query))


# How far back to look for a batch among reports of a query that was idle.
_RECENT = 20


class BatchDone(NamedTuple):
    """A batch that has ended.

    Attributes:
        batch: number of the batch.
        duration_ms: duration of the batch.
    """

    batch: str
    duration_ms: float


def last_batch(spark: SparkSession, query: str) -> BatchDone | None:
    """Return the newest batch that an active query has finished."""
    try:
        execution = execution_of(spark, query)
        progress = execution.recentProgress() if execution is not None else ()
        for i in reversed(range(max(0, len(progress) - _RECENT), len(progress))):
            taken = progress[i].durationMs()
            if taken.get("addBatch") is not None:  # not a trigger without new data
                return BatchDone(str(progress[i].batchId()), float(taken.get("triggerExecution")))
        return None
    except (JvmError, TypeError) as error:
        log.warning("how long batches of query %s take is not known: %s", query, error)
        return None


def unfinished_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the batch that was begun and not committed when the query stopped, if there is one."""
    begun, done = (_numbers(spark, f"{checkpoint}/{log}") for log in ("offsets", "commits"))
    newest = max(begun, default=-1)
    return newest if newest >= 0 and newest > max(done, default=-1) else None


def _numbers(spark: SparkSession, folder: str) -> list[int]:
    files, place = file_system(spark, folder)
    if not files.exists(place):
        return []
    names = [status.getPath().getName() for status in files.listStatus(place)]
    return [int(name) for name in names if name.isdigit()]


def trigger_interval_ms(spark: SparkSession, query: str) -> float | None:
    """Return how often an active query begins a batch; None if it does whenever it can."""
    try:
        execution = execution_of(spark, query)
        trigger = execution.trigger() if execution is not None else None
        if trigger is None or not str(trigger).startswith("ProcessingTimeTrigger"):
            return None
        return float(trigger.intervalMs()) or None
    except (JvmError, TypeError, AttributeError):
        return None


def progress_after(spark: SparkSession, query: str, timestamp: str) -> list[dict[str, Any]]:
    """Return what an active query has told of its batches since a time, the oldest first."""
    execution = execution_of(spark, query)
    recent = execution.recentProgress() if execution is not None else ()
    found: list[dict[str, Any]] = []
    for i in reversed(range(len(recent))):
        told = json.loads(recent[i].json())
        if told["timestamp"] <= timestamp:
            break
        found.append(told)
    return found[::-1]


def unread_files(spark: SparkSession, query: str, source: int, log_offset: int) -> float:
    """Return how many batches' worth of files a source of files has listed and not yet read.

    That is, unread files over files of the batch that ends at an offset.
    """
    found = execution_of(spark, query).sources().apply(source)
    unread = private(found, "unreadFiles")
    batch = private(found, "metadataLog").get(log_offset)
    if unread is None or not batch.isDefined():
        return 0.0
    return float(unread.size()) / max(1, len(batch.get()))
