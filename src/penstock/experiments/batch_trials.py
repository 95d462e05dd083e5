"""Batch trials on real Spark: the same stream through Spark's own shuffle and through Penstock.

The operators here sleep: they stand for calls to a database, so that a machine can run more
instances than it has cores. Such a trial is latency-bound. All tables and plots state that.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.control.occupancy import Occupancy
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int64
from penstock.spark.balance import BalanceOperator, balance
from penstock.spark.lab.streams import (
    BatchTimes,
    DataFrame,
    SparkSession,
    partition_id,
    run_stream,
)

SCHEMA = "key long, task int, started_s double, cost_ms double"


ARROW = pa.schema(
    [
        ("key", pa.int64()),
        ("task", pa.int32()),
        ("started_s", pa.float64()),
        ("cost_ms", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Load:
    """A stream in files, with one file for each micro-batch.

    Attributes:
        keys: keys of the records of each micro-batch.
        costs_ms: costs of the records of each micro-batch; Penstock does not see them.
        slowdowns: pairs of the number of a batch and the instances' slowdowns from that batch on.
        slow_executors: slowdowns of executors, by their working folder (standalone and local
            clusters).
        sources: number of tasks that read and route a micro-batch.
    """

    keys: tuple[Int64, ...]
    costs_ms: tuple[Float64, ...]
    slowdowns: tuple[tuple[int, tuple[float, ...]], ...] = ()
    slow_executors: tuple[tuple[str, float], ...] = ()
    sources: int = 1

    @classmethod
    def of(cls, keys: Int64, costs_ms: Float64, batches: int) -> Self:
        """Cut a stream into batches of the same number of records."""
        parts = np.split(keys, batches), np.split(costs_ms, batches)
        return cls(keys=tuple(parts[0]), costs_ms=tuple(parts[1]))

    def last(self, batches: int) -> Self:
        """Return a load with the last batches only."""
        return replace(self, keys=self.keys[-batches:], costs_ms=self.costs_ms[-batches:])

    def ideal_ms(self, instances: int) -> Float64:
        """Return the ideal duration of each batch: mean work of an instance, or longest record."""
        return np.array([max(c.sum() / instances, c.max()) for c in self.costs_ms])


@dataclass(frozen=True)
class BatchTrial:
    """Measurements of one contender.

    Attributes:
        name: name of the contender.
        duration_ms: duration of each batch, with Spark's own overhead.
        busy_ms: busy time of each slot in each batch; one row for each batch.
        records: number of records that came out.
        wall_ms: time from the start of each batch to the start of the next one.
        memory: mean number of instances that a key has been on.
        results: results of each batch: key, task, start and cost of each record.
    """

    name: str
    duration_ms: Float64
    busy_ms: Float64
    records: int
    wall_ms: Float64 = field(default_factory=lambda: np.zeros(0))
    memory: float = 1.0
    results: tuple[pa.Table, ...] = ()

    def settled(self, warm_up: int) -> Float64:
        """Return the durations without the first batches, which load kernels and learn costs."""
        return self.duration_ms[warm_up:]

    def stage_ms(self) -> Float64:
        """Return the time from the start of the first call to the end of the last, by batch."""
        return np.array([_stage_ms(rows) for rows in self.results])

    def busiest_over_mean(self, warm_up: int) -> float:
        """Return the busy time of the busiest slot over the mean one; mean over batches."""
        busy = self.busy_ms[warm_up:]
        return float((busy.max(axis=1) / busy.mean(axis=1)).mean())


# A way to distribute the records of a stream. It receives the frame, the load and the number of
# instances, and returns the frame after the operator.
Contender = Callable[[DataFrame, Load, int], DataFrame]

# Receives the name of a contender, the number of finished batches, and the number of all batches.
Progress = Callable[[str, int, int], None]


def by_repartition(partitions: int) -> Contender:
    """Return Spark's `repartition`: tasks receive records in turn."""

    def share(frame: DataFrame, load: Load, _: int) -> DataFrame:
        return frame.repartition(partitions).mapInArrow(_plain(sleeping(load)), SCHEMA)

    return share


def by_key(frame: DataFrame, load: Load, instances: int) -> DataFrame:
    """Distribute records by hashing their keys, as Spark does for keyed work."""
    return frame.repartition(instances, "key").mapInArrow(_plain(sleeping(load)), SCHEMA)


class ByPenstock:
    """Penstock's `balance`."""

    def __init__(self, grouping: str | Grouping = "factoring") -> None:
        self._grouping = grouping
        self._operators: list[BalanceOperator] = []

    def __call__(self, frame: DataFrame, load: Load, instances: int) -> DataFrame:
        """Distribute records by their estimated costs."""
        given = self._grouping
        own = given.instances if isinstance(given, Grouping) else instances
        operator = balance(sleeping(load), key="key", schema=SCHEMA, instances=own, grouping=given)
        self._operators.append(operator)
        return frame.transform(operator)

    def close(self) -> None:
        """Close all operators: the files of their learned state are about to be removed."""
        for operator in self._operators:
            operator.close()


