"""The jobs of `diagnose.py`: each has a planted cause, and can also run with its cure.

A job runs in a process of its own. Its name is the planted cause.

    python benchmarks/diagnose_jobs.py uneven_costs --logs FOLDER
    python benchmarks/diagnose_jobs.py uneven_costs --logs FOLDER --cured
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
from keygroups import hint_start, processed, read_files
from penstock.experiments.demo import heavy_tailed
from penstock.placement import Albic
from penstock.spark.lab import session

SLOTS = 8
EXECUTORS = 4
KEY_GROUPS = 16
SCHEMA = "key long, cost_ms double"
OUT = "key long"
Operator = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Run:
    """How a job is to run.

    Attributes:
        logs: folder for the event log.
        batches: number of batches.
        cured: whether the cure is applied.
        slots: number of slots that the diagnosis advises; None if it advises none.
    """

    logs: Path
    batches: int
    cured: bool
    slots: int | None

    def session(self, master: str = f"local[{SLOTS}]", **config: str) -> SparkSession:
        """Start a session that writes an event log."""
        self.logs.mkdir(parents=True, exist_ok=True)
        folder = self.logs.resolve().as_uri()
        own = {"spark__eventLog__enabled": "true", "spark__eventLog__dir": folder}
        return session(master, "penstock-diagnose", **own, **config)


def asleep(batches: Iterator[pa.RecordBatch], slow: str | None = None) -> Iterator[pa.RecordBatch]:
    """Sleep for the cost of each record; three times as long on the executor named `slow`."""
    # Executors of a local cluster work in folders with their names.
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


def balanced(instances: int) -> Operator:
    """Return the operator of `by_turns` with Penstock."""

    def work(record: dict[str, float]) -> dict[str, float]:
        time.sleep(record["cost_ms"] / 1000)
        return {"key": record["key"]}

    return lambda frame: frame.transform(
        penstock.balance(work, key="key", schema=OUT, instances=instances)
    )


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
        frame = read_files(spark, source, SCHEMA)
        writer = operator(frame).writeStream.queryName("calls").format("noop")
        writer = writer.option("checkpointLocation", str(Path(folder, "checkpoint")))
        query = writer.trigger(**(trigger or {"availableNow": True})).start()  # type: ignore[arg-type]
        try:
            while query.isActive and not (trigger and _done(query, len(keys))):
                query.awaitTermination(1)
        finally:
            query.stop()


def _done(query: Any, batches: int) -> bool:
    with suppress(TypeError):
        return query.lastProgress["batchId"] >= batches - 1
    return False


def even(batches: int, records: int, cost_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """Return keys, and records that all cost the same."""
    keys = np.arange(batches * records).reshape(batches, records)
    return keys, np.full((batches, records), cost_ms)


def heavy(batches: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys whose costs differ by orders of magnitude."""
    load = heavy_tailed(batches, records, distinct=4_096)
    return np.array(load.keys), np.array(load.costs_ms)


def uneven_costs(run: Run) -> None:
    operator = balanced(SLOTS) if run.cured else by_turns(SLOTS)
    keys, costs_ms = heavy(run.batches, 400)
    stream(run.session(), keys, costs_ms, operator=operator)


def hot_keys(run: Run) -> None:
    keys, costs_ms = even(run.batches, 400, cost_ms=8.0)
    hot = np.random.default_rng(0).random(keys.shape) < 0.4
    operator = balanced(SLOTS) if run.cured else by_key
    stream(run.session(), np.where(hot, 7, keys), costs_ms, operator=operator)


def too_few_tasks(run: Run) -> None:
    keys, costs_ms = even(run.batches, 400, cost_ms=6.0)
    stream(run.session(), keys, costs_ms, operator=by_turns(SLOTS if run.cured else 2))


def healthy(run: Run) -> None:
    keys, costs_ms = even(run.batches, 800, cost_ms=20.0)
    stream(run.session(), keys, costs_ms, operator=by_turns(SLOTS))


def over_provisioned(run: Run) -> None:
    spark = run.session(f"local[{(run.cured and run.slots) or SLOTS}]")
    trigger = {"processingTime": "2 seconds"}
    keys, costs_ms = even(run.batches, 80, cost_ms=5.0)
    stream(spark, keys, costs_ms, operator=by_turns(SLOTS), trigger=trigger)


def slow_executor(run: Run) -> None:
    spark = run.session(f"local-cluster[{EXECUTORS},1,1024]", spark__executor__memory="512m")
    keys, costs_ms = even(run.batches, 240, cost_ms=20.0)
    operator = by_turns(2 * EXECUTORS, slow=None if run.cured else "0")
    stream(spark, keys, costs_ms, operator=operator)


