"""The experiments on scaling: every number and every claim, and what we promise of them."""

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import EXPERIMENTS, autoscale
from penstock.experiments.autoscale_claims import advertising, survives
from penstock.experiments.results import Table
from penstock.policies.scaling import Fixed, Preventive, Scaler, Topology
from penstock.sim.graphs import simulate_graph

BY_NAME = {experiment.name: experiment for experiment in autoscale.EXPERIMENTS}
FIGURES = [name for name in BY_NAME if name != "autoscale-traces"]
SERIES = {
    "minimum",
    "expert",
    "threshold",
    "rate_based",
    "preventive_as_published",
    "preventive",
}
SUMS = {
    "mean_latency_s",
    "p99_latency_s",
    "timed_out",
    "instances_ratio",
    "reconfigurations",
    "late_reconfigurations",
}
UNFOLDING = {"rate_per_s", "instances", "latency_s"}
SEEDS = (0, 1)
GRAPHS = {
    "linear": autoscale.LINEAR,
    "chain": autoscale.SLOW_CHAIN,
    "diamond": autoscale.DIAMOND,
    "star": autoscale.STAR,
    "advertising": autoscale.ADVERTISING,
}


@pytest.fixture
def short(monkeypatch):
    """Streams of which every tenth second is kept."""
    run_all = autoscale.run_all

    def on_a_short_stream(graph, rates, seed, *, extra, start=autoscale.MINIMUM):
        return run_all(graph, lambda one: rates(one)[::10], seed, extra=extra, start=start)

    monkeypatch.setattr(autoscale, "run_all", on_a_short_stream)


def run(name, extra=None, seed=0):
    """All samples of one stream."""
    experiment = BY_NAME[name]
    return [s for x in experiment.xs for s in experiment.run(x, seed, extra or {})]


@pytest.mark.parametrize("name", FIGURES)
def test_one_stream_gives_all_numbers_of_all_series(name, short):
    samples = run(name)
    assert all(np.isfinite(s.value) for s in samples)
    whole = [(s.series, s.metric) for s in samples if s.x == "whole"]
    assert len(set(whole)) == len(whole)
    assert set(whole) == {(series, metric) for series in SERIES for metric in SUMS}
    over_time = [s for s in samples if s.x != "whole"]
    assert {(s.series, s.metric) for s in over_time} == {(a, b) for a in SERIES for b in UNFOLDING}
    keys = [(s.series, s.x, s.metric) for s in samples]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_experiment_has_its_claims_and_its_plot(name, short):
    experiment = BY_NAME[name]
    samples = run(name)
    assert_claims_and_plot(experiment, samples)


def test_traces_have_one_x_each(short):
    samples = run("autoscale-traces")
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.x for s in samples} == set(autoscale.STREAMS)
    assert {(s.series, s.metric) for s in samples} == {(a, b) for a in SERIES for b in SUMS}


def test_the_expert_is_what_others_are_compared_with(short):
    ratios = {s.series: s.value for s in run("autoscale-diamond") if s.metric == "instances_ratio"}
    assert ratios["expert"] == 1
    assert ratios["minimum"] == pytest.approx(4 / 12)


def test_a_scaler_of_ones_own_is_a_series_more(short):
    given = []

    def mine(most):
        given.append(most)
        return Fixed(min_degree=2)

    samples = run("autoscale-linear-3step", {"mine": mine})
    found = {s.metric: s.value for s in samples if s.series == "mine" and s.x == "whole"}
    assert given == [8]
    assert set(found) == SUMS
    assert found["reconfigurations"] == 1
    instances = {s.value for s in samples if s.series == "mine" and s.metric == "instances"}
    assert instances == {2.0, 4.0}


def test_the_same_seed_gives_the_same_numbers(short):
    assert run("autoscale-linear-5step", seed=1) == run("autoscale-linear-5step", seed=1)
    assert run("autoscale-linear-5step", seed=1) != run("autoscale-linear-5step", seed=2)


def test_from_the_experts_configuration(short):
    minimum, expert = (
        autoscale.run_all(autoscale.LINEAR, autoscale.three_steps, 0, extra={}, start=start)
        for start in (autoscale.MINIMUM, autoscale.EXPERT)
    )
    assert minimum["preventive"].degrees["sink"][0] == 1
    assert expert["preventive"].degrees["sink"][0] == 8
    # These two are configurations themselves.
    for series, degrees in {"minimum": {1}, "expert": {8}}.items():
        for results in (minimum, expert):
            assert set(results[series].degrees["sink"]) == degrees


@pytest.mark.parametrize("name", ["three_steps", "five_steps", "dip", "constant", "diurnal"])
def test_streams_are_as_long_as_they_say_and_never_negative(name):
    stream = getattr(autoscale, name)(0)
    assert (stream >= 0).all()
    assert stream.max() < 1.5 * autoscale.HIGH
    np.testing.assert_array_equal(stream, getattr(autoscale, name)(0))
    assert (stream != getattr(autoscale, name)(1)).any()


def test_steps_of_figures_7_and_8():
    three, five = autoscale.three_steps(0), autoscale.five_steps(0)
    assert three.size == five.size == 1_800
    means = [three[:300].mean(), three[600:1_200].mean(), three[1_230:].mean()]
    assert means == pytest.approx([8, 90, 8], rel=0.02)
    means = five.reshape(5, 360).mean(axis=1)
    assert means == pytest.approx([8, 90, 20, 90, 8], rel=0.02)
    assert autoscale.dip(0)[500:510].sum() == 0
    assert autoscale.flash_crowd(0).argmax() in range(600, 800)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_what_the_expert_gives_is_enough_for_the_plateau(graph):
    topology = Topology(graph.parents)
    assert set(graph.parents) == set(graph.cost_ms) == set(graph.expert)
    assert set(graph.selectivity) <= set(graph.parents)
    per_s = autoscale.HIGH / len(topology.sources)
    result = simulate_graph(
        Fixed(graph.expert),
        topology,
        graph.nodes(graph.expert),
        rate_per_s=np.full(60, per_s),
    )
    assert result.timed_out == 0
    assert result.latency_s[-1] == pytest.approx(result.latency_s[0])


