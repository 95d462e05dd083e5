"""How long do batches wait for their slowest task, if costs vary within a key?

Each record's cost is its key's cost times a lognormal factor (s = 0.5); 4,096 keys Zipf-1, key
costs min(1 + 5 Pareto(1.3), 1000) ms. Eight slots; records sleep, so this is latency-bound. All
ways run the same batches, seed by seed. Numbers are over the ideal: perfect knowledge, no overhead.
The oracle has both, but on this machine: processes without Spark that know all costs.

    python benchmarks/stragglers.py
    python benchmarks/stragglers.py --records 5000 --learn 6 --measure 4
    python benchmarks/stragglers.py --keys-tell-nothing

The last one gives each record the key of another one. The pool of threads in one task, a queue that
knows nothing, is then the one to reach.
"""

from collections.abc import Callable

import numpy as np
from rich.console import Console

from common import Goal, Options, at_least, at_most, goal_columns, new_table, write_report
from oracle import oracle_ms
from penstock.experiments.batch_trials import (
    BatchTrial,
    ByPenstock,
    Contender,
    by_repartition,
    try_out,
)
from penstock.experiments.demo import heavy_tailed
from penstock.spark.lab import session
from thread_pool import by_threads

PENSTOCK, ORACLE = "penstock", "oracle, no Spark"
# Tasks of Spark's own shuffles, for each slot.
PER_SLOT = [1, 2, 4, 8]
KEYLESS_GOALS = {"penstock / shared queue": at_most(1.05)}


def measured(trial: BatchTrial, ideal_ms: np.ndarray, count: int) -> dict[str, float]:
    """Return durations and wall time of the last batches, over the ideal."""
    total_ms = float(ideal_ms[-count:].sum())
    return {
        "batches": float(trial.duration_ms[-count:].sum()) / total_ms,
        "wall": float(trial.wall_ms[-count:].sum()) / total_ms,
    }


def goals(records: int) -> dict[str, Goal]:
    few = records < 3_000
    return {
        "batches": at_most(1.20 if few else 1.06),
        "wall": at_most(1.40 if few else 1.08),
        "best repartition / penstock": at_least(1.4 if few else 1.08),
    }


def main() -> None:
    options = Options("stragglers", __doc__)
    options.size("slots", 8, 2, meaning="number of slots")
    options.size("records", 1_000, 20, meaning="number of records of a batch")
    options.size("learn", 20, 2, meaning="number of batches to learn from")
    options.size("measure", 8, 1, meaning="number of batches to measure after these")
    options.size("seeds", 3, 1, meaning="number of streams")
    options.parser.add_argument(
        "--keys-tell-nothing", action="store_true", help="give each record the key of another one"
    )
    args = options.parse()
    spark = session(f"local[{args.slots}]", "penstock-stragglers")
    shuffles = {f"repartition({n * args.slots})": n * args.slots for n in PER_SLOT}
    queue = f"one task, {args.slots} threads"
    ways: dict[str, Callable[[], Contender]] = {
        **{name: lambda n=n: by_repartition(n) for name, n in shuffles.items()},  # type: ignore[misc]
        queue: lambda: by_threads,
        "penstock, posg": lambda: ByPenstock("posg"),
        PENSTOCK: ByPenstock,
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in (*ways, ORACLE)}
    for seed in range(args.seeds):
        batches = args.learn + args.measure
        keyed = not args.keys_tell_nothing
        load = heavy_tailed(batches, args.records, distinct=4_096, keyed=keyed, seed=seed)
        for name, make in ways.items():
            # Only Penstock needs the earlier batches, to learn from them.
            own = load if name.startswith(PENSTOCK) else load.last(args.measure + 2)
            (trial,) = try_out(spark, own, {name: make()}, instances=args.slots)
            assert trial.records == sum(map(len, own.keys)), name
            found[name].append(measured(trial, own.ideal_ms(args.slots), args.measure))
        last = load.last(args.measure)
        over = oracle_ms(last, args.slots) / float(last.ideal_ms(args.slots).sum())
        found[ORACLE].append({"batches": over, "wall": over})
    means = {
        name: {key: float(np.mean([run[key] for run in runs])) for key in ("batches", "wall")}
        for name, runs in found.items()
    }
    ours = {**means[PENSTOCK]}
    best = min(means[name]["batches"] for name in shuffles)
    ours["best repartition / penstock"] = best / ours["batches"]
    ours["penstock / shared queue"] = ours["batches"] / means[queue]["batches"]
    wanted = KEYLESS_GOALS if args.keys_tell_nothing else goals(args.records)
    kind = ", keys tell nothing" if args.keys_tell_nothing else ""
    show(means, f"{args.records:,} records over the ideal (latency-bound{kind})")
    show_goals(ours, wanted)
    write_report(
        args.json,
        {
            "latency_bound": True,
            "records": args.records,
            "keys_tell_nothing": args.keys_tell_nothing,
            "runs": found,
        },
    )


def show(means: dict[str, dict[str, float]], what: str) -> None:
    """Print all ways."""
    table = new_table(
        f"Batches of {what}",
        labels=("way",),
        numbers=("duration of batches", "wall time"),
    )
    for name, values in means.items():
        table.add_row(name, f"{values['batches']:.2f}", f"{values['wall']:.2f}")
    Console().print(table)


def show_goals(ours: dict[str, float], wanted: dict[str, Goal]) -> None:
    """Print our numbers that have a goal."""
    against = new_table("Goals", ["number"], ["measured", "goal", "reached"])
    for name, goal in wanted.items():
        against.add_row(name, f"{ours[name]:.2f}", *goal_columns(goal, ours[name]))
    Console().print(against)


if __name__ == "__main__":
    main()