def crowded_state(run: Run) -> None:
    """Count by key; half of the key groups start on the first executor, the others in turn."""
    spark = run.session(
        f"local-cluster[{EXECUTORS},1,1024]",
        spark__executor__memory="512m",
        spark__sql__shuffle__partitions=str(KEY_GROUPS),
        spark__locality__wait="10s",
    )

    def sink(batch: DataFrame, number: int) -> None:
        if number <= 1:
            hint_start(spark, lambda _, partition: 0 if partition % 2 else partition // 2)
        batch.write.format("noop").mode("overwrite").save()

    part = sf.expr(f"pmod(hash(id), {KEY_GROUPS})").alias("part")
    rows = spark.range(4 * KEY_GROUPS).select("id", part).toPandas()
    costs_s = 0.2 / rows.groupby("part")["id"].transform("size")
    table = pa.table({"key": rows["id"].to_numpy(), "cost_s": costs_s.to_numpy()})
    with TemporaryDirectory(prefix="penstock-diagnose-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for number in range(run.batches):
            pq.write_table(table, folder / "in" / f"{number:06}.parquet")
        counted = (
            read_files(spark, folder / "in", "key long, cost_s double")
            .groupBy("key")
            .applyInPandasWithState(
                count, "key long, total long", "total long", "update", "NoTimeout"
            )
        )
        placer = Albic(max_migrations=10) if run.cured else None
        with processed(
            counted, sink, folder / "checkpoint", mode="update", placer=placer, period="5 s"
        ):
            pass


def count(key: tuple, batches: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count the records of a key, and sleep for their cost."""
    rows = pd.concat(batches)
    total = (state.get[0] if state.exists else 0) + len(rows)
    state.update((total,))
    time.sleep(float(rows["cost_s"].sum()))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


def under_provisioned(run: Run) -> None:
    """Run a source that produces 1.5 times as much as two slots can process."""
    slots = (run.cured and run.slots) or 2
    spark = run.session(f"local[{slots}]")
    operator = by_turns(slots)
    # The source counts from the start of the query, so Python workers are started before.
    operator(spark.createDataFrame([(1, 1.0)] * slots, SCHEMA)).collect()
    with TemporaryDirectory(prefix="penstock-diagnose-") as folder:
        frame = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        frame = frame.selectExpr("value AS key", "15.0D AS cost_ms")
        writer = operator(frame).writeStream.queryName("calls").format("noop")
        query = writer.option("checkpointLocation", folder).start()
        start = time.monotonic()
        try:
            while query.isActive and time.monotonic() < start + 5 * run.batches:
                if _done(query, run.batches):
                    break
                query.awaitTermination(1)
        finally:
            query.stop()


def garbage_collection(run: Run) -> None:
    """Collect lists as objects, on a heap that hardly has room for them."""
    spark = run.session(
        "local[2]",
        spark__driver__memory="2g" if run.cured else "512m",
        spark__sql__adaptive__enabled="false",
        # Lists stay objects of the heap, and are not sorted on disk.
        spark__sql__objectHashAggregate__sortBased__fallbackThreshold="1000000",
    )
    for _ in range(run.batches // 2):
        pairs = spark.range(0, 2_600_000, 1, 2).selectExpr("id % 3000 AS key", "uuid() AS word")
        lists = pairs.groupBy("key").agg({"word": "collect_list"})
        lists.write.format("noop").mode("overwrite").save()


# The cure that is applied to each job, by its name in a diagnosis; None for none.
JOBS: dict[str, tuple[Callable[[Run], None], str | None]] = {
    "uneven_costs": (uneven_costs, "balance"),
    "hot_keys": (hot_keys, "balance"),
    "slow_executor": (slow_executor, "replace the executor"),
    "crowded_state": (crowded_state, "attach(place=)"),
    "over_provisioned": (over_provisioned, "attach(scale=)"),
    "under_provisioned": (under_provisioned, "attach(scale=)"),
    "too_few_tasks": (too_few_tasks, "spark.sql.shuffle.partitions"),
    "garbage_collection": (garbage_collection, "spark.executor.memory"),
    "healthy": (healthy, None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--logs", type=Path, required=True, help="folder for the event log")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--cured", action="store_true", help="run with the cure")
    parser.add_argument("--slots", type=int, help="slots of a cured job, where the cure is slots")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    JOBS[args.job][0](Run(args.logs, args.batches, cured=args.cured, slots=args.slots))


if __name__ == "__main__":
    main()
