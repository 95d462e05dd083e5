"""A burst, doubled costs and a paused source on Spark: a trial of ours, beyond the LAS paper.

The operator sleeps where the paper's waits busily, as there are more instances than cores: the
trials are latency-bound. A record waits from its arrival until the operator starts with it.
"""

import math

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.claims import Claim, at_least, at_most, near
from penstock.experiments.live_trials import LiveTrial, Phase, capacity_of, try_live
from penstock.experiments.results import Table
from penstock.policies.shedding import LoadAware, Shedder, Target, sliding_average
from penstock.sim import Application
from penstock.spark.lab import session

INSTANCES = 8
MASTER = f"local[{INSTANCES}]"
TARGET = sliding_average("2 s", records=2_000)
LIMIT_MS = TARGET.limit_ms
WORKLOAD = Application(records=200_000)

# A calm time to learn, then three events with a calm time after each: a rate three times as high,
# doubled costs, and a source that pauses and returns.
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


def claims(table: Table) -> list[Claim]:
    """Return our goals."""
    found = []
    for series in ("las", "las_cheap_first"):
        for phase in ("burst", "slow"):
            held = table.mean(series, phase, "phase_waiting_ms") / LIMIT_MS
            name = f"{series}, {phase}: waiting time over the target, once settled"
            found.append(at_most(name, held, goal=1.1))
        calm = max(table.mean(series, phase, "phase_dropped_ratio") for phase in CALM_PHASES)
        name = f"{series}: largest share dropped in calm phases, without a backlog"
        found.append(at_most(name, calm, goal=0.0))
        lost = table.mean(series, "whole", "lost")
        name = f"{series}: received records neither processed nor shed"
        found.append(near(name, lost, goal=0, tolerance=0.0))
    never = table.mean("never", "burst", "phase_waiting_ms") / LIMIT_MS
    name = "never, burst: waiting time over the target, once settled"
    return [*found, at_least(name, never, goal=1.5)]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="las-spark",
        figure="beyond the paper",
        summary="a burst, doubled costs (latency-bound)",
        details="on Spark, operator that sleeps, target 2 s on average",
        x_label="seconds",
        xs=("whole",),
        run=_run,
        claims=claims,
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
        depends_on_machine="all numbers",
    ),
)
