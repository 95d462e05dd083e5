"""What does balancing gain on Spark? Ways of sharing out the same stream, side by side.

Eight instances, batches of 1,000 records, 4,096 keys drawn from Zipf-1, each key with a cost of
its own of min(1 + 5 Pareto(1.3), 1000) ms. The operator sleeps: latency-bound. A second stream has
costs that do not depend on the key at all: there is nothing to learn, and nothing should be lost.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.experiments.demo import heavy_tailed
from penstock.experiments.streaming import (
    ByPenstock,
    Load,
    Trial,
    by_key,
    by_repartition,
    try_out,
)
from penstock.sim.workloads import zipf_keys
from penstock.spark import session

INSTANCES, RECORDS, KEYS = 8, 1_000, 4_096
PENSTOCK = "penstock"


def without_keys(batches: int) -> Load:
    """The same keys, and costs of 1 to 20 ms that have nothing to do with them."""
    rng = np.random.default_rng(1)
    keys = zipf_keys(rng, batches * RECORDS, KEYS, 1.0)
    return Load.of(keys, rng.uniform(1, 20, keys.size), batches)


def row(trial: Trial, ideal_ms: float, warm_up: int) -> dict[str, float | str]:
    settled = trial.settled(warm_up)
    return {
        "way": trial.name,
        "first_batch_ms": float(trial.duration_ms[0]),
        "batch_ms": float(settled.mean()),
        "to_ideal": float(settled.mean() / ideal_ms),
        "busiest_over_mean": trial.busiest_over_mean(warm_up),
        "records": trial.records,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/gain.json"))
    args = parser.parse_args()
    spark = session(f"local[{INSTANCES}]", "penstock-gain")
    ways = {
        "repartition(8)": by_repartition(8),
        "repartition(64)": by_repartition(64),
        "key hashing": by_key,
        PENSTOCK: ByPenstock(),
    }
    console = Console()
    report = {}
    streams = {
        "costs by key": (heavy_tailed(args.batches, RECORDS, KEYS), ways),
        "costs without keys": (
            without_keys(args.batches),
            {name: ways[name] for name in ("repartition(8)", PENSTOCK)},
        ),
    }
    for name, (load, wanted) in streams.items():
        ideal_ms = float(load.ideal_ms(INSTANCES)[args.warm_up :].mean())
        trials = try_out(spark, load, wanted, INSTANCES)
        rows = [row(trial, ideal_ms, args.warm_up) for trial in trials]
        best_ms = min(r["batch_ms"] for r in rows if r["way"] != PENSTOCK)
        table = Table(title=f"{name} (latency-bound), ideal {ideal_ms:.0f} ms a batch")
        columns = "first batch ms", "batch ms", "to ideal", "busiest / mean", "best other / this"
        for column in ("way", *columns):
            table.add_column(column, justify="left" if column == "way" else "right")
        for r in rows:
            ratio = best_ms / r["batch_ms"]
            numbers = (
                f"{r['batch_ms']:.0f}",
                f"{r['to_ideal']:.2f}",
                f"{r['busiest_over_mean']:.2f}",
            )
            table.add_row(r["way"], *numbers, f"{ratio:.2f}")
        console.print(table)
        report[name] = {"ideal_ms": ideal_ms, "latency_bound": True, "ways": rows}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
