"""Queries with key groups on a local cluster: shared by the benchmarks of placement."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import penstock
from penstock.placement import Placer
from penstock.spark import internals
from penstock.spark.driver.attachment import Attachment
from penstock.spark.lab import session


def cluster_session(name: str, key_groups: int, executors: int, **config: str) -> SparkSession:
    """Start a session on a local cluster of executors with one core each.

    Args:
        name: name of the application.
        key_groups: number of key groups of each stateful operator.
        executors: number of executors.
        config: further settings, with `__` for a dot.
    """
    return session(
        f"local-cluster[{executors},1,1024]",
        name,
        spark__executor__memory="512m",
        spark__sql__shuffle__partitions=str(key_groups),
        # Tasks wait for the executor that holds their state.
        spark__locality__wait="10s",
        **config,
    )


def read_files(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Return a stream of Parquet files, one file a batch."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


@dataclass(frozen=True)
class PlacedQuery:
    """A query that has processed its stream, and its attachment; None if it was left alone."""

    query: StreamingQuery
    attached: Attachment | None

    @property
    def plans(self) -> list[dict[str, Any]]:
        """Journal entries of the plans that move key groups."""
        entries = self.attached.journal.entries() if self.attached else []
        return [one for one in entries if one["kind"] == "plan" and one.get("moves")]

    @property
    def moved(self) -> int:
        """Number of key groups that have moved."""
        return self.attached.stats().moved if self.attached else 0


@contextmanager
def processed(
    frame: DataFrame,
    sink: Callable[[DataFrame, int], None],
    checkpoint: Path,
    *,
    mode: str,
    placer: Placer | None,
    period: str,
) -> Iterator[PlacedQuery]:
    """Start a query, wait until it has read all files, and stop it at the end of the block.

    Args:
        frame: streaming frame.
        sink: function of a batch and its number.
        checkpoint: folder for the checkpoint.
        mode: output mode.
        placer: policy that plans; None leaves the query alone.
        period: time between two plans.
    """
    query = (
        frame.writeStream.outputMode(mode)
        .foreachBatch(penstock.with_placement(sink))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        attached = None
        if placer is not None:
            attached = penstock.attach(query, place=placer, period=period)
        query.processAllAvailable()
        yield PlacedQuery(query, attached)
    finally:
        query.stop()


def hint_start(spark: SparkSession, chosen: Callable[[int, int], int]) -> None:
    """Hint to Spark where the key groups of its only query start; call it before a batch.

    Args:
        spark: session of the query.
        chosen: function that returns the number of an executor for an operator and a partition.
    """
    (query,) = spark.streams.active
    executors = internals.live_executors(spark)
    names = sorted(executors)
    for operator in internals.state_operators(spark, str(query.id)) or []:
        for partition in range(operator.partitions):
            name = names[chosen(operator.number, partition) % len(names)]
            internals.hint_location(
                spark,
                str(query.runId),
                operator,
                partition=partition,
                executor=name,
                host=executors[name].host,
            )


def tasks_of_jobs(
    spark: SparkSession, query: StreamingQuery
) -> Iterator[tuple[internals.JobDone, dict[int, list[dict[str, Any]]]]]:
    """Yield the jobs of a query that have ended, and their tasks by stateful operator."""
    operators = internals.state_operators(spark, str(query.id)) or []
    for number in internals.jobs_after(spark, str(query.runId), -1):
        job = internals.job_done(spark, number)
        if job is not None:
            yield job, internals.tasks_by_operator(spark, operators, job.stages)
