"""The prototype of the POSG paper (Figures 11 and 12), on Spark instead of Storm.

The operator sleeps where the paper's waits busily, as there are more instances than cores: the
trials are latency-bound. Micro-batches have no completion time of a record. The duration of a
batch takes its place: after it all records of the batch are complete.

Figure 11 has the stream of Figure 10 with a tenth of all costs. All else is as in the paper:
150,000 records, 4,096 keys, five instances, windows of 1,024 records, and the change in the middle.
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
from penstock.experiments.claims import Claim, above, at_least, near
from penstock.experiments.posg import AFTER, BEFORE
from penstock.experiments.results import Table
from penstock.policies.grouping import ProactiveAsPublished
from penstock.sim import Application, Synthetic
from penstock.spark.lab import session

MOST = 10
BATCHES, RECORDS, WARM_UP = 14, 500, 4
SPARK, PUBLISHED, PENSTOCK = "repartition", "posg_as_published", "posg"
BOTH = PUBLISHED, PENSTOCK

# Figure 11: 60 batches of 2,500 records.
SERIES_BATCHES, SERIES_RECORDS = 60, 2_500
STREAM = Synthetic(
    records=SERIES_BATCHES * SERIES_RECORDS, min_cost_ms=0.1, max_cost_ms=6.4, cost_values=64
)
# Records after which the paper's prototype has learnt, at which instances change, and after which
# it has learnt again.
LEARNT, CHANGE, ADAPTED = 20_978, 75_000, 82_311


def _try_all(load: Load, instances: int, extra: Extra) -> list[BatchTrial]:
    contenders: dict[str, Contender] = {
        SPARK: by_repartition(instances),
        PUBLISHED: ByPenstock(ProactiveAsPublished(instances)),
        PENSTOCK: ByPenstock("posg"),
        **{name: ByPenstock(make(instances)) for name, make in extra.items()},
    }
    return try_out(session(f"local[{MOST}]"), load, contenders, instances=instances)


def _application(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 12: batch durations for k instances."""
    stream = Application(records=BATCHES * RECORDS).stream(seed)
    load = Load.of(stream.keys, stream.costs_ms, BATCHES)
    trials = _try_all(load, int(float(x)), extra)
    base = trials[0].settled(WARM_UP).mean()
    found = []
    for trial in trials:
        mean = trial.settled(WARM_UP).mean()
        numbers = {
            "batch_ms": mean,
            "speedup": base / mean,
            "busiest_over_mean": trial.busiest_over_mean(WARM_UP),
            "records": trial.records,
            "lost": BATCHES * RECORDS - trial.records,
        }
        found += samples(trial.name, x, numbers)
    return found


def _timeseries(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: batch durations along the stream, with a change of the instances' speeds."""
    stream = STREAM.stream(seed)
    load = Load.of(stream.keys, stream.costs_ms, SERIES_BATCHES)
    changed = CHANGE * SERIES_BATCHES // STREAM.records
    load = replace(load, slowdowns=((0, BEFORE), (changed, AFTER)))
    trials = _try_all(load, len(BEFORE), extra)
    found = []
    for trial in trials:
        pairs = zip(trial.duration_ms, trials[0].duration_ms, strict=True)
        for batch, (ms, base) in enumerate(pairs, start=1):
            done = batch * STREAM.records // SERIES_BATCHES
            found += samples(trial.name, done, {"batch_ms": ms, "speedup": base / ms})
        found += samples(trial.name, "whole", {"lost": STREAM.records - trial.records})
    return found


def exactly_once(table: Table) -> Claim:
    """Return the goal that no record is lost or processed twice, in any run of any series."""
    rows = [r for series in table.series() for r in table.rows_of(series, "lost")]
    missing = max((v for r in rows for v in (r.min, r.max)), key=abs)
    return near("records lost, or processed twice, worst run", missing, goal=0, tolerance=0.0)


def application_claims(table: Table) -> list[Claim]:
    """Figure 12."""
    source, claims = "Figure 12", []
    for series in BOTH:
        means = table.means(series)
        claims.append(
            at_least(
                f"{series}: mean speed-up with 2 to 10 instances",
                float(np.mean(list(means.values()))),
                paper=1.37,
                source=source,
            )
        )
        if MOST in means:
            gain = 100 * (means[MOST] - 1)
            claims.append(
                at_least(f"{series}: gain with 10 instances, in %", gain, paper=16, source=source)
            )
    return [*claims, exactly_once(table)]


def timeseries_claims(table: Table) -> list[Claim]:
    """Figure 11."""
    claims = []
    for series in BOTH:
        for start, stop, said in (
            (LEARNT, CHANGE, "decreases the completion time"),
            (ADAPTED, 2 * CHANGE, "starts to recover"),
        ):
            found = [
                v
                for x, v in table.means(series).items()
                if not isinstance(x, str) and start < x <= stop
            ]
            claims.append(
                above(
                    f"{series}: mean speed-up of records {start:,} to {stop:,}",
                    float(np.mean(found)),
                    paper=said,
                    source="Figure 11",
                    goal=1.0,
                )
            )
    return [*claims, exactly_once(table)]


_LATENCY_BOUND: dict[str, object] = {"latency_bound": True}
_MACHINE = "all durations and speed-ups"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="posg-spark",
        figure="POSG Figure 12",
        summary="batch duration on Spark (latency-bound)",
        details="application with costs of 25, 5 and 1 ms, operator that sleeps",
        x_label="instances",
        xs=(2, 4, 6, 8, MOST),
        run=_application,
        claims=application_claims,
        streams=1,
        on_driver=True,
        master=f"local[{MOST}]",
        metrics=("batch_ms", "speedup", "busiest_over_mean"),
        params=_LATENCY_BOUND
        | {
            "instances": f"2 to {MOST} in steps of 2; the paper has 1 to 10",
            "records": f"{BATCHES * RECORDS:,}; the paper has 500,000",
            "records_per_batch": RECORDS,
            "costs_ms": [25, 5, 1],
            "warm_up_batches": WARM_UP,
            "batches": BATCHES,
        },
        depends_on_machine=_MACHINE,
    ),
    Experiment(
        name="posg-spark-timeseries",
        figure="POSG Figure 11",
        summary="batches over time (latency-bound)",
        details="on Spark, instances change at record 75,000, a tenth of all costs",
        x_label="records",
        xs=("whole",),
        run=_timeseries,
        claims=timeseries_claims,
        streams=1,
        on_driver=True,
        master=f"local[{MOST}]",
        main_metric="batch_ms",
        metrics=("batch_ms", "speedup"),
        params=_LATENCY_BOUND
        | {
            "stream": "that of Figure 10",
            "records_per_batch": SERIES_RECORDS,
            "batches": SERIES_BATCHES,
            "costs_ms": "0.1 to 6.4: a tenth of the paper's",
            "change": CHANGE,
        },
        depends_on_machine=_MACHINE,
    ),
)
