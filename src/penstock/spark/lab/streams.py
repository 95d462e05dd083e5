"""Small jobs for trials: a stream of files through an operator, batch by batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

__all__ = ["DataFrame", "SparkSession", "collect_stream", "partition_id", "run_stream"]


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
        files: number of files in a batch; the block then ends when all present files have been
            read. None reads all new files in each batch, and ends with the block.

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
        if files is not None:
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
    sink: Callable[[list[tuple[int, float, int]]], None],
) -> list[float]:
    """Run a folder of Parquet files through an operator, one file a micro-batch.

    Args:
        spark: session of the query.
        source: folder of the files.
        schema: schema of the files.
        operator: operator that returns a frame with columns instance and cost_ms.
        checkpoint: checkpoint folder of the query.
        sink: function called for each batch with (instance, busy ms, records) of each instance.

    Returns:
        The duration of each batch in milliseconds.
    """
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))

    def collect(batch: DataFrame, _: int) -> None:
        # The sum is made here, because another shuffle would count as time of the batch.
        done = batch.select("instance", "cost_ms").toArrow()
        totals = done.group_by("instance").aggregate([("cost_ms", "sum"), ("cost_ms", "count")])
        sink([(r["instance"], r["cost_ms_sum"], r["cost_ms_count"]) for r in totals.to_pylist()])

    query = (
        operator(frame)
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    batches = {p.batchId: p.durationMs["addBatch"] for p in query.recentProgress if p.numInputRows}
    return [float(duration) for _, duration in sorted(batches.items())]
