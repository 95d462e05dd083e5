"""The prototype of the LAS paper (Figures 10 and 11), on Spark instead of Storm.

The operator sleeps where the paper's waits busily, as there are more instances than cores: the
trials are latency-bound. A record waits from its arrival until the operator starts with it.
"""

import math

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
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

# A calm time to learn, a rate three times as high, a calm time, doubled costs, a calm time, a
# source that pauses, and its return.
CALM = 0.6
PHASES = {
    "calm": Phase(seconds=20, load=CALM),
    "burst": Phase(seconds=24, load=3 * CALM),
    "calm again": Phase(seconds=16, load=CALM),
    "slow": Phase(seconds=24, load=CALM, slowdown=2.0),
    "calm at last": Phase(seconds=16, load=CALM),
    "pause": Phase(seconds=6, load=CALM, held=True),
    "resumed": Phase(seconds=16, load=CALM),
}
CALM_PHASES = "calm again", "calm at last", "resumed"
BIN_S = 4
# Seconds after which the target must hold again: three batches as long as the target, and two more.
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
    capacity = capacity_of(spark, WORKLOAD, INSTANCES, batch_ms=LIMIT_MS)
    found = samples("las", "whole", {"capacity_per_s": capacity})
    phases = tuple(PHASES.values())
    for series, shedder in _shedders(TARGET, extra).items():
        trial = try_live(
            spark,
            WORKLOAD,
            phases,
            name=series,
            instances=INSTANCES,
            capacity_per_s=capacity,
            shedder=shedder,
            drain_s=4.0,
        )
        found += _unfolding(series, trial)
    return found


def _unfolding(series: str, trial: LiveTrial) -> list[Sample]:
    lost = trial.received - trial.processed - trial.shed
    found = samples(series, "whole", {"received": trial.received, "lost": lost})
    end = int(sum(phase.seconds for phase in PHASES.values()))
    for start in range(0, end, BIN_S):
        stop = start + BIN_S
        waiting = trial.waiting(start, stop)
        if not math.isnan(waiting):  # at least one record was processed
            found += samples(series, stop, {"waiting_ms": waiting})
        found += samples(series, stop, {"dropped_ratio": trial.dropped(start, stop)})
    for name, (start_s, stop_s) in _times().items():
        numbers = {
            "phase_waiting_ms": trial.waiting(start_s, stop_s),
            "phase_dropped_ratio": trial.dropped(start_s, stop_s),
        }
        found += samples(series, name, numbers)
    return found


def _times() -> dict[str, tuple[float, float]]:
    """Return the times at which each phase has settled, and at which it ends."""
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
                at_most(f"{series}, {phase}: waiting time over the target, once settled", 1.1, held)
            )
        calm = max(table.mean(series, phase, "phase_dropped_ratio") for phase in CALM_PHASES)
        claims.append(
            at_most(f"{series}: largest share dropped in calm phases, without a backlog", 0.0, calm)
        )
        lost = table.mean(series, "whole", "lost")
        claims.append(
            Claim(
                claim=f"{series}: received = processed + shed", paper=0, ours=lost, holds=lost == 0
            )
        )
    never = table.mean("never", "burst", "phase_waiting_ms") / LIMIT_MS
    claims.append(at_least("never, burst: waiting time over the target, once settled", 1.5, never))
    return claims


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="las-spark",
        figure="LAS Figures 10 and 11",
        summary="a burst, doubled costs (latency-bound)",
        details="on Spark, operator that sleeps, target 2 s on average",
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
