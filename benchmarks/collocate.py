"""How many bytes between executors does `penstock.attach(place=...)` save by collocation?

Two stateful operators in a row (deduplication) have the same key. Partition i of the first one
sends only to partition i of the second one. As in the ALBIC paper, such partitions start on
different executors. Without Penstock they stay there; with `penstock.attach` they are collocated.
`spark.shuffle.readHostLocalDisk=false` makes executors on one machine count as remote.

    python benchmarks/collocate.py
"""

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from common import Options, new_table, write_report, yes_or_no
from keygroups import cluster_session, hint_start, processed, read_files, tasks_of_jobs
from penstock.placement import Albic, Placer

KEYS = 320
SCHEMA = "key long, batch long, load string"


@dataclass(frozen=True, kw_only=True)
class Run:
    """The outcome of a run.

    Attributes:
        remote_bytes: bytes that executors read from each other in a batch, at the end.
        between_operators: part of these bytes that the second operator reads from the first one.
        exact: whether every record came out exactly once.
        moved: number of key groups that have moved.
        plans: reasons of the plans.
    """

    remote_bytes: float
    between_operators: float
    exact: bool
    moved: int
    plans: list[str]


def write_stream(folder: Path, batches: int) -> None:
    """Write a file for each batch: every key with a kilobyte that cannot be compressed."""
    generator = np.random.default_rng(1)
    folder.mkdir()
    for number in range(batches):
        loads = [generator.bytes(512).hex() for _ in range(KEYS)]
        table = pa.table({"key": np.arange(KEYS), "batch": [number] * KEYS, "load": loads})
        pq.write_table(table, folder / f"{number:04}.parquet")


def apart(operator: int, partition: int) -> int:
    """Return an executor for a key group; key groups with traffic get neighbouring ones."""
    return partition + operator


def run(spark: SparkSession, placer: Placer | None, args: argparse.Namespace) -> Run:
    received = 0

    def sink(batch: DataFrame, number: int) -> None:
        nonlocal received
        if number <= 1:
            hint_start(spark, apart)
        received += batch.count()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        write_stream(folder / "in", args.batches)
        frame = read_files(spark, folder / "in", SCHEMA)
        for _ in range(2):
            # The key is computed, so Spark shuffles again although nothing changes.
            frame = frame.withColumn("key", sf.abs("key")).dropDuplicates(["key", "batch"])
        period = f"{args.period_s} s"
        with processed(
            frame, sink, folder / "checkpoint", mode="append", placer=placer, period=period
        ) as done:
            remote, between = remote_bytes(spark, done.query, args.last)
            return Run(
                remote_bytes=remote,
                between_operators=between,
                exact=received == args.batches * KEYS,
                moved=done.moved,
                plans=[one["reason"] for one in done.plans],
            )


def remote_bytes(spark: SparkSession, query: StreamingQuery, last: int) -> tuple[float, float]:
    """Return the remote bytes of a batch: those of all operators, and of the second one."""
    read = []
    for _, by_operator in list(tasks_of_jobs(spark, query))[-last:]:
        own = [sum(map(_remote_bytes, by_operator[number])) for number in sorted(by_operator)]
        read.append((sum(own), own[0]))
    total, second = np.mean(read, axis=0)
    return float(total), float(second)


def _remote_bytes(task: dict[str, Any]) -> float:
    return float(task["taskMetrics"]["shuffleReadMetrics"]["remoteBytesRead"])


def show(alone: Run, placed: Run, *, key_groups: int, executors: int) -> None:
    table = new_table(
        f"two operators of {key_groups} key groups, {executors} executors",
        labels=("run",),
        numbers=("remote KB a batch", "between the operators", "exactly once", "moved"),
    )
    for name, one in {"left alone": alone, "attach": placed}.items():
        table.add_row(
            name,
            f"{one.remote_bytes / 1e3:,.0f}",
            f"{one.between_operators / 1e3:,.0f}",
            yes_or_no(one.exact),
            str(one.moved),
        )
    console = Console()
    console.print(table)
    for reason in placed.plans:
        console.print(reason)
    saved = 1 - placed.remote_bytes / alone.remote_bytes
    console.print(f"remote bytes fall by {saved:.0%} (goal 40%)")


def main() -> None:
    options = Options("collocate", __doc__)
    options.size("executors", 4, 2, meaning="number of executors")
    options.size("key_groups", 16, 4, meaning="number of key groups of each operator")
    options.size("batches", 40, 4, meaning="number of batches")
    options.size("last", 8, 2, meaning="number of batches that are measured, the last ones")
    options.size("period_s", 5.0, 1.0, meaning="time between two plans")
    args = options.parse()
    spark = cluster_session(
        "penstock-collocate",
        args.key_groups,
        args.executors,
        spark__shuffle__readHostLocalDisk="false",
        spark__shuffle__compress="false",
    )
    alone = run(spark, None, args)
    # Loads are small and equal here, so only the traffic matters.
    placed = run(spark, Albic(max_migrations=10, max_distance=50), args)
    show(alone, placed, key_groups=args.key_groups, executors=args.executors)
    write_report(args.json, {"left alone": asdict(alone), "attach": asdict(placed)})


if __name__ == "__main__":
    main()
