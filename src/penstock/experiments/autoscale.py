"""The evaluation of the AUTOSCALE paper: Figures 9, 10 and 12, and topologies beyond them.

The figures' streams are not in the text. The ones here show what the paper says of them: sinks
get 8 to 90 records a second, the expert's eight instances can do 100. Steps begin at a random
phase of the monitoring period: steps that begin with it flatter everyone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.experiments import autoscale_claims as claims
from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.policies.kernels import Float64
from penstock.policies.scaling import (
    Fixed,
    Preventive,
    PreventiveAsPublished,
    RateBased,
    Scaler,
    Threshold,
    Topology,
)
from penstock.sim import GraphResult, Node, simulate_graph

LOW, HIGH = 8.0, 90.0
NOISE = 0.03
PERIOD_S = 10.0
MOST = 8
MINIMUM, EXPERT = "from the minimum", "from the expert's"


@dataclass(frozen=True)
class Graph:
    """A topology with its operators, and what an expert would give them.

    Attributes:
        parents: of each operator.
        cost_ms: of each operator.
        expert: degree of each operator.
        selectivity: of those that have one.
    """

    parents: dict[str, tuple[str, ...]]
    cost_ms: dict[str, float]
    expert: dict[str, int]
    selectivity: dict[str, float]

    def nodes(self, degrees: dict[str, int]) -> dict[str, Node]:
        """Return operators with these degrees, or one instance each."""
        return {
            name: Node(self.cost_ms[name], self.selectivity.get(name, 1.0), degrees.get(name, 1))
            for name in self.parents
        }


LINEAR = Graph(
    {"intermediate": (), "sink": ("intermediate",)},
    {"intermediate": 2.0, "sink": 80.0},
    {"intermediate": 1, "sink": 8},
    {},
)
SLOW_CHAIN = Graph(
    LINEAR.parents, {"intermediate": 20.0, "sink": 80.0}, {"intermediate": 2, "sink": 8}, {}
)
DIAMOND = Graph(
    {"split": (), "left": ("split",), "right": ("split",), "join": ("left", "right")},
    {"split": 2.0, "left": 10.0, "right": 20.0, "join": 40.0},
    {"split": 1, "left": 1, "right": 2, "join": 8},
    {},
)
STAR = Graph(
    {"one": (), "two": (), "centre": ("one", "two"), "left": ("centre",), "right": ("centre",)},
    {"one": 2.0, "two": 2.0, "centre": 5.0, "left": 40.0, "right": 40.0},
    {"one": 1, "two": 1, "centre": 1, "left": 8, "right": 8},
    {},
)
# Figure 11: a filter lets a part of the events pass, so that its slow successors need little.
ADVERTISING = Graph(
    {
        "deserialize": (),
        "filter": ("deserialize",),
        "ip projection": ("filter",),
        "ad projection": ("filter",),
        "join": ("ad projection",),
        "ip processor": ("ip projection",),
        "campaign processor": ("join",),
    },
    {
        "deserialize": 5.0,
        "filter": 2.0,
        "ip projection": 5.0,
        "ad projection": 5.0,
        "join": 20.0,
        "ip processor": 60.0,
        "campaign processor": 60.0,
    },
    # By latencies alone, as the paper has its expert choose.
    {
        "deserialize": 1,
        "filter": 1,
        "ip projection": 1,
        "ad projection": 1,
        "join": 3,
        "ip processor": 7,
        "campaign processor": 7,
    },
    {"filter": 0.3},
)


def three_steps(seed: int) -> Float64:
    """Low, a ramp, high, a drop, low again (Figure 7)."""
    parts = (
        np.full(300, LOW),
        np.linspace(LOW, HIGH, 300),
        np.full(600, HIGH),
        np.linspace(HIGH, LOW, 30),
        np.full(570, LOW),
    )
    return noisy(np.concatenate(parts), seed)


def five_steps(seed: int) -> Float64:
    """Low, high, a little, high and low again, without transitions (Figure 8)."""
    return noisy(np.repeat([LOW, HIGH, 20.0, HIGH, LOW], 360), seed)


def dip(seed: int) -> Float64:
    """A plateau that stops for ten seconds."""
    rates = np.full(900, HIGH)
    rates[500:510] = 0.0
    return noisy(rates, seed)


def constant(seed: int) -> Float64:
    """A constant load with 10% noise."""
    return noisy(np.full(1_200, 50.0), seed, 0.1)


def diurnal(seed: int) -> Float64:
    """A day and its night, in forty minutes, with an hour's noise."""
    at = np.arange(2_400)
    wave = LOW + (HIGH - LOW) * (0.5 - 0.5 * np.cos(2 * np.pi * at / 1_200))
    return noisy(wave, seed, 0.08)


