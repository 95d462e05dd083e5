"""Trials on real Spark: the same stream through Spark's own shuffle and through Penstock.

The operators here sleep: they stand for calls to a database, so that more instances than cores can
be shown. Such a trial is latency-bound, and says so wherever its numbers are shown.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int64
from penstock.spark.balance import BalanceOperator, balance
from penstock.spark.lab.streams import DataFrame, SparkSession, partition_id, run_stream

SCHEMA = "key long, instance int, cost_ms double"


@dataclass(frozen=True)
class Load:
    """A stream in files, one a micro-batch.

    Attributes:
        keys: of the records of each micro-batch.
        costs_ms: of the records of each micro-batch; Penstock does not see them.
        slowdowns: pairs of a batch's number and the instances' slowdowns from there on.
        slow_executors: slowdowns of executors, by their working folder (standalone clusters).
    """

    keys: tuple[Int64, ...]
    costs_ms: tuple[Float64, ...]
    slowdowns: tuple[tuple[int, tuple[float, ...]], ...] = ()
    slow_executors: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, keys: Int64, costs_ms: Float64, batches: int) -> Self:
        """Cut a stream into batches."""
        return cls(tuple(np.split(keys, batches)), tuple(np.split(costs_ms, batches)))

    def last(self, batches: int) -> Self:
        """Return the last batches only."""
        return replace(self, keys=self.keys[-batches:], costs_ms=self.costs_ms[-batches:])

    def ideal_ms(self, instances: int) -> Float64:
        """Least time of each batch: all instances busy to the end, or one with its longest."""
        return np.array([max(c.sum() / instances, c.max()) for c in self.costs_ms])


@dataclass(frozen=True)
class BatchTrial:
    """What one way of sharing records out gave.

    Attributes:
        name: of the way.
        duration_ms: of each batch, with Spark's own overhead.
        busy_ms: of each batch and instance.
        records: that came out.
    """

    name: str
    duration_ms: Float64
    busy_ms: Float64
    records: int

    def settled(self, warm_up: int) -> Float64:
        """Durations without the first batches, in which kernels load and costs are learnt."""
        return self.duration_ms[warm_up:]

    def busiest_over_mean(self, warm_up: int) -> float:
        """Busiest over mean instance, the mean over batches."""
        busy = self.busy_ms[warm_up:]
        return float((busy.max(axis=1) / busy.mean(axis=1)).mean())


Way = Callable[[DataFrame, Load, int], DataFrame]


def by_repartition(partitions: int) -> Way:
    """Return Spark's own way: records in turn to so many tasks."""

    def share(frame: DataFrame, load: Load, _: int) -> DataFrame:
        return frame.repartition(partitions).mapInArrow(_plain(_work(load)), SCHEMA)

    return share


def by_key(frame: DataFrame, load: Load, instances: int) -> DataFrame:
    """Share by hashing keys, as Spark does for keyed work."""
    return frame.repartition(instances, "key").mapInArrow(_plain(_work(load)), SCHEMA)


class ByPenstock:
    """Penstock's way."""

    def __init__(self, grouping: str | Grouping = "posg") -> None:
        self._grouping = grouping
        self._operators: list[BalanceOperator] = []

    def __call__(self, frame: DataFrame, load: Load, instances: int) -> DataFrame:
        """Share by what records cost."""
        given = self._grouping
        own = given.instances if isinstance(given, Grouping) else instances
        operator = balance(_work(load), key="key", schema=SCHEMA, instances=own, grouping=given)
        self._operators.append(operator)
        return frame.transform(operator)

    def close(self) -> None:
        """Let go of what was learnt: its files are about to be removed."""
        for operator in self._operators:
            operator.close()


def _work(load: Load) -> Callable[[dict[str, Any]], dict[str, float]]:
    """Return the operator: it sleeps as long as the record costs on this instance."""
    slowdowns, slow = load.slowdowns, dict(load.slow_executors)

    def work(record: dict[str, Any]) -> dict[str, float]:
        instance = partition_id()
        factor = slow.get(Path.cwd().name, 1.0) if slow else 1.0
        for batch, factors in slowdowns:
            if record["batch"] >= batch:
                factor = factors[instance % len(factors)]
        start = time.perf_counter()
        time.sleep(factor * record["cost_ms"] / 1000)
        spent = 1000 * (time.perf_counter() - start)
        return {"key": record["key"], "instance": instance, "cost_ms": spent}

    return work


def _plain(
    work: Callable[[dict[str, Any]], dict[str, float]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Apply an operator to every record without Penstock."""
    schema = pa.schema([("key", pa.int64()), ("instance", pa.int32()), ("cost_ms", pa.float64())])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([work(r) for r in batch.to_pylist()], schema)

    return run


def try_out(
    spark: SparkSession,
    load: Load,
    ways: dict[str, Way],
    instances: int,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[BatchTrial]:
    """Run the stream through each way, one after the other.

    Args:
        spark: with at least as many slots as instances.
        load: the stream.
        ways: by name.
        instances: tasks that share the work.
        progress: called with the way, and the number of batches done and of all batches.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        for number, (keys, costs_ms) in enumerate(zip(load.keys, load.costs_ms, strict=True)):
            batch = np.full(len(keys), number)
            table = pa.table({"key": keys, "batch": batch, "cost_ms": costs_ms})
            pq.write_table(table, source / f"{number:06}.parquet")
        return [
            _try_one(spark, load, name, way, instances, source, Path(folder, name), progress)
            for name, way in ways.items()
        ]


def _try_one(
    spark: SparkSession,
    load: Load,
    name: str,
    way: Way,
    instances: int,
    source: Path,
    folder: Path,
    progress: Callable[[str, int, int], None],
) -> BatchTrial:
    total = len(load.keys)
    seen: list[list[tuple[int, float, int]]] = []

    def sink(rows: list[tuple[int, float, int]]) -> None:
        seen.append(rows)
        progress(name, len(seen), total)

    progress(name, 0, total)
    durations = run_stream(
        spark,
        source,
        "key long, batch long, cost_ms double",
        operator=lambda frame: way(frame, load, instances),
        checkpoint=folder,
        sink=sink,
    )
    if isinstance(way, ByPenstock):
        way.close()
    width = max((row[0] for rows in seen for row in rows), default=0) + 1
    busy = np.zeros((len(seen), max(width, instances)))
    records = 0
    for number, rows in enumerate(seen):
        for instance, busy_ms, count in rows:
            busy[number, instance] = busy_ms
            records += count
    return BatchTrial(name, np.array(durations), busy, records)
