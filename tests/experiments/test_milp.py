"""The experiments on load balancing: every number and every claim, with small parameters."""

import numpy as np
import pytest
from completeness import assert_complete, assert_listed

from penstock.experiments import milp
from penstock.experiments.results import Table
from penstock.policies.placement import LocalSearch, Placer

BY_NAME = {experiment.name: experiment for experiment in milp.EXPERIMENTS}


@pytest.fixture
def small(monkeypatch):
    """Fewer periods and records, and no time for the solver."""
    monkeypatch.setattr(milp, "SOLVER_S", 0.05)
    monkeypatch.setattr(milp, "PERIODS", 14)
    monkeypatch.setattr(milp, "RECORDS", 1_000)


# The claims on solvers are about this budget; the other one is a time in seconds.
XS = {"milp-solvers": (20,), "milp-fluctuation": (30,), "milp-solver-time": (0.05,)}


def run(name, extra=None, seed=0, xs=None):
    """All samples of one stream."""
    experiment = BY_NAME[name]
    return [s for x in xs or experiment.xs for s in experiment.run(x, seed, extra or {})]


@pytest.mark.parametrize("name", BY_NAME)
def test_every_experiment_has_its_claims_and_its_plot(name, small):
    samples = run(name, xs=XS.get(name))
    assert_complete(BY_NAME[name], samples)


def test_names_are_unique_and_metrics_fit():
    assert_listed(milp.EXPERIMENTS, Placer)


def test_series(small):
    series = {s.series for s in run("milp-solvers", xs=(5,))}
    assert series == {"flux", "local_search", "lower_bound", "highs", "milp"}
    series = {s.series for s in run("milp-wikipedia")}
    assert series == {"flux", "local_search", "local_search_of_10", "unrestricted", "pkg"}


def test_a_placer_of_ones_own_is_a_series_more(small):
    given = []

    def mine(budget):
        given.append(budget)
        return LocalSearch(budget, goal=3)

    for name in BY_NAME:
        samples = run(name, {"mine": mine}, xs=XS.get(name))
        assert any(s.series == "mine" for s in samples)
    assert given == [20] * 11 + [13]


def test_the_same_seed_gives_the_same_numbers(small):
    for name in ("milp-scale-in", "milp-wikipedia"):
        assert run(name, seed=1) == run(name, seed=1)
        assert run(name, seed=1) != run(name, seed=2)


def test_overloaded_workers_are_full_and_others_leave():
    cluster = milp.leaving(5, 0)
    carried = cluster.deviations(cluster.placement)
    carried[cluster.live] += cluster.mean
    assert carried[55:] == pytest.approx(100)
    assert carried[:55].max() < 55
    assert cluster.removed.sum() == 10


def test_loads_like_those_of_edits():
    loads = np.stack(list(milp.edits(0)))
    assert loads.shape == (milp.PERIODS, 300)
    assert (loads >= 0).all()
    places, articles = loads[:, :100], loads[:, 100:]
    assert places.std(axis=1).mean() < 0.1 * articles.std(axis=1).mean()
    assert loads.sum(axis=1).max() < 20 * 100


# What we promise.


def test_scale_in():
    table = Table.of_samples("", run("milp-scale-in"))
    assert all(claim.holds for claim in BY_NAME["milp-scale-in"].claims(table))


def test_wikipedia():
    table = Table.of_samples("", run("milp-wikipedia"))
    found = {claim.claim: claim.holds for claim in BY_NAME["milp-wikipedia"].claims(table)}
    assert found["local_search: load distance, mean over periods"]
    assert found["local_search: most migrations of any period of any run"]


def test_both_choices_are_even_but_for_what_is_merged(monkeypatch):
    monkeypatch.setattr(milp, "PERIODS", 20)
    merging = [s.value for s in milp.both_choices(0) if s.metric == "distance"]
    monkeypatch.setattr(milp, "MERGE", 0.0)
    alone = [s.value for s in milp.both_choices(0) if s.metric == "distance"]
    assert max(alone) < 0.5 < min(merging)
