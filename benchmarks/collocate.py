"""Do executors send each other less if key groups that talk live together?

Two stateful operators in a row (deduplication) with the same key: what partition i of the first one
sends goes to partition i of the second one. They begin apart, each on another executor, as in the
ALBIC paper: left alone, they stay so; with `penstock.attach` they come together.
`spark.shuffle.readHostLocalDisk=false` makes the executors of one machine count as remote.

    python benchmarks/collocate.py
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import penstock
from keygroups import begin, tasks
from penstock.spark.lab import session

EXECUTORS = 4
PARTITIONS = 16
KEYS = 320
BATCHES = 40
LAST = 8
SCHEMA = "key long, batch long, load string"


def feed(folder: Path) -> None:
    """One file a batch: every key with a kilobyte that cannot be compressed."""
    generator = np.random.default_rng(1)
    folder.mkdir()
    for number in range(BATCHES):
        loads = [generator.bytes(512).hex() for _ in range(KEYS)]
        table = pa.table({"key": np.arange(KEYS), "batch": [number] * KEYS, "load": loads})
        pq.write_table(table, folder / f"{number:04}.parquet")


def apart(operator: int, partition: int) -> int:
    """Key groups in turn, those that talk to each other on neighbours."""
    return partition + operator


def run(spark: SparkSession, placer: penstock.placement.Placer | None) -> dict[str, Any]:
    """Return how many bytes went from executor to executor in the last batches."""
    seen = [0]

    def sink(batch: DataFrame, number: int) -> None:
        if number <= 1:
            begin(spark, apart)
        seen[0] += batch.count()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        feed(folder / "in")
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(folder / "in"))
        for _ in range(2):
            # Computed, so that Spark does not know that it is still partitioned by it.
            frame = frame.withColumn("key", sf.abs("key")).dropDuplicates(["key", "batch"])
        query = (
            frame.writeStream.outputMode("append")
            .foreachBatch(penstock.with_placement(sink))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        attached = None
        if placer is not None:
            attached = penstock.attach(query, place=placer, period="5 s")
        query.processAllAvailable()
        remote, between = remote_bytes(spark, query)
        entries = attached.journal.entries() if attached else []
        plans = [one for one in entries if one["kind"] == "plan" and one.get("moves")]
        moved = attached.stats().moved if attached else 0
        query.stop()
    return {
        "remote_bytes": remote,
        "between_operators": between,
        "exact": seen[0] == BATCHES * KEYS,
        "moved": moved,
        "plans": [one["reason"] for one in plans],
    }


def remote_bytes(spark: SparkSession, query: StreamingQuery) -> tuple[float, float]:
    """Return bytes that a batch reads from other executors: in all, and by the last operator."""
    read = []
    for _, by_operator in list(tasks(spark, query))[-LAST:]:
        own = [sum(map(_remote_bytes, by_operator[number])) for number in sorted(by_operator)]
        read.append((sum(own), own[0]))
    total, last = np.mean(read, axis=0)
    return float(total), float(last)


def _remote_bytes(task: dict[str, Any]) -> float:
    return float(task["taskMetrics"]["shuffleReadMetrics"]["remoteBytesRead"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/collocate.json"))
    args = parser.parse_args()
    spark = session(
        f"local-cluster[{EXECUTORS},1,1024]",
        "penstock-collocate",
        spark__executor__memory="512m",
        spark__sql__shuffle__partitions=str(PARTITIONS),
        spark__locality__wait="10s",
        spark__shuffle__readHostLocalDisk="false",
        spark__shuffle__compress="false",
    )
    # Loads are small and equal here: what counts is who talks to whom.
    ways = {
        "left alone": None,
        "attach": penstock.placement.Albic(max_migrations=10, max_distance=50),
    }
    found = {name: run(spark, placer) for name, placer in ways.items()}
    console = Console()
    table = Table(title=f"two operators of {PARTITIONS} key groups, {EXECUTORS} executors")
    for column in ("run", "remote KB a batch", "between the operators", "exactly once", "moved"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for name, one in found.items():
        sizes = f"{one['remote_bytes'] / 1e3:,.0f}", f"{one['between_operators'] / 1e3:,.0f}"
        table.add_row(name, *sizes, str(one["exact"]), str(one["moved"]))
    console.print(table)
    saved = 1 - found["attach"]["remote_bytes"] / found["left alone"]["remote_bytes"]
    for reason in found["attach"]["plans"]:
        console.print(reason)
    console.print(f"remote bytes fall by {saved:.0%} (goal 40%)")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
