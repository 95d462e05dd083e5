"""The prototype of the LAS paper (Figures 10 and 11), on Spark instead of Storm.

The operator sleeps where the paper's waits busily: latency-bound, as there are more instances than
cores. A record waits from its arrival until the operator begins with it.
"""

import math

from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.experiments.live_trials import LiveTrial, Phase, capacity_of, try_live
from penstock.experiments.results import Claim, Table, at_least, at_most
from penstock.policies.shedding import LoadAware, Shedder, Target, sliding_average
from penstock.sim import Application
from penstock.spark.lab import session

INSTANCES = 8
MASTER = f"local[{INSTANCES}]"
TARGET = sliding_average("2 s", records=2_000)
LIMIT_MS = TARGET.limit_ms
WORKLOAD = Application(records=200_000)

# A calm time to learn, a rate three times as high, calm again, costs doubled, calm again, a source
# that is paused and resumed.
CALM = 0.6
PHASES = {
    "calm": Phase(20, CALM),
    "burst": Phase(24, 3 * CALM),
    "calm again": Phase(16, CALM),
    "slow": Phase(24, CALM, slowdown=2.0),
    "calm at last": Phase(16, CALM),
    "pause": Phase(6, CALM, held=True),
    "resumed": Phase(16, CALM),
}
CALM_PHASES = "calm again", "calm at last", "resumed"
BIN_S = 4
# Batches after which the target must hold again, of about as many seconds as the target has.
SETTLED_S = 3 * LIMIT_MS / 1000 + 2


def _shedders(target: Target, extra: Extra) -> dict[str, Shedder | None]:
    return {
        "never": None,
        "las": LoadAware(target),
        "las_cheap_first": LoadAware(target, "cheap"),
        **{series: make(target) for series, make in extra.items()},
    }


def _run(_: X, seed: int, extra: Extra) -> list[Sample]:
    spark = session(MASTER)
    capacity = capacity_of(spark, WORKLOAD, INSTANCES, LIMIT_MS)
    samples = [Sample("las", "whole", "capacity_per_s", capacity)]
    phases = tuple(PHASES.values())
    for series, shedder in _shedders(TARGET, extra).items():
        trial = try_live(spark, series, WORKLOAD, phases, INSTANCES, capacity, shedder, drain_s=4.0)
        samples += _unfolding(series, trial)
    return samples


def _unfolding(series: str, trial: LiveTrial) -> list[Sample]:
    whole = {"received": trial.received, "lost": trial.received - trial.processed - trial.shed}
    samples = [Sample(series, "whole", name, float(value)) for name, value in whole.items()]
    end = int(sum(phase.seconds for phase in PHASES.values()))
    for start in range(0, end, BIN_S):
        waiting, dropped = trial.waiting(start, start + BIN_S), trial.dropped(start, start + BIN_S)
        if not math.isnan(waiting):  # somebody was processed
            samples.append(Sample(series, start + BIN_S, "waiting_ms", waiting))
        samples.append(Sample(series, start + BIN_S, "dropped_ratio", dropped))
    for name, (start_s, stop_s) in _times().items():
        samples.append(Sample(series, name, "phase_waiting_ms", trial.waiting(start_s, stop_s)))
        samples.append(Sample(series, name, "phase_dropped_ratio", trial.dropped(start_s, stop_s)))
    return samples


def _times() -> dict[str, tuple[float, float]]:
    """Return when each phase has settled, and when it ends."""
    times, start = {}, 0.0
    for name, phase in PHASES.items():
        times[name] = start + min(SETTLED_S, phase.seconds / 2), start + phase.seconds
        start += phase.seconds
    return times


def _claims(table: Table) -> list[Claim]:
    claims = []
    for series in ("las", "las_cheap_first"):
        for phase in ("burst", "slow"):
            held = table.mean(series, phase, "phase_waiting_ms") / LIMIT_MS
            claims.append(
                at_most(f"{series}, {phase}: waiting time over the target, settled", 1.1, held)
            )
        calm = max(table.mean(series, phase, "phase_dropped_ratio") for phase in CALM_PHASES)
        claims.append(at_most(f"{series}: dropped when the backlog is gone", 0.0, calm))
        lost = table.mean(series, "whole", "lost")
        claims.append(Claim(f"{series}: received = processed + shed", 0, lost, lost == 0))
    never = table.mean("never", "burst", "phase_waiting_ms") / LIMIT_MS
    claims.append(at_least("never, burst: waiting time over the target", 1.5, never))
    return claims


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="las-spark",
        figure="LAS Figures 10 and 11",
        summary="a burst and doubled costs on Spark, operator that sleeps (latency-bound)",
        x_label="seconds",
        xs=("whole",),
        run=_run,
        claims=_claims,
        streams=1,
        on_driver=True,
        master=MASTER,
        main_metric="waiting_ms",
        metrics=("waiting_ms", "dropped_ratio"),
        params={
            "latency_bound": True,
            "instances": INSTANCES,
            "costs_ms": [25, 5, 1],
            "target": str(TARGET),
            "phases": {n: [p.seconds, p.load, p.slowdown] for n, p in PHASES.items()},
        },
        family=Shedder,
    ),
)
