"""How much faster does `penstock.balance` process a stream than Spark's own shuffles?

Eight instances, batches of 1,000 records, 4,096 keys drawn from Zipf-1. Each key has its own cost
of min(1 + 5 Pareto(1.3), 1000) ms. The operator sleeps, so the benchmark is latency-bound. In a
second stream the costs do not depend on the key: nothing can be learnt, and nothing should be lost.
"""

from dataclasses import asdict, dataclass

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console

from common import Options, new_table, write_report
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
from penstock.sim import zipf_keys
from penstock.spark.lab import session

KEYS = 4_096
PENSTOCK = "penstock"


def costs_without_keys(batches: int, records: int) -> Load:
    """Return a stream with the same keys, and costs of 1 to 20 ms that do not depend on them."""
    rng = np.random.default_rng(1)
    keys = zipf_keys(rng, batches * records, KEYS, exponent=1.0)
    return Load.of(keys, rng.uniform(1, 20, keys.size), batches)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The measured batches of one way to share records out.

    Attributes:
        way: name of the way.
        first_batch_ms: duration of the first batch.
        batch_ms: mean duration of the measured batches.
        to_ideal: that duration over the ideal one.
        busiest_over_mean: busy time of the busiest instance over that of the mean one.
        records: number of records that came out.
    """

    way: str
    first_batch_ms: float
    batch_ms: float
    to_ideal: float
    busiest_over_mean: float
    records: int


@dataclass(frozen=True)
class Comparison:
    """The results of all ways for one stream, and the ideal duration of its batches."""

    ideal_ms: float
    results: list[Result]


def result_of(trial: BatchTrial, ideal_ms: float, measured: int) -> Result:
    settled_ms = float(trial.duration_ms[-measured:].mean())
    return Result(
        way=trial.name,
        first_batch_ms=float(trial.duration_ms[0]),
        batch_ms=settled_ms,
        to_ideal=settled_ms / ideal_ms,
        busiest_over_mean=trial.busiest_over_mean(len(trial.duration_ms) - measured),
        records=trial.records,
    )


def compare(
    spark: SparkSession,
    load: Load,
    ways: dict[str, Contender],
    *,
    measured: int,
    instances: int,
) -> Comparison:
    """Measure the last batches; only Penstock needs the earlier ones, to learn from them."""
    others = {name: way for name, way in ways.items() if name != PENSTOCK}
    trials = try_out(spark, load.last(measured + 2), others, instances=instances)
    trials += try_out(spark, load, {PENSTOCK: ways[PENSTOCK]}, instances=instances)
    ideal_ms = float(load.last(measured).ideal_ms(instances).mean())
    return Comparison(ideal_ms, [result_of(trial, ideal_ms, measured) for trial in trials])


def show(stream: str, goal: str, comparison: Comparison) -> None:
    results = comparison.results
    best_ms = min(one.batch_ms for one in results if one.way != PENSTOCK)
    table = new_table(
        f"{stream} (latency-bound), ideal {comparison.ideal_ms:.0f} ms a batch; goal: {goal}",
        labels=("way",),
        numbers=("first batch ms", "batch ms", "to ideal", "busiest / mean", "best other / this"),
    )
    for one in results:
        table.add_row(
            one.way,
            f"{one.first_batch_ms:.0f}",
            f"{one.batch_ms:.0f}",
            f"{one.to_ideal:.2f}",
            f"{one.busiest_over_mean:.2f}",
            f"{best_ms / one.batch_ms:.2f}",
        )
    Console().print(table)


def main() -> None:
    options = Options("balance", __doc__)
    options.size("instances", 8, 2, meaning="number of tasks that share the work")
    options.size("records", 1_000, 20, meaning="number of records of a batch")
    options.size("learn", 60, 2, meaning="number of batches to learn from")
    options.size("measure", 10, 1, meaning="number of batches to measure after these")
    args = options.parse()
    instances = args.instances
    spark = session(f"local[{instances}]", "penstock-balance")
    ways: dict[str, Contender] = {
        f"repartition({instances})": by_repartition(instances),
        f"repartition({8 * instances})": by_repartition(8 * instances),
        "key hashing": by_key,
        PENSTOCK: ByPenstock(),
    }
    batches = args.learn + args.measure
    by_keys = compare(
        spark,
        heavy_tailed(batches, args.records, distinct=KEYS),
        ways,
        measured=args.measure,
        instances=instances,
    )
    show(
        "costs by key",
        "penstock <= 1.2 of the ideal, and 1.25 times as fast as the best other way",
        by_keys,
    )
    without_keys = compare(
        spark,
        costs_without_keys(batches, args.records).last(args.measure + 20),
        {name: ways[name] for name in (f"repartition({instances})", PENSTOCK)},
        measured=args.measure,
        instances=instances,
    )
    show("costs without keys", "penstock >= 0.97 times as fast", without_keys)
    report = {"costs by key": by_keys, "costs without keys": without_keys}
    write_report(
        args.json, {name: {"latency_bound": True, **asdict(one)} for name, one in report.items()}
    )


if __name__ == "__main__":
    main()