def sleeping(load: Load) -> Callable[[dict[str, Any]], dict[str, float]]:
    """Return the operator: it sleeps for the cost of the record on this instance."""
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
        began_s = time.time() - spent / 1000
        return {"key": record["key"], "task": instance, "started_s": began_s, "cost_ms": spent}

    return work


def _plain(
    work: Callable[[dict[str, Any]], dict[str, float]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that applies an operator to every record."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([work(r) for r in batch.to_pylist()], ARROW)

    return run


def silent(name: str, done: int, total: int) -> None:
    """Report no progress."""


def try_out(
    spark: SparkSession,
    load: Load,
    contenders: dict[str, Contender],
    *,
    instances: int,
    progress: Progress = silent,
) -> list[BatchTrial]:
    """Run the same stream through all contenders, one after the other.

    Args:
        spark: session with at least as many slots as instances.
        load: stream to run.
        contenders: ways to distribute records, by name.
        instances: number of tasks that share the work.
        progress: function that receives the name of the contender, and the number of finished
            batches and of all batches.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        _write(load, source)
        trials = []
        for name, contender in contenders.items():
            stream = _Stream(spark=spark, load=load, source=source, checkpoint=Path(folder, name))
            trials.append(stream.through(name, contender, instances, progress=progress))
        return trials


def _write(load: Load, source: Path) -> None:
    """Write the files of a load; their times are a second apart, because Spark reads by time."""
    first_s = time.time() - len(load.keys)
    for number, (keys, costs_ms) in enumerate(zip(load.keys, load.costs_ms, strict=True)):
        batch = np.full(len(keys), number)
        table = pa.table({"key": keys, "batch": batch, "cost_ms": costs_ms})
        for part in range(load.sources):
            file = source / f"{number:06}-{part:03}.parquet"
            pq.write_table(table.take(np.arange(part, len(keys), load.sources)), file)
            os.utime(file, (first_s + number, first_s + number))


@dataclass(frozen=True)
class _Stream:
    """The files of a load, ready to run."""

    spark: SparkSession
    load: Load
    source: Path
    checkpoint: Path

    def through(
        self, name: str, contender: Contender, instances: int, *, progress: Progress
    ) -> BatchTrial:
        """Run the stream through one contender."""
        total = len(self.load.keys)
        seen: list[pa.Table] = []

        def sink(rows: pa.Table) -> None:
            seen.append(rows)
            progress(name, len(seen), total)

        progress(name, 0, total)
        times = run_stream(
            self.spark,
            self.source,
            "key long, batch long, cost_ms double",
            operator=lambda frame: contender(frame, self.load, instances),
            checkpoint=self.checkpoint,
            sink=sink,
            files=self.load.sources,
            name=name,
        )
        if isinstance(contender, ByPenstock):
            contender.close()
        return _measured(name, times, seen, instances=instances)


def _measured(name: str, times: BatchTimes, seen: list[pa.Table], *, instances: int) -> BatchTrial:
    """Return the measurements of a stream, from the results of its batches."""
    done = pa.concat_tables(seen)
    places = done.select(["key", "task"]).group_by(["key", "task"]).aggregate([])
    keys = len(done["key"].unique())
    return BatchTrial(
        name=name,
        duration_ms=times.duration_ms,
        busy_ms=np.array([_busy_slots(rows, instances) for rows in seen]),
        records=done.num_rows,
        wall_ms=times.wall_ms,
        memory=places.num_rows / keys if keys else 1.0,
        results=tuple(seen),
    )


def _stage_ms(rows: pa.Table) -> float:
    started_s = rows["started_s"].to_numpy()
    ended_s = started_s + rows["cost_ms"].to_numpy() / 1000
    return 1000 * float(ended_s.max() - started_s.min())


def _busy_slots(rows: pa.Table, slots: int) -> Float64:
    """Return how long each slot was busy with the records of a batch."""
    ended_s = pc.add(rows["started_s"], pc.divide(rows["cost_ms"], 1000))
    wanted = [("started_s", "min"), ("ended_s", "max"), ("cost_ms", "sum")]
    tasks = rows.append_column("ended_s", ended_s).group_by("task").aggregate(wanted)
    busy_ms, occupancy = np.zeros(slots), Occupancy(slots)
    for task in tasks.sort_by("ended_s_max").to_pylist():
        slot, _ = occupancy.add("", task["started_s_min"], task["ended_s_max"])
        busy_ms[slot] += task["cost_ms_sum"]
    return busy_ms
