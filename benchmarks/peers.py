"""How long does a stream of uneven costs take on other systems, on Spark, and with Penstock?

The stream of `stragglers.py`, 8 calls at a time everywhere; calls sleep, so this is latency-bound.
Systems without batches get the whole stream, Spark gets it in batches. Each peer runs in an
environment of its own, which is made in a cache folder. A peer that cannot be installed is
skipped, with the reason. Numbers are wall times over the ideal: from the first to the last record,
after a warm-up that counts for nobody. Ways take turns, seed by seed. At last the stream arrives at
its own pace, and the time from arrival to commit is measured.

    python benchmarks/peers.py
    python benchmarks/peers.py --peers bytewax --seeds 1 --total 6000
"""

import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console

import peer_latency
from common import Goal, Options, at_most, goal_columns, new_table, write_report
from peer_environments import PEERS, PeerError, cache, wall_s
from penstock.experiments.batch_trials import ByPenstock, Contender, Load, by_repartition, try_out
from penstock.sim import HeavyTailed, Stream
from penstock.spark.lab import session
from penstock.spark.lab.streams import SparkSession
from thread_pool import by_threads

PENSTOCK = "penstock"
NO_BATCHES = "no batches"
WARM_UP_BATCHES = 2
# Columns of the first table, and our goals for wall times in them.
GOALS: dict[str, Goal] = {"1,000": at_most(1.40), "5,000": at_most(1.08)}
LATENCY_GOAL = at_most(0.6)
LOAD = 0.85

Ratios = dict[tuple[str, str], list[float]]


def in_batches(stream: Stream, records: int, warm_up: int) -> Load:
    """Cut a stream into batches, after some small ones to warm up."""
    bounds = [*np.linspace(0, warm_up, WARM_UP_BATCHES + 1).astype(int)]
    bounds += [*range(warm_up + records, len(stream), records), len(stream)]
    parts = [slice(start, stop) for start, stop in pairwise(bounds)]
    return Load(
        keys=tuple(stream.keys[part] for part in parts),
        costs_ms=tuple(stream.costs_ms[part] for part in parts),
    )


def system(name: str) -> str:
    """Return the system of a row, such as flink."""
    return name.replace(",", " ").split()[0]


def ideal_ms(costs_ms: np.ndarray, slots: int) -> float:
    return float(max(costs_ms.sum() / slots, costs_ms.max()))


def spark_ways(slots: int) -> dict[str, Callable[[], Contender]]:
    shuffles = {f"spark, repartition({n * slots})": n * slots for n in (1, 2, 4, 8)}
    return {
        **{name: lambda n=n: by_repartition(n) for name, n in shuffles.items()},  # type: ignore[misc]
        f"spark, one task with {slots} threads": lambda: by_threads,
        PENSTOCK: ByPenstock,
    }


def on_spark(spark: SparkSession, load: Load, way: Contender, *, slots: int) -> float:
    """Return the wall time of all batches after the warm-up, over the ideal of their records."""
    (trial,) = try_out(spark, load, {"way": way}, instances=slots)
    assert trial.records == sum(map(len, load.keys))
    counted_ms = np.concatenate(load.costs_ms[WARM_UP_BATCHES:])
    return float(trial.wall_ms[WARM_UP_BATCHES:].sum()) / ideal_ms(counted_ms, slots)


def measure(args: Namespace, spark: SparkSession) -> tuple[Ratios, dict[str, str]]:
    """Run all ways in turn, with one stream after the other.

    Returns:
        The ratios of all runs, and the reasons why peers are missing.
    """
    found: Ratios = defaultdict(list)
    skipped: dict[str, str] = {}
    for seed in range(args.seeds):
        stream = HeavyTailed(records=args.warm_up + args.total).stream(seed)
        least_ms = ideal_ms(stream.costs_ms[args.warm_up :], args.slots)
        for name in [one for one in PEERS if system(one) in args.peers and one not in skipped]:
            try:
                taken_s = wall_s(
                    PEERS[name],
                    args.cache,
                    stream.costs_ms,
                    workers=args.slots,
                    warm_up=args.warm_up,
                )
            except PeerError as error:
                skipped[name] = str(error)
                continue
            found[name, NO_BATCHES].append(1000 * taken_s / least_ms)
        for records in args.records:
            load = in_batches(stream, records, args.warm_up)
            for name, make in spark_ways(args.slots).items():
                ratio = on_spark(spark, load, make(), slots=args.slots)
                found[name, f"{records:,}"].append(ratio)
    return found, skipped