def flash_crowd(seed: int) -> Float64:
    """A calm stream that everybody looks at, at once, and slowly loses interest."""
    rates = np.full(1_800, 15.0)
    rates[600:] += (HIGH - 15.0) * np.exp(-np.arange(1_200) / 300)
    return noisy(rates, seed, 0.08)


def noisy(rates: Float64, seed: int, noise: float = NOISE) -> Float64:
    """Add irregular fluctuations."""
    drawn = np.random.default_rng(seed).standard_normal(rates.size)
    return np.maximum(rates * (1 + noise * drawn), 0.0)


def scalers(graph: Graph, extra: Extra) -> dict[str, Scaler]:
    """Return all scalers, by series."""
    return {
        "minimum": Fixed(),
        "expert": Fixed(graph.expert),
        "threshold": Threshold(),
        "rate_based": RateBased(),
        "preventive_as_published": PreventiveAsPublished(),
        "preventive": Preventive(),
        **{series: make(MOST) for series, make in extra.items()},
    }


def run_all(
    graph: Graph, rates: Callable[[int], Float64], seed: int, extra: Extra, start: str = MINIMUM
) -> dict[str, GraphResult]:
    """Simulate all scalers on the same stream."""
    topology = Topology(graph.parents)
    phase_s = round(float(np.random.default_rng(10_000 + seed).uniform(0.1, PERIOD_S)), 1)
    stream = rates(seed)
    found = {}
    for series, scaler in scalers(graph, extra).items():
        degrees = graph.expert if series == "expert" or start == EXPERT else {}
        if series == "minimum":
            degrees = {}
        nodes = graph.nodes(degrees)
        found[series] = simulate_graph(
            scaler, topology, nodes, rate_per_s=stream, period_s=PERIOD_S, phase_s=phase_s
        )
    return found


def figure(
    graph: Graph, rates: Callable[[int], Float64], start: str = MINIMUM
) -> Callable[[X, int, Extra], list[Sample]]:
    """Return a run that reports everything over time, and in sum."""

    def run(_: X, seed: int, extra: Extra) -> list[Sample]:
        results = run_all(graph, rates, seed, extra, start)
        return samples_of(results, "whole") + unfolding(results)

    return run


def several(
    streams: dict[str, Callable[[int], Float64]], graph: Graph
) -> Callable[[X, int, Extra], list[Sample]]:
    """Return a run over streams of different shapes: x is the name of the stream."""

    def run(x: X, seed: int, extra: Extra) -> list[Sample]:
        return samples_of(run_all(graph, streams[str(x)], seed, extra), x)

    return run


def samples_of(results: dict[str, GraphResult], x: X) -> list[Sample]:
    """Return what a run gave in sum."""
    base = results["expert"].instance_s
    samples = []
    for series, result in results.items():
        metrics = {
            "mean_latency_s": result.mean_latency_s,
            "p99_latency_s": result.latency_quantile_s(0.99),
            "timed_out": result.timed_out,
            "instances_ratio": result.instance_s / base,
            "reconfigurations": result.reconfigurations,
            "late_reconfigurations": _late(result),
        }
        samples += [Sample(series, x, name, float(value)) for name, value in metrics.items()]
    return samples


