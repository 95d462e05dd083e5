"""The prototype of the POSG paper (Figures 11 and 12), on Spark instead of Storm.

The operator sleeps where the paper's waits busily: latency-bound, as there are more instances than
cores. Completion time per record has no counterpart in micro-batches; what is compared is the
duration of batches, which is when all their records are complete.
"""

from dataclasses import replace

import numpy as np

from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.experiments.batch_trials import ByPenstock, Load, Way, by_repartition, try_out
from penstock.experiments.posg import AFTER, BEFORE
from penstock.experiments.results import Claim, Table, at_least
from penstock.sim import Application
from penstock.spark.lab import session

MOST = 10
BATCHES, RECORDS, WARM_UP = 14, 500, 4
CHANGE = 15
SERIES_BATCHES = 30
SPARK, PENSTOCK = "repartition", "posg"


def _load(seed: int, batches: int, records: int) -> Load:
    stream = Application(records=batches * records).stream(seed)
    return Load.of(stream.keys, stream.costs_ms, batches)


def _application(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 12: batch durations for k instances."""
    instances = int(float(x))
    ways: dict[str, Way] = {SPARK: by_repartition(instances), PENSTOCK: ByPenstock()}
    ways |= {name: ByPenstock(make(instances)) for name, make in extra.items()}
    load = _load(seed, BATCHES, RECORDS)
    trials = try_out(session(f"local[{MOST}]"), load, ways, instances)
    base = trials[0].settled(WARM_UP).mean()
    samples = []
    for trial in trials:
        settled = trial.settled(WARM_UP)
        samples += [
            Sample(trial.name, x, "batch_ms", float(settled.mean())),
            Sample(trial.name, x, "speedup", float(base / settled.mean())),
            Sample(trial.name, x, "busiest_over_mean", trial.busiest_over_mean(WARM_UP)),
            Sample(trial.name, x, "records", float(trial.records)),
        ]
    return samples


def _timeseries(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: durations as the stream unfolds, with a change of the instances' speeds."""
    instances = len(BEFORE)
    ways: dict[str, Way] = {SPARK: by_repartition(instances), PENSTOCK: ByPenstock()}
    ways |= {name: ByPenstock(make(instances)) for name, make in extra.items()}
    load = _load(seed, SERIES_BATCHES, RECORDS)
    changing = replace(load, slowdowns=((0, BEFORE), (CHANGE, AFTER)))
    trials = try_out(session(f"local[{MOST}]"), changing, ways, instances)
    samples = []
    for trial in trials:
        for batch, (ms, base) in enumerate(
            zip(trial.duration_ms, trials[0].duration_ms, strict=True)
        ):
            samples += [
                Sample(trial.name, batch, "batch_ms", float(ms)),
                Sample(trial.name, batch, "speedup", float(base / ms)),
            ]
    return samples


def _application_claims(table: Table) -> list[Claim]:
    several = list(table.means(PENSTOCK).values())
    records = {r.mean for r in table.rows if r.metric == "records"}
    claims = [
        at_least("posg: mean speed-up with 2 to 10 instances", 1.37, float(np.mean(several))),
        Claim(
            "every record is processed exactly once, in every run",
            BATCHES * RECORDS,
            ", ".join(f"{n:.0f}" for n in sorted(records)),
            records == {float(BATCHES * RECORDS)},
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
        summary="the application on Spark, operator that sleeps (latency-bound)",
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
        summary="the stream as it unfolds on Spark; instances change speed (latency-bound)",
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
