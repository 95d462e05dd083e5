"""How much faster is a stateful query if `penstock.attach(place=...)` balances its state?

A query with 40 key groups of uneven cost (latency-bound: they sleep) starts unevenly on the four
executors of a local cluster. Without Penstock it stays so; then the same query runs with
`penstock.attach`. Every record must be counted exactly once.

    python benchmarks/place.py
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from common import Options, new_table, write_report, yes_or_no
from keygroups import cluster_session, hint_start, processed, read_files, tasks_of_jobs
from penstock.placement import Albic, Placer
from penstock.plots import style

KEYS_PER_GROUP = 4


def costs_s(work_s: float, key_groups: int) -> np.ndarray:
    """Return the cost of each key group in a batch: Zipf's law with exponent 0.8."""
    weights = 1 / np.arange(1, key_groups + 1) ** 0.8
    return work_s * weights / weights.sum()


def count(key: tuple, batches: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count records by key, and sleep for the cost of the records."""
    rows = pd.concat(batches)
    total = (state.get[0] if state.exists else 0) + len(rows)
    state.update((total,))
    time.sleep(float(rows["cost_s"].sum()))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


@dataclass
class Sink:
    """Keeps the rows and the duration of each batch; the first batch starts unevenly."""

    spark: SparkSession
    rows: list[tuple[int, int]] = field(default_factory=list)
    taken_s: list[float] = field(default_factory=list)

    def __call__(self, batch: DataFrame, number: int) -> None:
        if number <= 1:
            hint_start(self.spark, unevenly)
        start = time.monotonic()
        self.rows += [(row.key, row.total) for row in batch.collect()]
        self.taken_s.append(time.monotonic() - start)


def unevenly(operator: int, partition: int) -> int:
    """Return an executor for a key group: the first one for half of them, others in turn."""
    return 0 if partition % 2 else partition // 2


def write_stream(
    spark: SparkSession, folder: Path, *, batches: int, key_groups: int, work_s: float
) -> None:
    """Write a file for each batch: every key once."""
    part = sf.expr(f"pmod(hash(id), {key_groups})").alias("part")
    rows = spark.range(KEYS_PER_GROUP * key_groups).select("id", part).toPandas()
    per_group = rows.groupby("part")["id"].transform("size")
    cost = costs_s(work_s, key_groups)[rows["part"]] / per_group
    table = pa.table({"key": rows["id"].to_numpy(), "cost_s": cost.to_numpy()})
    folder.mkdir()
    for number in range(batches):
        pq.write_table(table, folder / f"{number:04}.parquet")


@dataclass(frozen=True)
class Busy:
    """A batch: its start in milliseconds since 1970, and the busy time of each executor."""

    began_ms: float
    executor_ms: Counter[str]


def busy_in(spark: SparkSession, query: StreamingQuery) -> list[Busy]:
    """Return the busy times of executors with key groups in each batch."""
    found = []
    for job, by_operator in tasks_of_jobs(spark, query):
        executor_ms: Counter[str] = Counter()
        for task in by_operator[0]:
            executor_ms[task["executorId"]] += task["taskMetrics"]["executorRunTime"]
        found.append(Busy(job.began_ms, executor_ms))
    return found


def busiest_over_mean(batches: list[Busy], executors: int) -> float:
    """Return the busy time of the busiest executor over that of the mean one."""
    total: Counter[str] = sum((one.executor_ms for one in batches), Counter())
    return max(total.values()) / (total.total() / executors) if total else float("nan")


@dataclass(frozen=True, kw_only=True)
class Run:
    """The outcome of a run.

    Attributes:
        name: name of the run.
        taken_s: duration of each batch.
        exact: whether every record was counted exactly once.
        moved: number of key groups that have moved.
        plans: journal entries of the plans.
        batches: busy times in each batch.
        executors: number of executors.
    """

    name: str
    taken_s: list[float]
    exact: bool
    moved: int
    plans: list[dict[str, Any]]
    batches: list[Busy]
    executors: int

    def last_s(self, last: int) -> float:
        """Return the mean duration of the last batches."""
        return float(np.mean(self.taken_s[-last:]))

    def busiest_around_plans(self) -> list[float]:
        """Return the busiest executor over the mean one before the first plan, and after each."""
        ends = [0.0, *(1000 * one["time"] for one in self.plans), float("inf")]
        return [
            busiest_over_mean(
                [one for one in self.batches if start <= one.began_ms < stop], self.executors
            )
            for start, stop in pairwise(ends)
        ]

    def report(self) -> dict[str, object]:
        return {
            "run": self.name,
            "taken_s": self.taken_s,
            "exact": self.exact,
            "moved": self.moved,
            "busiest": self.busiest_around_plans(),
            "plans": [plan["reason"] for plan in self.plans],
        }


def run(
    spark: SparkSession, name: str, placer: Placer | None, *, batches: int, args: argparse.Namespace
) -> Run:
    sink = Sink(spark)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        write_stream(
            spark,
            folder / "in",
            batches=batches,
            key_groups=args.key_groups,
            work_s=args.work_s,
        )
        records = read_files(spark, folder / "in", "key long, cost_s double")
        counted = records.groupBy("key").applyInPandasWithState(
            count, "key long, total long", "total long", "update", "NoTimeout"
        )
        period = f"{args.period_s} s"
        with processed(
            counted, sink, folder / "checkpoint", mode="update", placer=placer, period=period
        ) as done:
            keys = range(KEYS_PER_GROUP * args.key_groups)
            expected = [(key, total) for key in keys for total in range(1, batches + 1)]
            return Run(
                name=name,
                taken_s=sink.taken_s,
                exact=sorted(sink.rows) == expected,
                moved=done.moved,
                plans=done.plans,
                batches=busy_in(spark, done.query),
                executors=args.executors,
            )


def draw(runs: list[Run], target: Path) -> None:
    """Draw the busy times of executors in each batch; after a plan the lines come together."""
    figure, panels = style.panels(2, 1, (9, 6))
    longest = max(len(one.batches) for one in runs)
    for panel, one in zip(panels, runs, strict=True):
        names = sorted({name for batch in one.batches for name in batch.executor_ms})
        for name in names:
            seconds = [batch.executor_ms[name] / 1000 for batch in one.batches]
            panel.step(range(len(seconds)), seconds, where="mid", label=f"executor {name}")
        for plan in one.plans:
            began = sum(batch.began_ms < 1000 * plan["time"] for batch in one.batches)
            panel.axvline(began - 0.5, color=style.GREY, linestyle=":")
        panel.set_title(one.name)
        panel.set(xlim=(-0.5, longest - 0.5), ylabel="busy time (s)")
        panel.set_ylim(bottom=0)
        style.whole_numbers(panel.xaxis)
    panels[1].set_xlabel("batch (dotted line: a plan)")
    style.legend_below(figure, panels)
    style.headline(figure, "Busy time of executors while key groups move (latency-bound)")
    target.write_bytes(style.png(figure))


def show(alone: Run, placed: Run, *, last: int, key_groups: int) -> None:
    table = new_table(
        f"{key_groups} key groups, {alone.executors} executors (latency-bound)",
        labels=("run",),
        numbers=(f"last {last} batches, s", "busiest / mean", "exactly once", "moved"),
    )
    for one in (alone, placed):
        busiest = busiest_over_mean(one.batches[-last:], one.executors)
        exact = yes_or_no(one.exact)
        table.add_row(one.name, f"{one.last_s(last):.2f}", f"{busiest:.2f}", exact, str(one.moved))
    console = Console()
    console.print(table)
    ratio = alone.last_s(last) / placed.last_s(last)
    console.print(f"batches {ratio:.2f} times as fast (goal 1.4)")
    shown = ", ".join(f"{one:.2f}" for one in placed.busiest_around_plans())
    console.print(f"busiest / mean before and after each plan: {shown} (goal 1.10 after five)")
    for plan in placed.plans:
        console.print(plan["reason"])


def main() -> None:
    options = Options("place", __doc__)
    options.size("executors", 4, 2, meaning="number of executors")
    options.size("key_groups", 40, 4, meaning="number of key groups")
    options.size("alone_batches", 10, 2, meaning="number of batches of the query left alone")
    options.size("batches", 32, 4, meaning="number of batches of the query with attach")
    options.size("last", 6, 2, meaning="number of batches that are measured, the last ones")
    options.size("work_s", 6.0, 1.0, meaning="work of a batch in seconds, over all executors")
    options.size("period_s", 10.0, 2.0, meaning="time between two plans")
    args = options.parse()
    spark = cluster_session("penstock-place", args.key_groups, args.executors)
    alone = run(spark, "left alone", None, batches=args.alone_batches, args=args)
    placed = run(spark, "attach", Albic(max_migrations=10), batches=args.batches, args=args)
    show(alone, placed, last=args.last, key_groups=args.key_groups)
    ratio = alone.last_s(args.last) / placed.last_s(args.last)
    write_report(args.json, {"ratio": ratio, "runs": [alone.report(), placed.report()]})
    draw([alone, placed], args.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