def _late(result: GraphResult) -> int:
    """Count changes of degrees after the first ten periods."""
    degrees = np.stack(list(result.degrees.values()))[:, 11:]
    return int((np.diff(degrees, axis=1) != 0).any(axis=0).sum())


def unfolding(results: dict[str, GraphResult]) -> list[Sample]:
    """Return input rate, instances and latency, period by period."""
    samples = []
    for series, result in results.items():
        total = np.stack(list(result.degrees.values())).sum(axis=0)
        for i, rate in enumerate(result.rate_per_s):
            at = (i + 1) * PERIOD_S
            samples.append(Sample(series, at, "rate_per_s", float(rate)))
            samples.append(Sample(series, at, "instances", float(total[i])))
            if np.isfinite(result.latency_s[i]):
                samples.append(Sample(series, at, "latency_s", float(result.latency_s[i])))
    return samples


_PARAMS: dict[str, object] = {
    "low_per_s": LOW,
    "high_per_s": HIGH,
    "noise": NOISE,
    "period_s": PERIOD_S,
    "timeout_s": 30,
    "max_degree": MOST,
    "phase": "random",
}


def _experiment(
    name: str,
    figure_of: str,
    summary: str,
    run: Callable[[X, int, Extra], list[Sample]],
    check: claims.Check,
) -> Experiment:
    return Experiment(
        name=name,
        figure=figure_of,
        summary=summary,
        x_label="seconds",
        xs=("whole",),
        run=run,
        claims=check,
        streams=8,
        main_metric="latency_s",
        metrics=("rate_per_s", "instances", "latency_s"),
        params=_PARAMS,
        family=Scaler,
    )


STREAMS: dict[str, Callable[[int], Float64]] = {
    "diurnal": diurnal,
    "flash crowd": flash_crowd,
    "dip of 10 s": dip,
    "constant, 10% noise": constant,
}

EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment(
        "autoscale-linear-3step",
        "AUTOSCALE Figure 9a",
        "3-step stream, linear topology, from the minimum configuration",
        figure(LINEAR, three_steps),
        claims.three_steps,
    ),
    _experiment(
        "autoscale-linear-3step-expert",
        "AUTOSCALE Figure 9b",
        "3-step stream, linear topology, from the expert's configuration",
        figure(LINEAR, three_steps, EXPERT),
        claims.three_steps,
    ),
    _experiment(
        "autoscale-linear-5step",
        "AUTOSCALE Figure 10",
        "5-step stream, linear topology, from the minimum configuration",
        figure(LINEAR, five_steps),
        claims.five_steps,
    ),
    _experiment(
        "autoscale-chain",
        "beyond the paper",
        "5-step stream, two slow operators (20 and 80 ms)",
        figure(SLOW_CHAIN, five_steps),
        claims.survives,
    ),
    _experiment(
        "autoscale-diamond",
        "AUTOSCALE, section V",
        "3-step stream, diamond topology",
        figure(DIAMOND, three_steps),
        claims.survives,
    ),
    _experiment(
        "autoscale-star",
        "AUTOSCALE, section V",
        "3-step stream shared by two sources, star topology",
        figure(STAR, lambda seed: three_steps(seed) / 2),
        claims.survives,
    ),
    _experiment(
        "autoscale-advertising",
        "AUTOSCALE Figure 12",
        "3-step stream, advertising topology with a selective filter",
        figure(ADVERTISING, three_steps, EXPERT),
        claims.advertising,
    ),
    Experiment(
        name="autoscale-traces",
        figure="beyond the paper",
        summary="generated traces (day and night, flash crowd, dip, constant), linear topology",
        x_label="stream",
        xs=tuple(STREAMS),
        run=several(STREAMS, LINEAR),
        claims=claims.traces,
        streams=8,
        main_metric="mean_latency_s",
        metrics=("mean_latency_s", "instances_ratio", "reconfigurations"),
        params=_PARAMS | {"traces": "generated; no real rate trace is in an installable package"},
        family=Scaler,
    ),
)
