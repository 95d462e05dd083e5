"""How long is a stage if one executor of four takes twice as long for each call?

The stream of `stragglers.py` on a local cluster of four executors with two slots each. Calls sleep,
so this is latency-bound; those of one executor sleep twice as long. A stage counts from the start
of its first call to the end of its last one. The ideal knows all costs and speeds and has no
overhead: all work over the sum of all speeds, or the longest call on a fast executor.

    python benchmarks/slow_executor.py
    python benchmarks/slow_executor.py --seeds 1 --learn 8 --measure 4
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from rich.console import Console

from common import Options, at_least, at_most, goal_columns, new_table, write_report
from penstock.experiments.batch_trials import (
    ByPenstock,
    Contender,
    Load,
    by_repartition,
    try_out,
)
from penstock.experiments.demo import heavy_tailed
from penstock.spark.lab import session

PENSTOCK = "penstock"
CORES, SLOWDOWN = 2, 2.0
# Executors of a local cluster work in folders with their numbers.
SLOW = "0"
# Tasks of Spark's own shuffles, for each slot.
PER_SLOT = [1, 2, 4, 8]
TO_IDEAL, GAIN = at_most(1.25), at_least(1.3)


def ideal_ms(load: Load, executors: int) -> np.ndarray:
    """Return the ideal duration of each stage on unequal slots."""
    speeds = CORES * (executors - 1 + 1 / SLOWDOWN)
    return np.array([max(costs.sum() / speeds, costs.max()) for costs in load.costs_ms])


def main() -> None:
    options = Options("slow_executor", __doc__)
    options.size("executors", 4, 2, meaning="number of executors, one of which is slow")
    options.size("records", 1_000, 20, meaning="number of records of a batch")
    options.size("learn", 20, 2, meaning="number of batches to learn from")
    options.size("measure", 8, 1, meaning="number of batches to measure after these")
    options.size("seeds", 3, 1, meaning="number of streams")
    args = options.parse()
    slots = CORES * args.executors
    spark = session(
        f"local-cluster[{args.executors},{CORES},1024]",
        "penstock-slow-executor",
        spark__executor__memory="512m",
        # A task that waits for a place near its data would leave a slot idle.
        spark__locality__wait="0s",
    )
    shuffles = {f"repartition({n * slots})": n * slots for n in PER_SLOT}
    ways: dict[str, Callable[[], Contender]] = {
        **{name: lambda n=n: by_repartition(n) for name, n in shuffles.items()},  # type: ignore[misc]
        PENSTOCK: ByPenstock,
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(args.seeds):
        load = heavy_tailed(args.learn + args.measure, args.records, distinct=4_096, seed=seed)
        load = replace(load, slow_executors=((SLOW, SLOWDOWN),))
        for name, make in ways.items():
            # Only Penstock needs the earlier batches, to learn from them.
            own = load if name == PENSTOCK else load.last(args.measure + 2)
            (trial,) = try_out(spark, own, {name: make()}, instances=slots)
            assert trial.records == sum(map(len, own.keys)), name
            least_ms = ideal_ms(own, args.executors)[-args.measure :]
            found[name].append(float(trial.stage_ms()[-args.measure :].sum() / least_ms.sum()))
    means = {name: float(np.mean(values)) for name, values in found.items()}
    show(means, best=min(means[name] for name in shuffles), executors=args.executors)
    write_report(args.json, {"latency_bound": True, "records": args.records, "runs": found})


def show(means: dict[str, float], *, best: float, executors: int) -> None:
    """Print all ways, and the goals: `best` is the best of Spark's own shuffles."""
    title = f"One of {executors} executors takes twice as long (latency-bound)"
    table = new_table(title, ["way"], ["stage over the ideal"])
    for name, value in means.items():
        table.add_row(name, f"{value:.2f}")
    against = new_table("Goals", ["number"], ["measured", "goal", "reached"])
    ours = means[PENSTOCK]
    for name, goal, value in (
        ("stage over the ideal", TO_IDEAL, ours),
        ("best repartition / penstock", GAIN, best / ours),
    ):
        against.add_row(name, f"{value:.2f}", *goal_columns(goal, value))
    console = Console()
    console.print(table)
    console.print(against)


if __name__ == "__main__":
    main()
