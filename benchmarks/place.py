"""Does a stateful query get faster if its state moves to where there is room?

A query with 40 key groups of uneven cost (latency-bound: they sleep) begins unevenly on the four
executors of a local cluster: left alone, it stays so. Then the same query with `penstock.attach`.
Every record must be counted exactly once.

    python benchmarks/place.py
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import penstock
from keygroups import begin, tasks
from penstock.spark.driver.attachment import Attachment
from penstock.spark.lab import session

EXECUTORS = 4
GROUPS = 40
KEYS = 160
# Work of a batch in seconds, over all executors.
WORK_S = 6.0
# A query that is left alone stays as it is.
BATCHES = {"left alone": 10, "attach": 32}
LAST = 6


def costs_s() -> np.ndarray:
    """What the key groups take in a batch: as uneven as Zipf's law with exponent 0.8."""
    weights = 1 / np.arange(1, GROUPS + 1) ** 0.8
    return WORK_S * weights / weights.sum()


def count(key: tuple, batches: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count records by key, and take as long as the key's group costs."""
    rows = pd.concat(batches)
    total = (state.get[0] if state.exists else 0) + len(rows)
    state.update((total,))
    time.sleep(float(rows["cost_s"].sum()))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


@dataclass
class Sink:
    """Keeps what batches return, and how long they take; the first one begins unevenly."""

    spark: SparkSession
    seen: list[tuple[int, int]] = field(default_factory=list)
    taken_s: list[float] = field(default_factory=list)

    def __call__(self, batch: DataFrame, number: int) -> None:
        if number <= 1:
            begin(self.spark, unevenly)
        start = time.monotonic()
        self.seen += [(row.key, row.total) for row in batch.collect()]
        self.taken_s.append(time.monotonic() - start)


def unevenly(operator: int, partition: int) -> int:
    """Half of the key groups on the first executor, the others in turn."""
    return 0 if partition % 2 else partition // 2


def feed(spark: SparkSession, folder: Path, batches: int) -> None:
    """One file a batch: every key once."""
    keys = spark.range(KEYS).select("id", sf.expr(f"pmod(hash(id), {GROUPS})").alias("part"))
    rows = keys.toPandas()
    per_group = rows.groupby("part")["id"].transform("size")
    cost = costs_s()[rows["part"]] / per_group
    table = pa.table({"key": rows["id"].to_numpy(), "cost_s": cost.to_numpy()})
    folder.mkdir()
    for number in range(batches):
        pq.write_table(table, folder / f"{number:04}.parquet")


@dataclass(frozen=True)
class Busy:
    """A batch: when it began, in milliseconds since 1970, and for how long executors were busy."""

    began_ms: float
    executor_ms: Counter[str]


def busy_in(spark: SparkSession, query: StreamingQuery) -> list[Busy]:
    """Return for how long executors were busy with key groups in each batch."""
    found = []
    for job, by_operator in tasks(spark, query):
        executor_ms: Counter[str] = Counter()
        for task in by_operator[0]:
            executor_ms[task["executorId"]] += task["taskMetrics"]["executorRunTime"]
        found.append(Busy(job.began_ms, executor_ms))
    return found


def busiest(batches: list[Busy]) -> float:
    """Return the busiest executor over the mean one."""
    total: Counter[str] = sum((one.executor_ms for one in batches), Counter())
    return max(total.values()) / (total.total() / EXECUTORS) if total else float("nan")


def busiest_after_plans(batches: list[Busy], planned_ms: list[float]) -> list[float]:
    """Return the busiest executor over the mean one before the first plan, and after each."""
    ends = [0.0, *planned_ms, float("inf")]
    return [
        busiest([one for one in batches if start <= one.began_ms < stop])
        for start, stop in pairwise(ends)
    ]


@dataclass(frozen=True)
class BatchTrial:
    """What was seen of a run."""

    name: str
    taken_s: list[float]
    exact: bool
    plans: list[dict[str, Any]]
    moved: int
    batches: list[Busy]

    @property
    def last_s(self) -> float:
        return float(np.mean(self.taken_s[-LAST:]))

    @property
    def busiest(self) -> list[float]:
        """Before the first plan and after each, the busiest executor over the mean one."""
        return busiest_after_plans(self.batches, [1000 * one["time"] for one in self.plans])


def run(spark: SparkSession, name: str, placer: penstock.placement.Placer | None) -> BatchTrial:
    sink = Sink(spark)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        feed(spark, folder / "in", BATCHES[name])
        records = spark.readStream.schema("key long, cost_s double")
        records = records.option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        counted = records.groupBy("key").applyInPandasWithState(
            count, "key long, total long", "total long", "update", "NoTimeout"
        )
        query = (
            counted.writeStream.outputMode("update")
            .foreachBatch(penstock.with_placement(sink))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        attached: Attachment | None = None
        if placer is not None:
            attached = penstock.attach(query, place=placer, period="10 s")
        query.processAllAvailable()
        entries = attached.journal.entries() if attached else []
        moved = attached.stats().moved if attached else 0
        batches = busy_in(spark, query)
        query.stop()
    totals = range(1, BATCHES[name] + 1)
    expected = sorted((key, total) for key in range(KEYS) for total in totals)
    plans = [one for one in entries if one["kind"] == "plan" and one.get("moves")]
    return BatchTrial(name, sink.taken_s, sorted(sink.seen) == expected, plans, moved, batches)


def draw(trials: list[BatchTrial], target: Path) -> None:
    """Draw how long executors were busy in each batch: with a plan, bars come together."""
    mpl.use("Agg")
    figure, panels = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
    for panel, one in zip(panels, trials, strict=True):
        names = sorted({name for batch in one.batches for name in batch.executor_ms})
        for name in names:
            seconds = [batch.executor_ms[name] / 1000 for batch in one.batches]
            panel.step(range(len(seconds)), seconds, where="mid", label=f"executor {name}")
        for plan in one.plans:
            began = sum(batch.began_ms < 1000 * plan["time"] for batch in one.batches)
            panel.axvline(began - 0.5, color="grey", linestyle=":")
        panel.set_ylabel("busy, seconds")
        panel.set_title(one.name)
    panels[1].set_xlabel("batch (dotted: a plan)")
    panels[0].legend(ncols=EXECUTORS)
    figure.suptitle("Key groups that move to where there is room (latency-bound)")
    figure.savefig(target, dpi=120)


def plain(one: BatchTrial) -> dict[str, object]:
    """Return what is written down of a run."""
    return {
        "run": one.name,
        "taken_s": one.taken_s,
        "exact": one.exact,
        "moved": one.moved,
        "busiest": one.busiest,
        "plans": [plan["reason"] for plan in one.plans],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/place.json"))
    args = parser.parse_args()
    spark = session(
        f"local-cluster[{EXECUTORS},1,1024]",
        "penstock-place",
        spark__executor__memory="512m",
        spark__sql__shuffle__partitions=str(GROUPS),
        spark__locality__wait="10s",
    )
    ways = {"left alone": None, "attach": penstock.placement.Albic(max_migrations=10)}
    trials = [run(spark, name, placer) for name, placer in ways.items()]
    console = Console()
    table = Table(title=f"{GROUPS} key groups, {EXECUTORS} executors (latency-bound)")
    for column in ("run", f"last {LAST} batches, s", "busiest / mean", "exactly once", "moved"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for one in trials:
        at_end = f"{busiest(one.batches[-LAST:]):.2f}"
        row = f"{one.last_s:.2f}", at_end, str(one.exact), str(one.moved)
        table.add_row(one.name, *row)
    console.print(table)
    ratio = trials[0].last_s / trials[1].last_s
    console.print(f"batches {ratio:.2f} times as fast (goal 1.4)")
    shown = ", ".join(f"{one:.2f}" for one in trials[1].busiest)
    console.print(f"busiest / mean before and after each plan: {shown} (goal 1.10 after five)")
    for plan in trials[1].plans:
        console.print(plan["reason"])
    args.json.parent.mkdir(parents=True, exist_ok=True)
    draw(trials, args.json.with_suffix(".png"))
    report = {"ratio": ratio, "trials": [plain(one) for one in trials]}
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
