"""How much does `penstock.balance` cost on Spark if there is nothing to gain?

A function that does nothing runs with `penstock.balance`, and after `repartition(k)`. Then many
small batches show how much the control loop adds to each, and whether the driver's memory grows.
"""

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

import penstock
from common import Options, new_table, write_report
from penstock.spark.lab import session

INSTANCES = 8
PLAIN, PENSTOCK = "repartition", "factoring"
# `round_robin` decides nothing: its ratio is that of a router and a shuffle alone.
GROUPINGS = (PENSTOCK, "posg", "round_robin")
# Time of the default grouping over that of `repartition`, with narrow and with wide rows.
GOALS = (0.80, 0.90)
# Number of runs or batches that are not counted, unless fewer are: code is compiled in them. A
# stream runs for days; after one run only, the ratio of narrow rows was still higher by a quarter.
WARM_UP = 5


def nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def plain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield nothing(batch)


def seconds(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def compare(frame: DataFrame, runs: int) -> dict[str, float]:
    ways: dict[str, Callable[[DataFrame], DataFrame]] = {
        PLAIN: lambda rows: rows.repartition(INSTANCES).mapInArrow(plain, rows.schema),
        **{
            name: penstock.balance(
                nothing, key="key", schema=frame.schema, instances=INSTANCES, grouping=name
            )
            for name in GROUPINGS
        },
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(min(WARM_UP, runs) + runs):
        for name, way in ways.items():
            times[name].append(seconds(frame.transform(way)))
    return {name: statistics.median(found[-runs:]) for name, found in times.items()}


def memory_mb() -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def small_batches(spark: SparkSession, batches: int) -> dict[str, float]:
    """Run many small batches, and measure routers and the memory of the driver."""
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
                raise RuntimeError(f"the query has failed: {query.exception()}")
            done = query.lastProgress.batchId if query.lastProgress else 0
            for mark in (max(1, batches // 10), batches):
                if done >= mark and mark not in memory:
                    memory[mark] = memory_mb()
                    early = early or operator.stats()
        stats = operator.stats()
        since = max(1, stats.batches - early.batches)
        tasks = spark.sparkContext.defaultParallelism * since
        spark.sparkContext.setLogLevel("OFF")  # the query is stopped in the middle of a batch
        query.stop()
        spark.sparkContext.setLogLevel("ERROR")
        operator.close()
    return {
        "batches": stats.batches,
        "router_ms": (stats.router_ms - early.router_ms) / tasks,
        "driver_mb_early": min(memory.items())[1],
        "driver_mb_late": memory[batches],
        "fallbacks": stats.fallbacks,
    }


class Stepped:
    """A query that runs one small batch on request."""

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
        """Run a batch of ten records, and return its duration in milliseconds."""
        written = self._files.with_name("next")
        written.write_text("".join(f"{value}\n" for value in range(10)))
        written.rename(self._files / str(self._steps))
        self._query.processAllAvailable()
        progress = [p for p in self._query.recentProgress if p.batchId == self._steps]
        self._steps += 1
        return float(progress[0].durationMs["triggerExecution"])

    def stop(self) -> None:
        self._query.stop()
        self._operator.close()


def idle_loop(spark: SparkSession, turns: int, steps: int) -> dict[str, float]:
    """Compare batches routed with a control loop and without one; both go through a router.

    Two queries take turns, batch by batch, so other load of the machine and a warming JVM affect
    both. Two such queries also differ by chance while they run, so there are several pairs.
    """
    pairs = [_medians(spark, steps, posg_first=turn % 2 == 0) for turn in range(-1, turns)]
    without, with_loop = np.array(pairs[1:]).T  # the JVM warms up in the first pair
    added = with_loop - without
    return {
        "without_loop_ms": float(without.mean()),
        "with_loop_ms": float(with_loop.mean()),
        "added_ms": float(added.mean()),
        "added_se_ms": float(added.std(ddof=1) / turns**0.5),
    }


def _medians(spark: SparkSession, steps: int, posg_first: bool) -> tuple[float, float]:
    """Return the median duration of a batch in a pair of queries, without and with a loop."""
    names = sorted(("round_robin", "posg"), reverse=not posg_first)
    with TemporaryDirectory(prefix="penstock-") as folder:
        ways = {name: Stepped(spark, Path(folder, name), name) for name in names}
        taken_ms: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(min(WARM_UP, steps) + steps):
            for name in names:
                taken_ms[name].append(ways[name].step())
        for one in ways.values():
            one.stop()
    found = {name: float(np.median(taken[-steps:])) for name, taken in taken_ms.items()}
    return found["round_robin"], found["posg"]


def rows_of(spark: SparkSession, narrow: int, wide: int) -> dict[str, DataFrame]:
    """Return narrow rows, and rows of 1 KB, by their description."""
    key = (sf.col("id") % 4096).alias("key")
    text = sf.repeat(sf.sha2(sf.col("id").cast("string"), 256), 16).alias("text")
    return {
        f"{narrow:,} narrow rows": spark.range(narrow).select(key, "id"),
        f"{wide:,} rows of 1 KB": spark.range(wide).select(key, text),
    }


def show_ratios(found: dict[str, dict[str, float]], runs: int) -> None:
    table = new_table(
        f"nothing to do, {INSTANCES} instances, median of {runs} runs",
        labels=("rows", "way"),
        numbers=("s", "over repartition", "goal"),
    )
    for (rows, taken_s), goal in zip(found.items(), GOALS, strict=True):
        for way, time_s in taken_s.items():
            shown = f"{goal:.2f}" if way == PENSTOCK else ""
            table.add_row(rows, way, f"{time_s:.2f}", f"{time_s / taken_s[PLAIN]:.2f}", shown)
    Console().print(table)


def show_loop(idle: dict[str, float], turns: int, steps: int) -> None:
    Console().print(
        f"{turns} x {steps} small batches: {idle['with_loop_ms']:.0f} ms with a control loop, "
        f"{idle['without_loop_ms']:.0f} ms without, {idle['added_ms']:+.1f} "
        f"+- {idle['added_se_ms']:.1f} ms (goal: under 5)"
    )


def show_driver(many: dict[str, float]) -> None:
    Console().print(
        f"a router works for {many['router_ms']:.1f} ms a batch; the driver has "
        f"{many['driver_mb_early']:.0f} MB after a tenth of {many['batches']} batches, "
        f"{many['driver_mb_late']:.0f} MB after all"
    )


def main() -> None:
    options = Options("overhead", __doc__)
    options.size("narrow", 5_000_000, 50_000, meaning="number of narrow rows")
    options.size("wide", 1_000_000, 10_000, meaning="number of rows of 1 KB")
    options.size("runs", 5, 1, meaning="number of timed runs with these rows")
    options.size("batches", 500, 4, meaning="number of small batches for the driver's memory")
    options.size("turns", 8, 2, meaning="number of pairs of queries, with and without a loop")
    options.size("steps", 40, 1, meaning="number of small batches of each of these queries")
    options.parser.add_argument(
        "--only-loop", action="store_true", help="measure only what the control loop adds"
    )
    args = options.parse()
    spark = session("local[2]", "penstock-overhead", spark__driver__memory="4g")
    if args.only_loop:
        show_loop(idle_loop(spark, args.turns, args.steps), args.turns, args.steps)
        return
    frames = rows_of(spark, args.narrow, args.wide)
    ratios = {name: compare(frame, args.runs) for name, frame in frames.items()}
    show_ratios(ratios, args.runs)
    many = small_batches(spark, args.batches)
    show_driver(many)
    idle = idle_loop(spark, args.turns, args.steps)
    show_loop(idle, args.turns, args.steps)
    write_report(args.json, {**ratios, "small batches": {**many, **idle}})


if __name__ == "__main__":
    main()