def latencies(spark: SparkSession, *, slots: int, seconds: float, runs: int) -> dict[str, float]:
    """Return the mean latency of Spark's shuffle and of Penstock, which take turns."""
    ways = {
        f"spark, repartition({slots})": peer_latency.by_repartition,
        PENSTOCK: peer_latency.by_penstock,
    }
    taken_ms: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, make in ways.items():
            way = make(slots)
            taken_ms[name].append(
                peer_latency.latency_ms(spark, way, slots=slots, load=LOAD, seconds=seconds)
            )
    return {name: float(np.mean(values)) for name, values in taken_ms.items()}


def show(found: Ratios, skipped: dict[str, str], *, title: str) -> None:
    """Print a row for each way, and a line for each peer that is missing."""
    columns = list(dict.fromkeys(column for _, column in found))
    batched = [column for column in columns if column != NO_BATCHES]
    table = new_table(title, ["way"], [*(f"batches of {c}" for c in batched), NO_BATCHES])
    for name in dict.fromkeys(name for name, _ in found):
        cells = [found.get((name, column), []) for column in (*batched, NO_BATCHES)]
        table.add_row(name, *(span(values) for values in cells))
    console = Console()
    console.print(table)
    for name, reason in skipped.items():
        console.print(f"skipped: {name}: {reason}")
    against = new_table("Goals", ["wall time over the ideal"], ["measured", "goal", "reached"])
    for column in batched:
        ours = float(np.mean(found[PENSTOCK, column]))
        goal = GOALS.get(column)
        against.add_row(f"batches of {column}", f"{ours:.2f}", *goal_columns(goal, ours))
    console.print(against)


def span(values: list[float]) -> str:
    """Return mean, smallest and largest of some numbers."""
    if not values:
        return ""
    mean = f"{np.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def show_latencies(mean_ms: dict[str, float]) -> None:
    """Print latencies, and the ratio that has a goal."""
    table = new_table(f"From arrival to commit, load {LOAD:.0%}", ["way"], ["mean s"])
    for name, value in mean_ms.items():
        table.add_row(name, f"{value / 1000:.2f}")
    console = Console()
    console.print(table)
    theirs_ms, ours_ms = mean_ms.values()
    ratio = ours_ms / theirs_ms
    goal, reached = goal_columns(LATENCY_GOAL, ratio)
    console.print(f"penstock / repartition: {ratio:.2f}, goal {goal}, reached: {reached}")


def main() -> None:
    options = Options("peers", __doc__)
    options.size("slots", 8, 2, meaning="number of calls at a time")
    options.size("total", 20_000, 40, meaning="number of records of a stream")
    options.size("warm_up", 400, 10, meaning="number of records before these, which do not count")
    options.size("seeds", 3, 1, meaning="number of streams")
    options.size("seconds", 120, 3, meaning="length of the stream that arrives at its own pace")
    add = options.parser.add_argument
    add("--records", type=int, nargs="+", help="sizes of batches; 1,000 and 5,000 by default")
    add("--peers", nargs="*", help="flink, bytewax, ray; all by default, one with --quick")
    add("--cache", type=Path, default=cache(), help="folder of the peers' environments")
    args = options.parse()
    args.records = args.records or ([20] if args.quick else [1_000, 5_000])
    if args.peers is None:
        every = list(dict.fromkeys(map(system, PEERS)))
        args.peers = ["bytewax"] if args.quick else every
    began_s = time.monotonic()
    spark = session(f"local[{args.slots}]", "penstock-peers")
    found, skipped = measure(args, spark)
    title = f"{args.total:,} records: wall time over the ideal (latency-bound, {args.seeds} seeds)"
    show(found, skipped, title=title)
    mean_ms = latencies(spark, slots=args.slots, seconds=args.seconds, runs=args.seeds)
    show_latencies(mean_ms)
    runs = [{"way": way, "column": column, "ratios": r} for (way, column), r in found.items()]
    report = {"latency_bound": True, "runs": runs, "skipped": skipped, "latency_ms": mean_ms}
    write_report(args.json, {**report, "seconds": time.monotonic() - began_s})


if __name__ == "__main__":
    main()
