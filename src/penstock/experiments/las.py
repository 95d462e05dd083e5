"""The evaluation of the LAS paper: Figures 4 to 9 and, in simulation, 11."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.experiments import las_claims as claims
from penstock.experiments import las_series_claims as series_claims
from penstock.experiments.base import Experiment, Extra, Run, Sample, X, samples
from penstock.policies.costs import CountMin, Exact
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import (
    FullKnowledge,
    LoadAware,
    LoadAwareAsPublished,
    MeanCost,
    RandomDrop,
    Shedder,
    Target,
    average,
)
from penstock.sim import Application, Result, Schedule, Stream, Synthetic, Workload, simulate

# Records at 83% of the capacity, from which shedders learn before the measurement.
WARM_UP = 8_192
CALM = 1.2

SYNTHETIC = Synthetic(min_cost_ms=0.1, max_cost_ms=6.4)
UNDER = (-0.1, 0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LIMITS_MS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)
MAX_COSTS_MS = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)
EXPONENTS = {"uniform": 0.0} | {f"zipf-{a:.1f}": a for a in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)}
EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)

_ENTRY_BYTES = 28

# Figure 9: interval between two records over the mean cost, by phase.
PHASE = 20_000
BIN = 4_000
PHASES = {"A": 1.0, "B": 0.5, "C": 1.0, "D": 1.0, "E": 1.5, "F": 1.0, "G": 1.0}


@dataclass(frozen=True)
class Case:
    """Settings of the simulation at one x; the defaults are those of section 5.1."""

    workload: Workload = SYNTHETIC
    under: float = 0.25
    target: Target = field(default_factory=lambda: average("6.4 ms"))
    epsilon: float = 0.05
    capacity: int = 1_024

    def shedders(self, costs: Exact, mean_ms: float, extra: Extra) -> dict[str, Shedder]:
        """Return new shedders, by series; the baseline comes first."""
        target = self.target
        epsilon = min(self.epsilon, 0.999)
        return {
            "random_drop": RandomDrop(max(self.under, 0.0)),
            "mean_cost": MeanCost(target, mean_ms),
            "las_as_published": LoadAwareAsPublished(target, epsilon=epsilon),
            "las": LoadAware(target, capacity=self.capacity),
            "las_cheap_first": LoadAware(target, "cheap", capacity=self.capacity),
            "full_knowledge": FullKnowledge(target, costs),
            "full_knowledge_cheap_first": FullKnowledge(target, costs, keep="cheap"),
            **{series: make(target) for series, make in extra.items()},
        }

    def results(self, seed: int, extra: Extra, *, warm: bool) -> dict[str, Result]:
        """Simulate all shedders on the same stream; warm ones first learn from a calm time."""
        drawn = _longer(self.workload, WARM_UP).stream(seed)
        main = drawn.part(WARM_UP)
        mean_ms = float(main.costs_ms.mean())
        calm = drawn.part(0, WARM_UP).every(CALM * mean_ms)
        busy = main.every((1 - self.under) * mean_ms)
        found = {}
        for series, shedder in self.shedders(drawn.exact_costs(), mean_ms, extra).items():
            if warm:
                simulate(RoundRobin(1), calm, shedder=shedder)
                shedder.restart()
            found[series] = simulate(RoundRobin(1), busy, shedder=shedder)
        return found


def _longer(workload: Workload, records: int) -> Workload:
    return replace(workload, records=workload.records + records)  # type: ignore[type-var,attr-defined]


def _cells(epsilon: float) -> int:
    """Return the number of entries that take as much memory as the matrices of this precision."""
    model = CountMin(epsilon=min(epsilon, 0.999))
    return max(1, model.memory_bytes // _ENTRY_BYTES)


def compare(case_of: Callable[[X], Case]) -> Run:
    """Return a run that reports waiting times and shed records, after a calm time and without."""

    def run(x: X, seed: int, extra: Extra) -> list[Sample]:
        case = case_of(x)
        found: list[Sample] = []
        for prefix, warm in (("", True), ("cold_", False)):
            results = case.results(seed, extra, warm=warm)
            base = results["random_drop"].dropped_ratio()
            for series, result in results.items():
                dropped = result.dropped_ratio()
                metrics = {"queuing_ms": result.mean_waiting_ms(), "dropped_ratio": dropped}
                if base > 0:
                    metrics["shedding_ratio"] = (dropped - base) / base
                if warm:
                    metrics["messages_per_100"] = result.messages_per_100
                found += samples(series, x, {prefix + name: v for name, v in metrics.items()})
        return found

    return run


def phases(seed: int) -> tuple[Stream, Schedule]:
    """Return the stream of Figure 9, and the slowdowns of the operator."""
    drawn = replace(SYNTHETIC, records=len(PHASES) * PHASE).stream(seed)
    costs = drawn.exact_costs()
    keys = drawn.keys.copy()
    known, counts = np.unique(keys, return_counts=True)
    frequent = known[np.argmax(counts)]
    costly = costs.estimate(known) == drawn.costs_ms.max()
    rare = known[costly][np.argmin(counts[costly])]
    start = list(PHASES).index("D") * PHASE
    swapped = keys[start : start + PHASE].copy()
    keys[start : start + PHASE][swapped == frequent] = rare
    keys[start : start + PHASE][swapped == rare] = frequent
    intervals = np.repeat(list(PHASES.values()), PHASE) * float(drawn.costs_ms.mean())
    arrivals = np.cumsum(intervals) - intervals
    stream = Stream.of(keys, costs.estimate(keys)).arriving(arrivals)
    slow = list(PHASES).index("F") * PHASE
    return stream, ((slow, (2.0,)), (slow + PHASE, (1.0,)))


def _timeseries(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Report mean waiting time and shed records every 4,000 records."""
    stream, slowdowns = phases(seed)
    mean_ms = float(stream.costs_ms.mean())
    case = Case(under=0.0, target=average(series_claims.LIMIT_MS))
    found: list[Sample] = []
    for series, shedder in case.shedders(stream.exact_costs(), mean_ms, extra).items():
        if series == "random_drop":
            continue
        result = simulate(RoundRobin(1), stream, slowdowns=slowdowns, shedder=shedder)
        found += _unfolding(series, result, BIN)
    return found


