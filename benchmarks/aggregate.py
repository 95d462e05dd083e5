"""Keyed aggregation with a costly update: `groupBy` of Spark against `penstock.aggregate`.

Eight tasks and Zipf keys. The update sleeps (it stands for a call to a model or a database):
latency-bound. All ways run the same Python update on the same stream, and must give exactly the
same result.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
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
from rich.table import Table

import penstock
from penstock.sim import zipf_keys
from penstock.spark.lab import session

INSTANCES, KEYS = 8, 10_000
SCHEMA = "key long, count long, total long"
# Zipf exponents, and how many times faster than the best other way it should be.
GOALS = {1.4: 2.5, 1.8: 3.5}


class Score:
    """Count and sum of values, after something that takes its time."""

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
    """The same for transformWithStateInPandas."""

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
    operator = penstock.aggregate(
        score, key="key", schema="count long, total long", instances=INSTANCES
    )
    return frame.transform(operator)


WAYS: dict[str, Callable[[DataFrame, Score], DataFrame]] = {
    "applyInPandasWithState": with_state,
    "transformWithStateInPandas": transform_with_state,
    "penstock": by_penstock,
}

Counts = dict[int, tuple[int, int]]


def run(spark: SparkSession, source: Path, way: str, score: Score) -> tuple[list[float], Counts]:
    """Return the durations of the batches, and the last row of every key."""
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
    return [float(progress[i]) for i in sorted(progress)], last


def write_stream(folder: Path, exponent: float, batches: int, records: int) -> float:
    """Write a file a batch; return the share of the most frequent key."""
    rng = np.random.default_rng(1)
    keys = zipf_keys(rng, batches * records, KEYS, exponent=exponent)
    values = rng.integers(0, 1_000, keys.size)
    for number in range(batches):
        part = slice(number * records, (number + 1) * records)
        pq.write_table(
            pa.table({"key": keys[part], "value": values[part]}), folder / f"{number:04}.parquet"
        )
    return float(np.bincount(keys).max() / keys.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=6_000, help="records of a batch")
    parser.add_argument("--batches", type=int, default=3, help="batches; the first is left out")
    parser.add_argument("--cost-ms", type=float, default=5.0, help="what an update takes")
    parser.add_argument("--json", type=Path, default=Path("penstock-out/aggregate.json"))
    args = parser.parse_args()
    spark = session(
        f"local[{INSTANCES}]",
        "penstock-aggregate",
        spark__sql__shuffle__partitions=str(INSTANCES),
        spark__sql__streaming__stateStore__providerClass=(
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    )
    report: dict[str, Any] = {}
    for exponent, goal in GOALS.items():
        with TemporaryDirectory(prefix="penstock-") as folder:
            top = write_stream(Path(folder), exponent, args.batches, args.records)
            found = {way: run(spark, Path(folder), way, Score(args.cost_ms)) for way in WAYS}
        batch_ms = {way: float(np.mean(times[1:])) for way, (times, _) in found.items()}
        results = [counts for _, counts in found.values()]
        best_ms = min(ms for way, ms in batch_ms.items() if way != "penstock")
        report[f"zipf-{exponent}"] = {
            "latency_bound": True,
            "batch_ms": batch_ms,
            "records_per_s": {way: 1000 * args.records / ms for way, ms in batch_ms.items()},
            "gain": best_ms / batch_ms["penstock"],
            "goal": goal,
            "bound": INSTANCES * top + (1 - top),
            "keys": len(results[0]),
            "records": sum(count for count, _ in results[0].values()),
            "equal": all(counts == results[0] for counts in results),
        }
    table = Table(title=f"keyed aggregation, {args.cost_ms:g} ms an update (latency-bound)")
    for column in ("keys", "way", "batch ms", "records/s", "best other / this", "goal", "equal"):
        left = column in ("keys", "way")
        table.add_column(column, justify="left" if left else "right", no_wrap=left)
    for name, one in report.items():
        best_ms = min(ms for way, ms in one["batch_ms"].items() if way != "penstock")
        for way, ms in one["batch_ms"].items():
            rate = f"{one['records_per_s'][way]:,.0f}"
            goal = f"{one['goal']:g}" if way == "penstock" else ""
            equal = "yes" if one["equal"] else "NO"
            table.add_row(name, way, f"{ms:.0f}", rate, f"{best_ms / ms:.2f}", goal, equal)
    Console().print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
