"""What does `penstock.balance` cost a stream of cheap records, beside the same function in Spark?

A stream gets as many small records in each batch as arrive in a second. All cost the same, so there
is nothing to gain. Queries with `mapInArrow`, with `repartition` in front of it, and with
`penstock.balance` run the same function on the same files, in turns, batch by batch.

    python benchmarks/narrow.py
    python benchmarks/narrow.py --quick
"""

import argparse
import hashlib
import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import penstock
from common import Options, at_most, goal_columns, new_table, write_report
from penstock.spark.lab import session

CORES, KEYS = 2, 4_096
PLAIN, SHUFFLED, PENSTOCK = "mapInArrow", "repartition", "balance"
# Duration of a batch over that of the plain query.
GOAL = at_most(1.10)
# Batches that are not counted, unless fewer are: code is compiled in them.
WARM_UP = 8
SCHEMA = "key long, value long"

Function = Callable[[pa.RecordBatch], pa.RecordBatch]
Way = Callable[[DataFrame], DataFrame]


def nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def digested(batch: pa.RecordBatch, times: int) -> pa.RecordBatch:
    """Hash each value several times, at about 0.25 microseconds each."""
    values = []
    for value in batch.column("value").to_pylist():
        found = value.to_bytes(8, "big")
        for _ in range(times):
            found = hashlib.sha256(found).digest()
        values.append(int.from_bytes(found[:7], "big"))
    return pa.RecordBatch.from_arrays([batch.column("key"), pa.array(values)], ["key", "value"])


def cheap(batch: pa.RecordBatch) -> pa.RecordBatch:
    return digested(batch, 4)


def dear(batch: pa.RecordBatch) -> pa.RecordBatch:
    return digested(batch, 20)


FUNCTIONS: tuple[Function, ...] = (nothing, cheap, dear)


class Fed:
    """A query that runs one batch of a given file on request."""

    def __init__(self, spark: SparkSession, folder: Path, way: Way) -> None:
        self._files = folder / "in"
        self._files.mkdir(parents=True)
        self._steps = 0
        self._query = (
            spark.readStream.schema(SCHEMA)
            .parquet(str(self._files))
            .transform(way)
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def step(self, file: Path) -> float:
        """Run a batch, and return its duration in milliseconds."""
        hidden = Path(shutil.copy(file, self._files / ".next"))
        hidden.rename(self._files / f"{self._steps}.parquet")
        self._query.processAllAvailable()
        progress = next(p for p in self._query.recentProgress if p.batchId == self._steps)
        self._steps += 1
        return float(progress.durationMs["triggerExecution"])

    def stop(self) -> None:
        self._query.stop()


def written(file: Path, records: int) -> Path:
    """Write the records of a batch, with a part of the file for each core."""
    table = pa.table({"key": [one % KEYS for one in range(records)], "value": range(records)})
    pq.write_table(table, file, row_group_size=records // CORES)
    return file


def compare(spark: SparkSession, function: Function, args: argparse.Namespace) -> dict[str, float]:
    """Return the median duration of a batch, for each way."""

    def plain(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(function, found)

    operator = penstock.balance(function, key="key", schema=SCHEMA, instances=CORES)
    ways: dict[str, Way] = {
        PLAIN: lambda rows: rows.mapInArrow(plain, SCHEMA),
        SHUFFLED: lambda rows: rows.repartition(CORES).mapInArrow(plain, SCHEMA),
        PENSTOCK: operator,
    }
    with TemporaryDirectory(prefix="penstock-") as text:
        folder = Path(text)
        file = written(folder / "batch.parquet", args.records)
        fed = {name: Fed(spark, folder / name, way) for name, way in ways.items()}
        taken_ms: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(min(WARM_UP, args.batches) + args.batches):
            for name in ways:
                taken_ms[name].append(fed[name].step(file))
        for one in fed.values():
            one.stop()
        operator.close()
    return {name: statistics.median(found[-args.batches :]) for name, found in taken_ms.items()}


def main() -> None:
    options = Options("narrow", __doc__)
    options.size("records", 100_000, 1_000, meaning="number of records of a batch")
    options.size("batches", 30, 1, meaning="number of timed batches of each way")
    args = options.parse()
    # Spark splits a small file only if opening one costs nothing.
    spark = session(f"local[{CORES}]", "penstock-narrow", spark__sql__files__openCostInBytes="1")
    found = {one.__name__: compare(spark, one, args) for one in FUNCTIONS}
    table = new_table(
        f"Batches of {args.records:,} records on {CORES} cores, median of {args.batches}",
        labels=("function", "way"),
        numbers=("ms", "over mapInArrow", "goal", "reached"),
    )
    for function, taken_ms in found.items():
        for way, one_ms in taken_ms.items():
            ratio = one_ms / taken_ms[PLAIN]
            cells = goal_columns(GOAL if way == PENSTOCK else None, ratio)
            table.add_row(function, way, f"{one_ms:.0f}", f"{ratio:.2f}", *cells)
    Console().print(table)
    write_report(args.json, found)


if __name__ == "__main__":
    main()
