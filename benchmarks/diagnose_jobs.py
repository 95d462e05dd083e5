"""The jobs of `diagnose.py`, each with a planted cause; a job runs in a process of its own.

python benchmarks/diagnose_jobs.py uneven_costs --logs FOLDER
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.experiments.demo import heavy_tailed
from penstock.spark.lab import session

SLOTS = 8
EXECUTORS = 4
SCHEMA = "key long, cost_ms double"
OUT = "key long"
Operator = Callable[[DataFrame], DataFrame]


def asleep(batches: Iterator[pa.RecordBatch], slow: str | None = None) -> Iterator[pa.RecordBatch]:
    """Sleep for the cost of each record; three times as long in the folder named `slow`."""
    factor = 3.0 if Path.cwd().name == slow else 1.0
    for batch in batches:
        for cost_ms in batch["cost_ms"].to_pylist():
            time.sleep(factor * cost_ms / 1000)
        yield batch.select(["key"])


def by_turns(tasks: int, slow: str | None = None) -> Operator:
    """Return an operator behind Spark's repartition."""
    work = partial(asleep, slow=slow)
    return lambda frame: frame.repartition(tasks).mapInArrow(work, OUT)


def by_key(frame: DataFrame) -> DataFrame:
    """Send all records of a key to one task."""
    return frame.repartition(SLOTS, "key").mapInArrow(asleep, OUT)


def balanced(frame: DataFrame) -> DataFrame:
    """Run the operator of `by_turns` with Penstock."""

    def work(record: dict[str, float]) -> dict[str, float]:
        time.sleep(record["cost_ms"] / 1000)
        return {"key": record["key"]}

    return frame.transform(penstock.balance(work, key="key", schema=OUT, instances=SLOTS))


def stream(
    spark: SparkSession,
    keys: np.ndarray,
    costs_ms: np.ndarray,
    *,
    operator: Operator,
    trigger: dict[str, object] | None = None,
) -> None:
    """Run records through an operator, one row of the arrays in each micro-batch.

    Args:
        spark: session of the query.
        keys: keys of the records; one row for each batch.
        costs_ms: costs of the records.
        operator: operator that sleeps.
        trigger: trigger of the query; all batches one after the other by default.
    """
    with TemporaryDirectory(prefix="penstock-diagnose-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        for number, (own, costs) in enumerate(zip(keys, costs_ms, strict=True)):
            table = pa.table({"key": own, "cost_ms": costs})
            pq.write_table(table, source / f"{number:06}.parquet")
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        writer = operator(frame.parquet(str(source))).writeStream.queryName("calls").format("noop")
        writer = writer.option("checkpointLocation", str(Path(folder, "checkpoint")))
        query = writer.trigger(**(trigger or {"availableNow": True})).start()  # type: ignore[arg-type]
        try:
            while query.isActive and not (trigger and _done(query, len(keys))):
                query.awaitTermination(1)
        finally:
            query.stop()


def _done(query: object, batches: int) -> bool:
    with suppress(TypeError):
        return query.lastProgress["batchId"] >= batches - 1  # type: ignore[attr-defined]
    return False


def even(batches: int, records: int, cost_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """Return keys, and records that all cost the same."""
    keys = np.arange(batches * records).reshape(batches, records)
    return keys, np.full((batches, records), cost_ms)


def heavy(batches: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys whose costs differ by orders of magnitude."""
    load = heavy_tailed(batches, records, distinct=4_096)
    return np.array(load.keys), np.array(load.costs_ms)


def uneven_costs(logs: Path, batches: int) -> None:
    stream(_spark(logs), *heavy(batches, 400), operator=by_turns(SLOTS))


def uneven_costs_balanced(logs: Path, batches: int) -> None:
    stream(_spark(logs), *heavy(batches, 400), operator=balanced)


def hot_keys(logs: Path, batches: int) -> None:
    keys, costs_ms = even(batches, 400, cost_ms=8.0)
    hot = np.random.default_rng(0).random(keys.shape) < 0.4
    stream(_spark(logs), np.where(hot, 7, keys), costs_ms, operator=by_key)


def too_few_tasks(logs: Path, batches: int) -> None:
    stream(_spark(logs), *even(batches, 400, cost_ms=6.0), operator=by_turns(2))


def healthy(logs: Path, batches: int) -> None:
    stream(_spark(logs), *even(batches, 800, cost_ms=20.0), operator=by_turns(SLOTS))


def over_provisioned(logs: Path, batches: int) -> None:
    trigger = {"processingTime": "2 seconds"}
    records = even(batches, 80, cost_ms=5.0)
    stream(_spark(logs), *records, operator=by_turns(SLOTS), trigger=trigger)


def slow_executor(logs: Path, batches: int) -> None:
    spark = _spark(logs, f"local-cluster[{EXECUTORS},1,1024]", spark__executor__memory="512m")
    records = even(batches, 240, cost_ms=20.0)
    stream(spark, *records, operator=by_turns(2 * EXECUTORS, slow="0"))


def under_provisioned(logs: Path, batches: int) -> None:
    """Run a source that produces twice as much as two slots can process."""
    spark = _spark(logs, "local[2]")
    with TemporaryDirectory(prefix="penstock-diagnose-") as folder:
        frame = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        frame = frame.selectExpr("value AS key", "15.0D AS cost_ms")
        writer = by_turns(2)(frame).writeStream.queryName("calls").format("noop")
        query = writer.option("checkpointLocation", folder).start()
        start = time.monotonic()
        try:
            while query.isActive and time.monotonic() < start + 10 * batches:
                progress = query.lastProgress
                if progress and progress["batchId"] >= min(batches, 7):
                    break
                query.awaitTermination(1)
        finally:
            query.stop()


def garbage_collection(logs: Path, batches: int) -> None:
    """Sort lists on a heap that hardly has room for them."""
    spark = _spark(
        logs,
        "local[2]",
        spark__driver__memory="512m",
        spark__memory__fraction="0.9",
        spark__sql__adaptive__enabled="false",
    )
    for _ in range(min(batches, 3)):
        pairs = spark.range(0, 1_200_000, 1, 2).selectExpr("id % 3000 AS key", "uuid() AS word")
        lists = pairs.groupBy("key").agg({"word": "collect_list"})
        lists.write.format("noop").mode("overwrite").save()


JOBS = {
    job.__name__: job
    for job in (
        uneven_costs,
        uneven_costs_balanced,
        hot_keys,
        too_few_tasks,
        slow_executor,
        over_provisioned,
        under_provisioned,
        garbage_collection,
        healthy,
    )
}


def _spark(logs: Path, master: str = f"local[{SLOTS}]", **config: str) -> SparkSession:
    logs.mkdir(parents=True, exist_ok=True)
    own = {"spark__eventLog__enabled": "true", "spark__eventLog__dir": logs.resolve().as_uri()}
    return session(master, "penstock-diagnose", **own, **config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--logs", type=Path, required=True, help="folder for the event log")
    parser.add_argument("--batches", type=int, default=10)
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    JOBS[args.job](args.logs, args.batches)


if __name__ == "__main__":
    main()