def test_names_are_unique_and_metrics_fit():
    assert len(BY_NAME) == len(autoscale.EXPERIMENTS)
    assert set(BY_NAME) <= set(EXPERIMENTS)
    for experiment in autoscale.EXPERIMENTS:
        assert experiment.main_metric in experiment.metrics
        assert experiment.name.startswith("autoscale-")
        assert experiment.family is Scaler
        assert not experiment.on_driver


# What we promise, on whole streams.


def whole(graph, rates, series="preventive", seeds=SEEDS):
    """Sums of some streams, by metric: a value each."""
    found = {}
    for seed in seeds:
        results = autoscale.run_all(graph, rates, seed, extra={})
        for sample in autoscale.samples_of(results, "whole"):
            found.setdefault((sample.series, sample.metric), []).append(sample.value)
    return {metric: np.array(v) for (name, metric), v in found.items() if name == series}


def test_three_steps():
    found = whole(autoscale.LINEAR, autoscale.three_steps)
    assert (found["timed_out"] == 0).all()
    assert (found["mean_latency_s"] < 0.10).all()
    assert (found["instances_ratio"] <= 0.60).all()


def test_five_steps():
    found = whole(autoscale.LINEAR, autoscale.five_steps)
    assert (found["timed_out"] == 0).all()
    assert (found["p99_latency_s"] < 18).all()
    assert (found["instances_ratio"] <= 0.68).all()


@pytest.mark.parametrize("name", ["three_steps", "five_steps"])
def test_the_minimum_collapses_and_does_not_recover(name):
    results = autoscale.run_all(autoscale.LINEAR, getattr(autoscale, name), 0, extra={})
    minimum = results["minimum"]
    assert minimum.timed_out > 1_000
    assert minimum.latency_s[-1] > 100  # although one instance could do what comes
    assert minimum.rate_per_s[-1] < 12.5
    assert results["expert"].timed_out == 0


def test_noise_at_constant_load_is_no_reason_to_change():
    found = whole(autoscale.LINEAR, autoscale.constant, seeds=range(4))
    assert (found["late_reconfigurations"] == 0).all()
    assert (found["timed_out"] == 0).all()


def test_a_dip_removes_nothing():
    found = autoscale.run_all(autoscale.LINEAR, autoscale.dip, 0, extra={})["preventive"]
    assert found.timed_out == 0
    assert set(found.degrees["sink"][48:]) == {8}


@pytest.mark.parametrize("name", ["autoscale-chain", "autoscale-diamond", "autoscale-star"])
def test_other_topologies_survive(name):
    samples = [s for s in run(name) if s.x == "whole"]
    claims = survives(Table.of_samples("", samples))
    ours = [claim.holds for claim in claims if claim.claim.startswith("preventive:")]
    assert ours == [True, True]


def test_advertising():
    samples = [s for s in run("autoscale-advertising") if s.x == "whole"]
    claims = advertising(Table.of_samples("", samples))
    ours = [claim.holds for claim in claims if claim.claim.startswith("preventive:")]
    assert ours == [True] * 3


# Counts and claims by hand.


def test_late_changes_are_those_after_ten_periods():
    def late(at):
        plans = iter(range(1, 100))

        class Changing(Scaler):
            def wanted(self, topology, history):
                return {"intermediate": (2 if next(plans) >= at else 1, "now")}

        topology = Topology(autoscale.LINEAR.parents)
        nodes = autoscale.LINEAR.nodes({})
        return autoscale._late(
            simulate_graph(Changing(), topology, nodes, rate_per_s=np.full(200, 5.0))
        )

    assert late(1) == late(9) == 0
    assert late(15) == 1


def table_of(changed):
    """Everything is equal, but for what is given by (series, metric)."""
    values = {(series, metric): 1.0 for series in SERIES for metric in SUMS}
    values |= {(series, "timed_out"): 0.0 for series in SERIES} | changed
    return Table.of_samples("", [(s, "whole", m, v) for (s, m), v in values.items()])


@pytest.mark.parametrize(
    "latency, instances, holds",
    [
        (0.94, 0.94, False),
        (1.0, 0.94, False),
        (1.05, 0.5, False),
        (0.5, 1.0, False),
        (1.06, 0.5, True),
        (0.5, 1.06, True),
        (0.96, 0.96, True),
        (1.0, 1.0, True),
    ],
)
def test_a_scaler_is_better_if_it_is_not_worse_in_the_other(latency, instances, holds):
    changed = {
        ("rate_based", "mean_latency_s"): latency,
        ("rate_based", "instances_ratio"): instances,
    }
    claim = survives(table_of(changed))[-1]
    assert claim.holds is holds
    assert claim.ours == ("none" if holds else "rate_based")


def test_a_record_that_timed_out_in_any_seed_is_one_too_many():
    samples = [("preventive", "whole", "timed_out", value) for value in (0.0, 0.0, 3.0)]
    others = [(r.series, r.x, r.metric, r.mean) for r in table_of({}).rows]
    others = [s for s in others if (s[0], s[2]) != ("preventive", "timed_out")]
    published, _, ours, *_ = survives(Table.of_samples("", samples + others))
    assert published.holds
    assert not ours.holds
    assert ours.ours == 3


def test_preventive_is_what_ships():
    assert autoscale.scalers(autoscale.LINEAR, {})["preventive"] == Preventive()
