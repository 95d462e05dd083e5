"""The evaluation of the POSG paper: Figures 4 to 10 and, in simulation, 12."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.experiments import posg_claims as claims
from penstock.experiments.base import Experiment, Extra, Run, Sample, X, samples
from penstock.policies.costs import CountMin
from penstock.policies.grouping import (
    FullKnowledge,
    Grouping,
    Proactive,
    ProactiveAsPublished,
    RoundRobin,
)
from penstock.policies.sync_rounds import SyncState
from penstock.sim import Application, Result, Stream, Synthetic, Workload, simulate

STEADY_FROM = 14_000
BIN = 2_000

PROVISIONING = tuple(round(0.95 + i / 100, 2) for i in range(21))
EXPONENTS = {"uniform": 0.0} | {f"zipf-{a:.1f}": a for a in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)}
EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.05, 0.09, 0.2, 0.5, 0.9)

# Figure 10: slowdowns of the five instances, before and after the change.
BEFORE = (1.05, 1.025, 1.0, 0.975, 0.95)
AFTER = (0.90, 0.95, 1.0, 1.05, 1.10)
CHANGE = claims.CHANGE


@dataclass(frozen=True)
class Case:
    """Settings of the simulation at one x; the defaults are those of section V-A."""

    workload: Workload = field(default_factory=Synthetic)
    instances: int = 5
    provisioning: float = 1.0
    epsilon: float | None = None
    slowdowns: tuple[tuple[int, tuple[float, ...]], ...] = ()

    def stream(self, seed: int) -> Stream:
        """Draw the stream."""
        return self.workload.stream(seed).provisioned(self.instances, self.provisioning)

    def groupings(self, stream: Stream, extra: Extra) -> dict[str, Grouping]:
        """Return new groupings, by series; the baseline comes first."""
        k = self.instances
        # Figure 9 varies the precision of the matrices: ours gets one entry for each cell.
        published = ProactiveAsPublished(k)
        ours: dict[str, Any] = {}
        if self.epsilon is not None:
            model = CountMin(epsilon=self.epsilon)
            published = published.clone(epsilon=self.epsilon)
            ours = {"capacity": model.rows * model.columns}
        return {
            "round_robin": RoundRobin(k),
            "posg_as_published": published,
            "posg": Proactive(k, **ours),
            "posg_frugal": Proactive.frugal(k, **ours),
            "full_knowledge": FullKnowledge(k, stream.exact_costs()),
            **{series: make(k) for series, make in extra.items()},
        }

    def results(self, seed: int, extra: Extra) -> dict[str, Result]:
        """Simulate all groupings on the same stream."""
        stream = self.stream(seed)
        return {
            series: simulate(grouping, stream, slowdowns=self.slowdowns)
            for series, grouping in self.groupings(stream, extra).items()
        }


def compare(case_of: Callable[[X], Case]) -> Run:
    """Return a run that reports completion times, speed-ups over round robin, and overheads."""

    def run(x: X, seed: int, extra: Extra) -> list[Sample]:
        case = case_of(x)
        results = case.results(seed, extra)
        base = results["round_robin"]
        found: list[Sample] = []
        for series, result in results.items():
            steady = min(STEADY_FROM, len(result.completion_ms) // 2)
            metrics = {
                "completion_ms": result.mean_completion_ms(),
                "speedup": base.mean_completion_ms() / result.mean_completion_ms(),
                "steady_completion_ms": result.mean_completion_ms(steady),
                "steady_speedup": base.mean_completion_ms(steady)
                / result.mean_completion_ms(steady),
                "messages_per_100": result.messages_per_100,
                "message_bytes_per_record": result.message_bytes / len(result.completion_ms),
                "scheduler_bytes_per_instance": result.scheduler_bytes / case.instances,
                "tracker_bytes": result.tracker_bytes,
            }
            found += samples(series, x, metrics)
        return found

    return run


def _timeseries(case: Case) -> Run:
    """Return a run that reports mean, least and largest completion time every 2,000 records."""

    def run(_: X, seed: int, extra: Extra) -> list[Sample]:
        results = case.results(seed, extra)
        base = _bins(results["round_robin"]).mean(axis=1)
        found: list[Sample] = []
        for series, result in results.items():
            bins = _bins(result)
            mean = bins.mean(axis=1)
            metrics = {
                "completion_ms": mean,
                "completion_min_ms": bins.min(axis=1),
                "completion_max_ms": bins.max(axis=1),
                "speedup": base / mean,
            }
            for i in range(len(bins)):
                found += samples(series, (i + 1) * BIN, {name: v[i] for name, v in metrics.items()})
            runs = (one.record for one in result.changes if one.state == SyncState.RUN.value)
            run_at = next(runs, len(mean) * BIN)
            whole = {"record_of_first_run": run_at, "messages_per_100": result.messages_per_100}
            if series == claims.PUBLISHED:
                whole["record_of_update"] = _updated(result)
            found += samples(series, "whole", whole)
        return found

    return run


def _updated(result: Result) -> int:
    """Return the record at which the scheduler has the first matrices after the change."""
    all_sent = SyncState.SEND_ALL.value
    found = (c.record for c in result.changes if c.state == all_sent and c.record >= CHANGE)
    return next(found, len(result.stream))


def _bins(result: Result) -> "np.typing.NDArray[np.float64]":
    whole_bins = len(result.completion_ms) // BIN * BIN
    return result.completion_ms[:whole_bins].reshape(-1, BIN)


_DEFAULTS: dict[str, object] = {
    "records": 32_768,
    "distinct": 4_096,
    "exponent": 1.0,
    "cost_values": 64,
    "min_cost_ms": 1,
    "max_cost_ms": 64,
    "instances": 5,
    "provisioning": 1.0,
    "steady_from": STEADY_FROM,
}

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="posg-distributions",
        figure="POSG Figure 4",
        summary="speed-up by the distribution of keys",
        x_label="distribution of keys",
        xs=tuple(EXPONENTS),
        run=compare(lambda x: Case(workload=Synthetic(exponent=EXPONENTS[str(x)]))),
        claims=claims.distributions,
        params=_DEFAULTS,
    ),
    Experiment(
        name="posg-provisioning",
        figure="POSG Figure 5",
        summary="speed-up by provisioning",
        details="sustainable rate over actual rate",
        x_label="provisioning",
        xs=PROVISIONING,
        run=compare(lambda x: Case(provisioning=float(x))),
        claims=claims.provisioning,
        params=_DEFAULTS,
    ),
    Experiment(
        name="posg-max-cost",
        figure="POSG Figure 6",
        summary="speed-up by the largest cost",
        x_label="largest cost (ms)",
        xs=(8, 16, 32, 64, 128, 256, 512),
        run=compare(lambda x: Case(workload=Synthetic(max_cost_ms=float(x)))),
        claims=claims.max_cost,
        params=_DEFAULTS,
    ),
    Experiment(
        name="posg-cost-values",
        figure="POSG Figure 7",
        summary="speed-up by the number of costs",
        x_label="number of different costs",
        xs=(2, 4, 8, 16, 32, 64, 128, 256),
        run=compare(lambda x: Case(workload=Synthetic(cost_values=int(float(x))))),
        claims=claims.cost_values,
        params=_DEFAULTS,
    ),
    Experiment(
        name="posg-instances",
        figure="POSG Figure 8",
        summary="speed-up by the number of instances",
        x_label="instances",
        xs=tuple(range(1, 11)),
        run=compare(lambda x: Case(instances=int(float(x)))),
        claims=claims.instances,
        params=_DEFAULTS,
    ),
    Experiment(
        name="posg-precision",
        figure="POSG Figure 9",
        summary="speed-up by the cost model's precision",
        x_label="precision epsilon",
        xs=EPSILONS,
        run=compare(lambda x: Case(epsilon=float(x))),
        claims=claims.precision,
        params=_DEFAULTS,
    ),
    Experiment(
        name="posg-timeseries",
        figure="POSG Figure 10",
        summary="completion time along the stream",
        details="instances change their speed at record 75,000",
        x_label="records",
        xs=("whole",),
        run=_timeseries(
            Case(workload=Synthetic(records=150_000), slowdowns=((0, BEFORE), (CHANGE, AFTER)))
        ),
        claims=claims.timeseries,
        streams=20,
        main_metric="completion_ms",
        metrics=("completion_ms", "speedup"),
        params=_DEFAULTS | {"records": 150_000, "change": CHANGE},
    ),
    Experiment(
        name="posg-application",
        figure="POSG Figure 12",
        summary="application, by number of instances",
        details="simulated, costs of 25, 5 and 1 ms",
        x_label="instances",
        xs=tuple(range(1, 11)),
        run=compare(lambda x: Case(workload=Application(), instances=int(float(x)))),
        claims=claims.application,
        streams=10,
        metrics=("completion_ms", "speedup", "steady_speedup"),
        params={"records": 500_000, "distinct": 35_000, "top_share": 0.065, "provisioning": 1.0},
    ),
)
