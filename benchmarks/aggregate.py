"""How much faster is `penstock.aggregate` than Spark's `groupBy` if an update is costly?

Eight tasks and Zipf keys. The update sleeps, as a call to a model or a database would, so the
benchmark is latency-bound. All ways run the same Python update on the same stream, and must return
exactly the same result.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from rich.console import Console

import penstock
from common import Options, new_table, write_report, yes_or_no
from penstock.sim import zipf_keys
from penstock.spark.lab import session

KEYS = 10_000
SCHEMA = "key long, count long, total long"
PENSTOCK = "penstock"
# Zipf exponents, and how many times as fast as the best other way Penstock should be.
GOALS = {1.4: 2.5, 1.8: 3.5}


class Score:
    """Counts and sums values; every update takes a while."""

    def __init__(self, cost_ms: float) -> None:
        self.cost_ms = cost_ms

    def zero(self) -> tuple[int, int]:
        return 0, 0

    def update(self, state: tuple[int, int], record: dict[str, Any]) -> tuple[int, int]:
        time.sleep(self.cost_ms / 1000)
        return state[0] + 1, state[1] + record["value"]

    def merge(self, state: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return state[0] + other[0], state[1] + other[1]

    def finish(self, state: tuple[int, int]) -> dict[str, int]:
        return {"count": state[0], "total": state[1]}


def _updated(
    score: Score, state: tuple[int, int], frames: Iterator[pd.DataFrame]
) -> tuple[int, int]:
    for frame in frames:
        for value in frame["value"].tolist():
            state = score.update(state, {"value": value})
    return state


def with_state(frame: DataFrame, score: Score) -> DataFrame:
    def run(
        key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        before = tuple(state.get) if state.exists else score.zero()
        after = _updated(score, before, frames)
        state.update(after)
        yield pd.DataFrame({"key": [key[0]], "count": [after[0]], "total": [after[1]]})

    return frame.groupBy("key").applyInPandasWithState(
        run, SCHEMA, "count long, total long", "update", GroupStateTimeout.NoTimeout
    )


class Processor(StatefulProcessor):
    """The same update for transformWithStateInPandas."""

    def __init__(self, score: Score) -> None:
        self.score = score

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("score", "count long, total long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timer_values: object
    ) -> Iterator[pd.DataFrame]:
        before = self.state.get() if self.state.exists() else self.score.zero()
        after = _updated(self.score, tuple(before), rows)
        self.state.update(after)
        yield pd.DataFrame({"key": [key[0]], "count": [after[0]], "total": [after[1]]})

    def close(self) -> None:
        pass


def transform_with_state(frame: DataFrame, score: Score) -> DataFrame:
    return frame.groupBy("key").transformWithStateInPandas(
        Processor(score), SCHEMA, "Update", "None"
    )


def by_penstock(frame: DataFrame, score: Score) -> DataFrame:
    slots = frame.sparkSession.sparkContext.defaultParallelism
    operator = penstock.aggregate(
        score, key="key", schema="count long, total long", instances=slots
    )
    return frame.transform(operator)


WAYS: dict[str, Callable[[DataFrame, Score], DataFrame]] = {
    "applyInPandasWithState": with_state,
    "transformWithStateInPandas": transform_with_state,
    PENSTOCK: by_penstock,
}


def possible_ways() -> list[str]:
    """Return the ways that this environment can run; print the reason for the others."""
    try:
        import google.protobuf  # noqa: F401, PLC0415 - may be missing
    except ImportError as error:
        Console().print(f"transformWithStateInPandas is skipped: it needs protobuf ({error})")
        return [way for way, run in WAYS.items() if run is not transform_with_state]
    return list(WAYS)


Counts = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Run:
    """A run of one way: the mean duration of its batches, and the last row of every key."""

    batch_ms: float
    counts: Counts


def run(spark: SparkSession, source: Path, way: str, *, score: Score) -> Run:
    """Run the stream through one way; the first batch is not timed."""
    frame = (
        spark.readStream.schema("key long, value long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(source))
    )
    last: Counts = {}

    def sink(batch: DataFrame, _: int) -> None:
        for row in batch.toArrow().to_pylist():
            last[row["key"]] = row["count"], row["total"]

    with TemporaryDirectory(prefix="penstock-") as checkpoint:
        query = (
            WAYS[way](frame, score)
            .writeStream.outputMode("update")
            .foreachBatch(sink)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = {p.batchId: p.durationMs["addBatch"] for p in query.recentProgress}
    times_ms = [progress[number] for number in sorted(progress)]
    return Run(float(np.mean(times_ms[1:])), last)


def write_stream(folder: Path, exponent: float, *, batches: int, records: int) -> float:
    """Write a file for each batch; return the share of the most frequent key."""
    rng = np.random.default_rng(1)
    keys = zipf_keys(rng, batches * records, KEYS, exponent=exponent)
    values = rng.integers(0, 1_000, keys.size)
    for number in range(batches):
        part = slice(number * records, (number + 1) * records)
        pq.write_table(
            pa.table({"key": keys[part], "value": values[part]}), folder / f"{number:04}.parquet"
        )
    return float(np.bincount(keys).max() / keys.size)


@dataclass(frozen=True)
class Comparison:
    """The runs of all ways for one stream.

    Attributes:
        runs: run of each way, by its name.
        top: share of the most frequent key.
        goal: ratio of the best other way's time to Penstock's that should be reached.
    """

    runs: dict[str, Run]
    top: float
    goal: float

    @property
    def best_other_ms(self) -> float:
        return min(one.batch_ms for way, one in self.runs.items() if way != PENSTOCK)

    @property
    def equal(self) -> bool:
        """Whether all ways return the same."""
        first, *others = (one.counts for one in self.runs.values())
        return all(counts == first for counts in others)

    def report(self, records: int, instances: int) -> dict[str, Any]:
        counts = self.runs[PENSTOCK].counts
        batch_ms = {way: one.batch_ms for way, one in self.runs.items()}
        return {
            "latency_bound": True,
            "batch_ms": batch_ms,
            "records_per_s": {way: 1000 * records / ms for way, ms in batch_ms.items()},
            "gain": self.best_other_ms / batch_ms[PENSTOCK],
            "goal": self.goal,
            "bound": instances * self.top + (1 - self.top),
            "keys": len(counts),
            "records": sum(count for count, _ in counts.values()),
            "equal": self.equal,
        }


def show(keys: str, comparison: Comparison, *, cost_ms: float, records: int) -> None:
    table = new_table(
        f"{keys} keys, {cost_ms:g} ms an update (latency-bound); "
        f"goal: penstock {comparison.goal:g} times as fast as the best other way",
        labels=("way",),
        numbers=("batch ms", "records/s", "best other / this", "equal"),
    )
    for way, one in comparison.runs.items():
        table.add_row(
            way,
            f"{one.batch_ms:.0f}",
            f"{1000 * records / one.batch_ms:,.0f}",
            f"{comparison.best_other_ms / one.batch_ms:.2f}",
            yes_or_no(comparison.equal),
        )
    Console().print(table)


def main() -> None:
    options = Options("aggregate", __doc__)
    options.size("instances", 8, 2, meaning="number of tasks that share the work")
    options.size("records", 6_000, 100, meaning="number of records of a batch")
    options.size("batches", 3, 2, meaning="number of batches; the first is not timed")
    options.size("cost_ms", 5.0, 1.0, meaning="duration of an update")
    args = options.parse()
    ways = possible_ways()
    spark = session(
        f"local[{args.instances}]",
        "penstock-aggregate",
        spark__sql__shuffle__partitions=str(args.instances),
        spark__sql__streaming__stateStore__providerClass=(
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    )
    found: dict[str, Comparison] = {}
    for exponent, goal in list(GOALS.items())[: 1 if args.quick else None]:
        with TemporaryDirectory(prefix="penstock-") as name:
            folder = Path(name)
            top = write_stream(folder, exponent, batches=args.batches, records=args.records)
            runs = {way: run(spark, folder, way, score=Score(args.cost_ms)) for way in ways}
        found[f"Zipf-{exponent}"] = Comparison(runs, top, goal)
    for keys, comparison in found.items():
        show(keys, comparison, cost_ms=args.cost_ms, records=args.records)
    report = {keys: one.report(args.records, args.instances) for keys, one in found.items()}
    write_report(args.json, report)


if __name__ == "__main__":
    main()
