"""The experiments on consistent grouping, on short streams: every number and every claim."""

from dataclasses import replace

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import cg
from penstock.experiments.results import Table
from penstock.policies.grouping import Grouping, KeyHash, RoundRobin
from penstock.sim import Stream, Words, simulate

RECORDS = 6_000
BY_NAME = {experiment.name: experiment for experiment in cg.EXPERIMENTS}
# Where not all the values of x are needed by claims: those that are.
SOME = {
    "cg-choices": (0.1, 2.0),
    "cg-sources": (1, 100),
    "cg-heterogeneous-grid": ("1x2", "3x6", "9x10"),
}


@pytest.fixture
def short(monkeypatch):
    """Streams of 6,000 records."""
    results, zipf = cg.Cluster.results, cg.zipf

    def on_a_short_stream(cluster, seed, extra, *others):
        workload = replace(cluster.workload, records=RECORDS)
        return results(replace(cluster, workload=workload), seed, extra, *others)

    monkeypatch.setattr(cg.Cluster, "results", on_a_short_stream)
    monkeypatch.setattr(cg, "RECORDS", RECORDS)
    monkeypatch.setattr(cg, "zipf", lambda exponent: zipf(exponent, RECORDS))
    monkeypatch.setattr(cg, "DISTINCT", 1_000)


def run(name, extra=None):
    """All samples of one stream."""
    experiment = BY_NAME[name]
    return [s for x in SOME.get(name, experiment.xs) for s in experiment.run(x, 0, extra or {})]


@pytest.mark.parametrize("name", BY_NAME)
def test_every_experiment_has_its_numbers_and_claims(name, short):
    experiment = BY_NAME[name]
    samples = run(name)
    assert all(np.isfinite(s.value) for s in samples)
    assert_claims_and_plot(experiment, samples)


@pytest.mark.parametrize("name", ["cg-workers", "cg-homogeneous", "cg-virtual-workers"])
def test_a_grouping_of_ones_own_is_a_series_more(name, short):
    samples = run(name, {"mine": KeyHash})
    mine = {(s.x, s.metric) for s in samples if s.series == "mine"}
    assert {metric for _, metric in mine} >= set(BY_NAME[name].metrics) - {
        "imbalance_of_bins",
        "memory_of_bins",
    }


def test_the_same_seed_gives_the_same_numbers(short):
    assert run("cg-homogeneous") == run("cg-homogeneous")
    experiment = BY_NAME["cg-homogeneous"]
    assert experiment.run("whole", 1, {}) != experiment.run("whole", 2, {})


def test_names_are_unique_and_metrics_fit():
    assert len(BY_NAME) == len(cg.EXPERIMENTS)
    for experiment in cg.EXPERIMENTS:
        assert experiment.main_metric in experiment.metrics
        assert experiment.name.startswith("cg-")
        assert not experiment.on_driver


def test_spread_by_hand():
    # In turn: 0, 1, 0, 1, 0; keys 1 and 2 are in two places, 3 in one.
    found = cg.spread(RoundRobin(2), np.array([1, 1, 2, 2, 3]))
    assert found == {"imbalance": pytest.approx(3 / 2.5 - 1), "memory": pytest.approx(5 / 3)}


def test_powerful_workers_have_the_mean_capacity_one():
    capacities = cg.powerful(3, 5.0)
    assert len(capacities) == 10
    assert np.mean(capacities) == pytest.approx(1)
    assert capacities[0] == pytest.approx(5 * capacities[-1])
    assert len(set(capacities)) == 2
    assert cg.powerful(0, 5.0, workers=4) == (1.0,) * 4


def test_schemes_count_for_ever():
    assert {getattr(one, "half_life", None) for one in cg.schemes(4).values()} == {None}
    assert {one.instances for one in cg.schemes(4).values()} == {4}


class First(Grouping):
    """All to the first instance."""

    def route(self, keys, now_ms=None):
        return np.zeros(len(keys), dtype=np.int32)


def test_a_summary_by_hand():
    # A record of 1 ms every ms on the first of two: no queue at all.
    calm = simulate(First(2), Stream.of([1] * 501, [1.0] * 501).every(1.0))
    found = cg.summary(calm)
    assert found["late_imbalance"] == 1  # twice the mean
    assert found["late_completion_ms"] == 1
    assert found["late_p99_ms"] == 1
    assert found["queue_at_end"] == 1  # the last one has just arrived
    assert found["throughput_per_s"] == 1_000
    assert found["memory"] == 1
    assert found["moves"] == 0


def test_a_summary_of_an_overload_by_hand():
    # 2 ms each: half of the records that have come are not done.
    busy = simulate(First(1), Stream.of([1] * 11, [2.0] * 11).every(1.0))
    found = cg.summary(busy)
    assert found["queue_at_end"] == 6
    assert found["throughput_per_s"] == 500
    # Record i is done at 2 (i + 1), so i + 2 ms after it came; the late ones are 5 to 10.
    assert found["late_completion_ms"] == 9.5


def test_a_cluster_changes_its_capacities_at_each_part(short):
    cluster = cg.Cluster(workload=Words(RECORDS), phases=((1.0, 1.0), (0.5, 1.5), (1.5, 0.5)))
    result = cluster.results(0, {}, "round_robin")["round_robin"]
    for part, capacities in zip(np.split(np.arange(RECORDS), 3), cluster.phases, strict=True):
        expected = 1 / np.array(capacities)[result.instances[part]]
        np.testing.assert_allclose(result.executed_ms[part], expected)


def test_a_cluster_is_loaded_to_80_percent(short):
    result = cg.Cluster(phases=((1.0,) * 4,)).results(0, {}, "round_robin")["round_robin"]
    np.testing.assert_allclose(result.utilization(1), 0.8, rtol=0.01)


# Claims that hold or not, as the numbers are.


def table(*samples):
    return Table.of_samples("Figure", samples)


def test_never_above_looks_at_every_x():
    def claim(high):
        return cg.claims._below(
            table(
                ("low", 1, "memory", 1.0),
                ("low", 2, "memory", 2.0),
                ("high", 1, "memory", 1.5),
                ("high", 2, "memory", high),
            ),
            "memory",
            low="low",
            high="high",
        )

    assert claim(2.0).holds
    assert claim(2.0).ours == 1.0
    assert not claim(1.9).holds


def test_a_queue_diverges_if_it_grows_in_the_second_half():
    def claim(*queues):
        spread = [("cg", i, "queue_spread", float(q)) for i, q in enumerate(queues, 1)]
        found = table(*spread, ("cg", "whole", "queue_spread", 0.0))
        return cg.cluster_claims._diverges(found, "cg", "Figure 9", paper="grows")

    assert claim(10, 20, 30, 40, 50, 60).holds
    assert not claim(10, 20, 30, 30, 30, 30).holds


def test_memory_falls_with_epsilon_or_the_claim_does_not_hold():
    def claims(*memory):
        samples = [
            sample
            for series in cg.claims.BOTH
            for x, m in zip((0.01, 0.1), memory, strict=True)
            for sample in ((series, x, "memory", m), (series, x, "imbalance", x))
        ]
        samples += [("round_robin", x, "memory", 3.0) for x in (0.01, 0.1)]
        found = cg.claims.epsilon(table(*samples))
        return [claim.holds for claim in found]

    assert claims(2.0, 1.5) == 2 * [True, True, True, True]
    assert claims(1.5, 2.0) == 2 * [True, True, False, True]
    assert claims(3.5, 2.0) == 2 * [True, True, True, False]
