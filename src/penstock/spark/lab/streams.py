"""Small jobs for trials: a stream of files through an operator, batch by batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.policies.kernels import Float64

__all__ = [
    "BatchTimes",
    "DataFrame",
    "SparkSession",
    "collect_stream",
    "partition_id",
    "run_stream",
]


class BatchTimes(NamedTuple):
    """The times of the batches of a query, in their order.

    Attributes:
        duration_ms: duration of each batch.
        wall_ms: time from the start of each batch to the start of the next one, or to its own end.
    """

    duration_ms: Float64
    wall_ms: Float64


def partition_id() -> int:
    """Return the partition of the running task; 0 outside of a task."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


@contextmanager
def collect_stream(
    spark: SparkSession,
    source: Path,
    schema: str,
    *,
    operator: Callable[[DataFrame], DataFrame],
    checkpoint: Path,
    files: int | None = None,
) -> Iterator[list[pa.Table]]:
    """Run a folder of Parquet files through an operator as they arrive, until the block ends.

    Args:
        spark: session of the query.
        source: folder of the files.
        schema: schema of the files.
        operator: operator that the files go through.
        checkpoint: checkpoint folder of the query.
        files: number of files in a batch, of those that are present at the start. None reads all
            new files in each batch. In both cases the block ends when all files are processed.

    Yields:
        The results of batches, a table for each; the list grows as they arrive.
    """
    collected: list[pa.Table] = []
    reader = spark.readStream.schema(schema)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    frame = operator(reader.parquet(str(source)))
    writer = frame.writeStream.foreachBatch(lambda batch, _: collected.append(batch.toArrow()))
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = (writer if files is None else writer.trigger(availableNow=True)).start()
    try:
        yield collected
        if files is None:
            query.processAllAvailable()
        else:
            query.awaitTermination()
    finally:
        query.stop()


def run_stream(
    spark: SparkSession,
    source: Path,
    schema: str,
    *,
    operator: Callable[[DataFrame], DataFrame],
    checkpoint: Path,
    sink: Callable[[pa.Table], None],
    files: int = 1,
    name: str | None = None,
) -> BatchTimes:
    """Run a folder of Parquet files through an operator, some files a micro-batch.

    Args:
        spark: session of the query.
        source: folder of the files.
        schema: schema of the files.
        operator: operator that the files go through.
        checkpoint: checkpoint folder of the query.
        sink: function called for each batch with its results.
        files: number of files in a batch, >= 1; each of them is read by a task of its own.
        name: name of the query, for people who watch it; None for none.
    """
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    frame = reader.parquet(str(source))
    writer = operator(frame).writeStream.foreachBatch(lambda batch, _: sink(batch.toArrow()))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = (writer if name is None else writer.queryName(name)).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return _times([progress for progress in query.recentProgress if progress.numInputRows])


def _times(batches: list[StreamingQueryProgress]) -> BatchTimes:
    started_ms = [1000 * datetime.fromisoformat(one.timestamp).timestamp() for one in batches]
    ended_ms = started_ms[-1] + batches[-1].durationMs["triggerExecution"] if batches else 0.0
    return BatchTimes(
        duration_ms=np.array([float(one.durationMs["addBatch"]) for one in batches]),
        wall_ms=np.diff([*started_ms, ended_ms]) if batches else np.zeros(0),
    )
