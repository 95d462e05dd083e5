"""Kernels of cost tables, one by one, where the models that use them hide a wrong number."""

import numpy as np
import pytest

from penstock.policies.costs import SpaceSaving, call_filters, heavy_hitters
from penstock.policies.costs.call_filters import LEVEL, no_filters
from penstock.policies.costs.totals import (
    EVICTED,
    RECORDS,
    REST,
    REST_MS,
    REST_MS2,
    WITHIN,
    WITHIN_MS2,
)


def learnt(keys, costs_ms, capacity=8):
    model = SpaceSaving(capacity, seed=1)
    model.update(keys, costs_ms)
    return model


@pytest.mark.parametrize(("doubted", "expected_ms"), [(0.0, 10.0), (2.0, 7.0), (6.0, 5.5)])
def test_a_key_that_is_doubted_is_between_its_mean_and_the_rest(doubted, expected_ms):
    entries, index, _, coefficients, _ = learnt([5, 5], [10.0, 10.0]).table
    found = heavy_hitters.estimate_one(np.int64(5), 4.0, doubted, entries, index, coefficients)
    assert found == pytest.approx(expected_ms)


@pytest.mark.parametrize("cost_ms", [0.01, 0.5, 1.0, 50.0])
def test_costs_of_any_size_show_how_fast_an_instance_is(cost_ms):
    ours = learnt([1] * 100, [cost_ms] * 100)
    theirs = learnt([1] * 25, [3 * cost_ms] * 25)
    ratio, weight = heavy_hitters.relative(ours.table, theirs.table)
    assert ratio == pytest.approx(3)
    assert weight == pytest.approx(25 / (1 + 25 / 100))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_age_multiplies_every_weight_and_every_cost(scale):
    model = learnt([1, 1, 2, 3, 3], [1.0, 4.0, 2.0, 5.0, 6.0], capacity=2)
    entries, _, totals, _, _ = model.table
    before, costs_ms = totals.copy(), entries["mean_ms"].copy()
    assert before[EVICTED] > 0
    heavy_hitters.age(model.table, 0.25, scale)
    for number in (RECORDS, REST, WITHIN, EVICTED):
        assert totals[number] == pytest.approx(0.25 * before[number])
    assert totals[REST_MS] == pytest.approx(0.25 * scale * before[REST_MS])
    for number in (REST_MS2, WITHIN_MS2):
        assert totals[number] == pytest.approx(0.25 * scale**2 * before[number])
    assert entries["mean_ms"] == pytest.approx(scale * costs_ms)


def test_the_mean_of_the_rest_never_fades_to_nothing():
    model = learnt([1, 2], [1.0, 5.0])
    for _ in range(2_000):
        heavy_hitters.age(model.table, 0.5, 1.0)
    assert heavy_hitters.LEAST_REST < model.table[2][REST] < 4 * heavy_hitters.LEAST_REST
    assert model.estimate([9]).tolist() == [3.0]


def test_squares_of_a_call_are_those_of_its_records():
    filters = no_filters(capacity=4)
    filters[2][:, LEVEL] = 2.0
    filters[0][:, 1] = 3.0
    found, counts = np.array([0, 1]), np.array([4.0, 2.0])
    total_ms, squares_ms2 = call_filters.expected(0, found, counts, filters)
    assert (total_ms, squares_ms2) == (4 * 2 + 2 * 5, 4 * 2**2 + 2 * 5**2)