def _unfolding(series: str, result: Result, width: int) -> list[Sample]:
    found = []
    for start in range(0, len(result.stream), width):
        stop = start + width
        metrics = {
            "queuing_ms": result.mean_waiting_ms(start, stop),
            "completion_ms": result.mean_completion_ms(start, stop),
            "dropped_ratio": result.dropped_ratio(start, stop),
        }
        found += samples(series, stop, {name: v for name, v in metrics.items() if np.isfinite(v)})
    return found


APPLICATION = Application(records=500_000)
APPLICATION_BIN = 20_000


def _application(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: completion times of the application over time."""
    case = Case(workload=APPLICATION, under=0.0, target=average("32 ms"))
    found = []
    for series, result in case.results(seed, extra, warm=True).items():
        if series != "random_drop":
            found += _unfolding(series, result, APPLICATION_BIN)
    return found


_DEFAULTS: dict[str, object] = {
    "records": 32_768,
    "warm_up_records": WARM_UP,
    "distinct": 4_096,
    "exponent": 1.0,
    "cost_values": 64,
    "min_cost_ms": 0.1,
    "max_cost_ms": 6.4,
    "under_provisioning": 0.25,
    "target": "average of 6.4 ms",
}
_METRICS = ("queuing_ms", "dropped_ratio", "shedding_ratio")


def _figure(
    name: str,
    case_of: Callable[[X], Case],
    check: claims.Check,
    *,
    figure: int,
    by: str,
    x_label: str,
    xs: tuple[X, ...],
) -> Experiment:
    return Experiment(
        name=name,
        figure=f"LAS Figure {figure}",
        summary=f"waiting and drops by {by}",
        x_label=x_label,
        xs=xs,
        run=compare(case_of),
        claims=check,
        main_metric="queuing_ms",
        metrics=_METRICS,
        params=_DEFAULTS,
        family=Shedder,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _figure(
        "las-provisioning",
        lambda x: Case(under=float(x)),
        claims.provisioning,
        figure=4,
        by="overload",
        x_label="under-provisioning",
        xs=UNDER,
    ),
    _figure(
        "las-threshold",
        lambda x: Case(target=average(float(x))),
        claims.threshold,
        figure=5,
        by="target",
        x_label="target (ms)",
        xs=LIMITS_MS,
    ),
    _figure(
        "las-max-cost",
        lambda x: Case(workload=replace(SYNTHETIC, max_cost_ms=float(x)), target=average(float(x))),
        claims.max_cost,
        figure=6,
        by="largest cost",
        x_label="largest cost and target (ms)",
        xs=MAX_COSTS_MS,
    ),
    _figure(
        "las-distributions",
        lambda x: Case(workload=replace(SYNTHETIC, exponent=EXPONENTS[str(x)])),
        claims.distributions,
        figure=7,
        by="key distribution",
        x_label="distribution of keys",
        xs=tuple(EXPONENTS),
    ),
    _figure(
        "las-precision",
        lambda x: Case(epsilon=float(x), capacity=_cells(float(x))),
        claims.precision,
        figure=8,
        by="precision",
        x_label="precision epsilon of the cost model",
        xs=EPSILONS,
    ),
    Experiment(
        name="las-timeseries",
        figure="LAS Figure 9",
        summary="waiting time along the stream",
        details="phases A to G of 20,000 records each",
        x_label="records",
        xs=("whole",),
        run=_timeseries,
        claims=series_claims.timeseries,
        streams=20,
        main_metric="queuing_ms",
        metrics=("queuing_ms", "dropped_ratio"),
        params=_DEFAULTS
        | {"records": len(PHASES) * PHASE, "target": "average of 64 ms", "phases": PHASES},
        family=Shedder,
    ),
    Experiment(
        name="las-application",
        figure="LAS Figure 11",
        summary="completion time of an application",
        details="simulated, costs of 25, 5 and 1 ms",
        x_label="records",
        xs=("whole",),
        run=_application,
        claims=series_claims.application,
        streams=10,
        main_metric="completion_ms",
        metrics=("completion_ms", "dropped_ratio"),
        params={
            "records": APPLICATION.records,
            "distinct": APPLICATION.distinct,
            "warm_up_records": WARM_UP,
            "under_provisioning": 0.0,
            "target": "average of 32 ms",
        },
        family=Shedder,
    ),
)
