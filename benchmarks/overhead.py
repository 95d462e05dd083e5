"""What does balancing cost on Spark if there is nothing to gain?

A function that does nothing, against `repartition(k)` and the same function, side by side; then
many small batches: what the control loop adds to each, and whether the driver's memory grows.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

import penstock
from penstock.spark.lab import session

INSTANCES = 8
# Batches that are not counted: code is loaded and compiled in them.
WARM_UP = 5


def nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def plain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield nothing(batch)


def seconds(make: Callable[[], DataFrame]) -> float:
    start = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def compare(frame: DataFrame, runs: int) -> dict[str, float]:
    operator = penstock.balance(nothing, key="key", schema=frame.schema, instances=INSTANCES)
    ways = {
        "repartition": lambda: frame.repartition(INSTANCES).mapInArrow(plain, frame.schema),
        "penstock": lambda: frame.transform(operator),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs + 1):
        for name, make in ways.items():
            times[name].append(seconds(make))
    median = {name: statistics.median(found[1:]) for name, found in times.items()}
    return {**median, "ratio": median["penstock"] / median["repartition"]}


def memory_mb() -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def small_batches(spark: SparkSession, batches: int) -> dict[str, float]:
    """Let many small batches follow one another, and look at the driver."""
    operator = penstock.balance(
        nothing,
        key="value",
        schema="timestamp timestamp, value long",
        instances=2,
        name="idle",
    )
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    memory: dict[int, float] = {}
    with TemporaryDirectory(prefix="penstock-") as folder:
        query = (
            source.transform(operator)
            .writeStream.format("noop")
            .option("checkpointLocation", folder)
            .start()
        )
        early = None
        while not memory or max(memory) < batches:
            time.sleep(0.2)
            if not query.isActive:
                raise RuntimeError(f"the query has ended: {query.exception()}")
            done = query.lastProgress.batchId if query.lastProgress else 0
            for mark in (batches // 10, batches):
                if done >= mark and mark not in memory:
                    memory[mark] = memory_mb()
                    early = early or operator.stats()
        stats = operator.stats()
        tasks = spark.sparkContext.defaultParallelism * (stats.batches - early.batches)
        spark.sparkContext.setLogLevel("OFF")  # it is stopped in the middle of a batch
        query.stop()
        spark.sparkContext.setLogLevel("ERROR")
        operator.close()
    return {
        "batches": stats.batches,
        "router_ms": (stats.router_ms - early.router_ms) / tasks,
        "driver_mb_early": memory[batches // 10],
        "driver_mb_late": memory[batches],
        "fallbacks": stats.fallbacks,
    }


class Stepped:
    """A query that does one small batch when it is told to."""

    def __init__(self, spark: SparkSession, folder: Path, grouping: str) -> None:
        self._files = folder / "in"
        self._files.mkdir(parents=True)
        self._steps = 0
        self._operator = penstock.balance(
            nothing, key="value", schema="value string", instances=2, grouping=grouping
        )
        self._query = (
            spark.readStream.text(str(self._files))
            .transform(self._operator)
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def step(self) -> float:
        """Do a batch of ten records, and return how long it took in milliseconds."""
        written = self._files.with_name("next")
        written.write_text("".join(f"{value}\n" for value in range(10)))
        written.rename(self._files / str(self._steps))
        self._query.processAllAvailable()
        told = [p for p in self._query.recentProgress if p.batchId == self._steps]
        self._steps += 1
        return float(told[0].durationMs["triggerExecution"])

    def stop(self) -> None:
        self._query.stop()
        self._operator.close()


def idle_loop(spark: SparkSession, turns: int, steps: int) -> dict[str, float]:
    """Compare batches routed with a control loop and without one; both go through a router.

    Two queries take turns, batch by batch: whatever else slows a machine or warms a JVM meets both.
    Two such queries also differ by chance, for as long as they run: so there are several pairs.
    """
    pairs = [_medians(spark, steps, posg_first=turn % 2 == 0) for turn in range(-1, turns)]
    without, with_loop = np.array(pairs[1:]).T  # in the first one the JVM gets warm
    added = with_loop - without
    return {
        "without_loop_ms": float(without.mean()),
        "with_loop_ms": float(with_loop.mean()),
        "added_ms": float(added.mean()),
        "added_se_ms": float(added.std(ddof=1) / turns**0.5),
    }


def _medians(spark: SparkSession, steps: int, posg_first: bool) -> tuple[float, float]:
    """Return what a batch takes in a pair of queries, without and with a loop."""
    names = sorted(("round_robin", "posg"), reverse=not posg_first)
    with TemporaryDirectory(prefix="penstock-") as folder:
        ways = {name: Stepped(spark, Path(folder, name), name) for name in names}
        taken_ms: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(WARM_UP + steps):
            for name in names:
                taken_ms[name].append(ways[name].step())
        for one in ways.values():
            one.stop()
    found = {name: float(np.median(taken[WARM_UP:])) for name, taken in taken_ms.items()}
    return found["round_robin"], found["posg"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--narrow", type=int, default=5_000_000)
    parser.add_argument("--wide", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--turns", type=int, default=8, help="pairs of queries")
    parser.add_argument("--steps", type=int, default=40, help="small batches of each of them")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only-loop", action="store_true", help="only what the loop adds")
    parser.add_argument("--json", type=Path, default=Path("penstock-out/overhead.json"))
    args = parser.parse_args()
    spark = session("local[2]", "penstock-overhead", spark__driver__memory="4g")
    if args.only_loop:
        Console().print(idle_loop(spark, args.turns, args.steps))
        return
    narrow = spark.range(args.narrow).select((sf.col("id") % 4096).alias("key"), "id")
    text = sf.repeat(sf.sha2(sf.col("id").cast("string"), 256), 16)
    wide = spark.range(args.wide).select((sf.col("id") % 4096).alias("key"), text.alias("text"))
    report = {
        f"{args.narrow:,} narrow rows": compare(narrow, args.runs),
        f"{args.wide:,} rows of 1 KB": compare(wide, args.runs),
    }
    table = Table(
        title=f"nothing to do, {INSTANCES} instances, median of {args.runs} (goal: ratio <= 1)"
    )
    for column in ("rows", "repartition s", "penstock s", "ratio"):
        table.add_column(column, justify="left" if column == "rows" else "right")
    for name, found in report.items():
        table.add_row(name, *(f"{found[key]:.2f}" for key in ("repartition", "penstock", "ratio")))
    console = Console()
    console.print(table)
    many = small_batches(spark, args.batches)
    idle = report["small batches"] = {**many, **idle_loop(spark, args.turns, args.steps)}
    console.print(
        f"{args.turns} x {args.steps} small batches: {idle['with_loop_ms']:.0f} ms "
        f"with a control loop, {idle['without_loop_ms']:.0f} ms without: {idle['added_ms']:+.1f} "
        f"+- {idle['added_se_ms']:.1f} ms (goal: under 5); a router works for "
        f"{idle['router_ms']:.1f} ms a batch"
    )
    console.print(
        f"driver: {idle['driver_mb_early']:.0f} MB after a tenth of {idle['batches']} batches, "
        f"{idle['driver_mb_late']:.0f} MB after all"
    )
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
