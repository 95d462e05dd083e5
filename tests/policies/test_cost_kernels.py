"""Kernels of cost tables, one by one, where the models that use them hide a wrong number."""

import numpy as np
import pytest

from penstock.policies.costs import SpaceSaving, call_filters, heavy_hitters
from penstock.policies.costs.call_filters import LEVEL, no_filters
from penstock.policies.costs.totals import EVICTED, RECORDS, WITHIN, WITHIN_MS2


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


def test_age_multiplies_every_weight():
    model = learnt([1, 1, 2, 3, 3], [1.0, 4.0, 2.0, 5.0, 6.0], capacity=2)
    totals = model.table[2]
    before = totals.copy()
    assert before[EVICTED] > 0
    heavy_hitters.age(model.table, 0.25, 1.0)
    for number in (RECORDS, WITHIN, WITHIN_MS2, EVICTED):
        assert totals[number] == pytest.approx(0.25 * before[number])


def test_squares_of_a_call_are_those_of_its_records():
    filters = no_filters(capacity=4)
    filters[2][:, LEVEL] = 2.0
    filters[0][:, 1] = 3.0
    found, counts = np.array([0, 1]), np.array([4.0, 2.0])
    total_ms, squares_ms2 = call_filters.expected(0, found, counts, filters)
    assert (total_ms, squares_ms2) == (4 * 2 + 2 * 5, 4 * 2**2 + 2 * 5**2)
