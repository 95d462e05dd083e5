"""The prototype of the POSG paper (Figures 11 and 12), on Spark instead of Storm.

The operator sleeps where the paper's waits busily, as there are more instances than cores: the
trials are latency-bound. Micro-batches have no completion time of a record. The duration of a
batch takes its place: after it all records of the batch are complete.
"""

from dataclasses import replace

import numpy as np

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.batch_trials import (
    BatchTrial,
    ByPenstock,
    Contender,
    Load,
    by_repartition,
    try_out,
)
from penstock.experiments.posg import AFTER, BEFORE
from penstock.experiments.results import Claim, Table, at_least
from penstock.sim import Application
from penstock.spark.lab import session

MOST = 10
BATCHES, RECORDS, WARM_UP = 14, 500, 4
CHANGE = 15
SERIES_BATCHES = 30
SPARK, PENSTOCK = "repartition", "posg"


def _load(seed: int, batches: int) -> Load:
    stream = Application(records=batches * RECORDS).stream(seed)
    return Load.of(stream.keys, stream.costs_ms, batches)


def _try_all(load: Load, instances: int, extra: Extra) -> list[BatchTrial]:
    contenders: dict[str, Contender] = {
        SPARK: by_repartition(instances),
        PENSTOCK: ByPenstock(),
        **{name: ByPenstock(make(instances)) for name, make in extra.items()},
    }
    return try_out(session(f"local[{MOST}]"), load, contenders, instances=instances)


def _application(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 12: batch durations for k instances."""
    trials = _try_all(_load(seed, BATCHES), int(float(x)), extra)
    base = trials[0].settled(WARM_UP).mean()
    found = []
    for trial in trials:
        mean = trial.settled(WARM_UP).mean()
        numbers = {
            "batch_ms": mean,
            "speedup": base / mean,
            "busiest_over_mean": trial.busiest_over_mean(WARM_UP),
            "records": trial.records,
        }
        found += samples(trial.name, x, numbers)
    return found


def _timeseries(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: batch durations over time, with a change of the instances' speeds."""
    load = replace(_load(seed, SERIES_BATCHES), slowdowns=((0, BEFORE), (CHANGE, AFTER)))
    trials = _try_all(load, len(BEFORE), extra)
    found = []
    for trial in trials:
        pairs = zip(trial.duration_ms, trials[0].duration_ms, strict=True)
        for batch, (ms, base) in enumerate(pairs):
            found += samples(trial.name, batch, {"batch_ms": ms, "speedup": base / ms})
    return found


def _application_claims(table: Table) -> list[Claim]:
    several = list(table.means(PENSTOCK).values())
    records = {r.mean for r in table.rows if r.metric == "records"}
    claims = [
        at_least("posg: mean speed-up with 2 to 10 instances", 1.37, float(np.mean(several))),
        Claim(
            claim="every record is processed exactly once, in every run",
            paper=BATCHES * RECORDS,
            ours=", ".join(f"{n:.0f}" for n in sorted(records)),
            holds=records == {float(BATCHES * RECORDS)},
        ),
    ]
    if MOST in table.means(PENSTOCK):
        claims.append(
            at_least("posg: speed-up with 10 instances", 1.16, table.mean(PENSTOCK, MOST))
        )
    return claims


def _timeseries_claims(table: Table) -> list[Claim]:
    speedups = table.means(PENSTOCK)
    before = [v for x, v in speedups.items() if WARM_UP <= float(x) < CHANGE]
    after = [v for x, v in speedups.items() if float(x) >= CHANGE + WARM_UP]
    return [
        at_least("posg: mean speed-up before the change", 1.0, float(np.mean(before))),
        at_least("posg: mean speed-up after the change", 1.0, float(np.mean(after))),
    ]


_PARAMS: dict[str, object] = {
    "latency_bound": True,
    "records_per_batch": RECORDS,
    "costs_ms": [25, 5, 1],
    "warm_up_batches": WARM_UP,
}

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="posg-spark",
        figure="POSG Figure 12",
        summary="batch duration on Spark (latency-bound)",
        details="application with costs of 25, 5 and 1 ms, operator that sleeps",
        x_label="instances",
        xs=(2, 4, 6, 8, MOST),
        run=_application,
        claims=_application_claims,
        streams=1,
        on_driver=True,
        master=f"local[{MOST}]",
        metrics=("batch_ms", "speedup", "busiest_over_mean"),
        params=_PARAMS | {"batches": BATCHES},
    ),
    Experiment(
        name="posg-spark-timeseries",
        figure="POSG Figure 11",
        summary="batches over time (latency-bound)",
        details="on Spark, instances change their speed at batch 15, operator that sleeps",
        x_label="batch",
        xs=("whole",),
        run=_timeseries,
        claims=_timeseries_claims,
        streams=1,
        on_driver=True,
        master=f"local[{MOST}]",
        main_metric="batch_ms",
        metrics=("batch_ms", "speedup"),
        params=_PARAMS | {"batches": SERIES_BATCHES, "change": CHANGE},
    ),
)
