"""What does balancing gain on Spark? Ways of sharing out the same stream, side by side.

Eight instances, batches of 1,000 records, 4,096 keys drawn from Zipf-1, each key with a cost of
its own of min(1 + 5 Pareto(1.3), 1000) ms. The operator sleeps: latency-bound. A second stream has
costs that do not depend on the key at all: there is nothing to learn, and nothing should be lost.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from penstock.experiments.batch_trials import (
    BatchTrial,
    ByPenstock,
    Contender,
    Load,
    by_key,
    by_repartition,
    try_out,
)
from penstock.experiments.demo import heavy_tailed
from penstock.sim.workloads import zipf_keys
from penstock.spark.lab import session

INSTANCES, RECORDS, KEYS = 8, 1_000, 4_096
PENSTOCK = "penstock"


def without_keys(batches: int) -> Load:
    """The same keys, and costs of 1 to 20 ms that have nothing to do with them."""
    rng = np.random.default_rng(1)
    keys = zipf_keys(rng, batches * RECORDS, KEYS, 1.0)
    return Load.of(keys, rng.uniform(1, 20, keys.size), batches)


def row(trial: BatchTrial, ideal_ms: float, measured: int) -> dict[str, float | str]:
    settled = trial.duration_ms[-measured:]
    return {
        "way": trial.name,
        "first_batch_ms": float(trial.duration_ms[0]),
        "batch_ms": float(settled.mean()),
        "to_ideal": float(settled.mean() / ideal_ms),
        "busiest_over_mean": trial.busiest_over_mean(len(trial.duration_ms) - measured),
        "records": trial.records,
    }


def compare(
    spark: SparkSession, load: Load, ways: dict[str, Contender], measured: int
) -> tuple[float, list[dict[str, float | str]]]:
    """Measure the last batches; only Penstock needs those before, to learn from."""
    others = {name: way for name, way in ways.items() if name != PENSTOCK}
    trials = try_out(spark, load.last(measured + 2), others, instances=INSTANCES)
    trials += try_out(spark, load, {PENSTOCK: ways[PENSTOCK]}, instances=INSTANCES)
    ideal_ms = float(load.last(measured).ideal_ms(INSTANCES).mean())
    return ideal_ms, [row(trial, ideal_ms, measured) for trial in trials]


def show(name: str, goal: str, ideal_ms: float, rows: list[dict[str, float | str]]) -> None:
    best_ms = min(r["batch_ms"] for r in rows if r["way"] != PENSTOCK)
    table = Table(title=f"{name} (latency-bound), ideal {ideal_ms:.0f} ms a batch; {goal}")
    columns = "first batch ms", "batch ms", "to ideal", "busiest / mean", "best other / this"
    for column in ("way", *columns):
        left = column == "way"
        table.add_column(column, justify="left" if left else "right", no_wrap=left)
    for r in rows:
        times = f"{r['first_batch_ms']:.0f}", f"{r['batch_ms']:.0f}"
        ratios = r["to_ideal"], r["busiest_over_mean"], best_ms / r["batch_ms"]
        table.add_row(r["way"], *times, *(f"{ratio:.2f}" for ratio in ratios))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learn", type=int, default=60, help="batches to learn from")
    parser.add_argument("--measure", type=int, default=10, help="batches to measure after that")
    parser.add_argument("--json", type=Path, default=Path("penstock-out/gain.json"))
    args = parser.parse_args()
    spark = session(f"local[{INSTANCES}]", "penstock-gain")
    ways: dict[str, Contender] = {
        "repartition(8)": by_repartition(8),
        "repartition(64)": by_repartition(64),
        "key hashing": by_key,
        PENSTOCK: ByPenstock(),
    }
    batches = args.learn + args.measure
    two = {name: ways[name] for name in ("repartition(8)", PENSTOCK)}
    streams = {
        "costs by key": (
            heavy_tailed(batches, RECORDS, distinct=KEYS),
            ways,
            "goal: penstock <= 1.2 of it, and 1.25 times faster than the best other way",
        ),
        "costs without keys": (
            without_keys(batches).last(args.measure + 20),
            two,
            "goal: penstock >= 0.97 times as fast",
        ),
    }
    report = {}
    for name, (load, wanted, goal) in streams.items():
        ideal_ms, rows = compare(spark, load, wanted, args.measure)
        show(name, goal, ideal_ms, rows)
        report[name] = {"ideal_ms": ideal_ms, "latency_bound": True, "ways": rows}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
