"""The spread of a key's costs in Space-Saving: a plain twin, merges, and doubts about keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.costs import SpaceSaving


class PlainSpread:
    """All costs of each key, in lists."""

    def __init__(self):
        self.costs = {}
        self.first = []
        self.relative = []

    def update(self, keys, costs_ms):
        for key, cost in zip(keys, costs_ms, strict=True):
            known = self.costs.setdefault(key, [])
            if known:
                mean = np.mean(known)
                apart = (cost - mean) ** 2 * len(known) / (len(known) + 1)
                new = np.mean([*known, cost])
                if new > 0:
                    self.relative.append(apart / new**2)
            else:
                self.first.append(cost)
            known.append(cost)

    def spread_ms(self, key):
        if key not in self.costs:
            return np.std(self.first) if self.first else 0.0
        costs = np.array(self.costs[key])
        typical = np.mean(self.relative) if self.relative else 0.0
        total = ((costs - costs.mean()) ** 2).sum() + 4 * typical * costs.mean() ** 2
        return np.sqrt(total / (len(costs) - 1 + 4) * (1 + 1 / len(costs)))


FEW_KEYS = st.lists(st.tuples(st.integers(0, 5), st.floats(0.125, 1_000)), max_size=60)


@given(FEW_KEYS)
def test_the_spread_is_that_of_all_costs(records):
    keys, costs = [key for key, _ in records], [cost for _, cost in records]
    model, plain = SpaceSaving(8, spread=True), PlainSpread()
    model.update(keys, costs)
    plain.update(keys, costs)
    expected = [plain.spread_ms(key) for key in range(7)]
    scale = max([1e-6, *costs])
    np.testing.assert_allclose(model.spread_ms(range(7)), expected, rtol=2e-3, atol=2e-3 * scale)


@given(FEW_KEYS, st.integers(0, 60))
def test_merged_tables_have_the_spread_of_one(records, cut):
    keys, costs = [key for key, _ in records], [cost for _, cost in records]
    whole, first, second = (SpaceSaving(8, spread=True) for _ in range(3))
    whole.update(keys, costs)
    first.update(keys[:cut], costs[:cut])
    second.update(keys[cut:], costs[cut:])
    first.merge(second)
    own = [key for key in set(keys) if keys.count(key) > 30]  # their own spread weighs most
    np.testing.assert_allclose(first.spread_ms(own), whole.spread_ms(own), rtol=0.3)
    before, _ = first.spread_ms(range(7)), first.decay(0.5)
    assert np.isfinite(before).all()


def test_the_spread_follows_a_lognormal_noise():
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 50, 20_000)
    means = rng.uniform(1, 100, 50)
    for s in (0.0, 0.5, 1.0):
        noise = np.exp(s * rng.standard_normal(keys.size) - s * s / 2)
        model = SpaceSaving(64, spread=True)
        model.update(keys, means[keys] * noise)
        expected = np.sqrt(np.exp(s * s) - 1)
        found = model.spread_ms(range(50)) / model.estimate(range(50))
        np.testing.assert_allclose(np.median(found), expected, rtol=0.15, atol=1e-3)


def test_costs_that_are_scaled_have_a_scaled_spread():
    one, twice = SpaceSaving(8, spread=True), SpaceSaving(8, spread=True)
    other = SpaceSaving(8, spread=True)
    other.update([1, 1, 1, 2, 2, 2], [1.0, 2.0, 3.0, 5.0, 5.0, 7.0])
    one.merge(other)
    twice.merge(other, scale=2.0)
    np.testing.assert_allclose(twice.spread_ms([1, 2]), 2 * one.spread_ms([1, 2]), rtol=1e-5)


@given(FEW_KEYS)
def test_the_spread_changes_no_mean_of_the_rest(records):
    keys, costs = [key for key, _ in records], [cost for _, cost in records]
    plain, wide = SpaceSaving(3), SpaceSaving(3, spread=True)
    plain.update(keys, costs)
    wide.update(keys, costs)
    assert plain.rest_ms == wide.rest_ms
    assert set(plain.keys()) == set(wide.keys())
    assert wide.memory_bytes - plain.memory_bytes == 3 * 4 + 2 * 8


def test_long_keys_make_no_other_key_doubtful_if_the_spread_is_kept():
    """Costs differ by a factor within a key: absolute differences of long keys are large."""
    rng = np.random.default_rng(0)
    means = np.where(np.arange(400) < 4, 1_000.0, 10.0)
    keys = np.concatenate([rng.integers(0, 4, 200), rng.integers(4, 400, 400)])
    costs = means[keys] * np.exp(0.5 * rng.standard_normal(keys.size))
    means[399] = 300.0
    keys, costs = np.append(keys, [399, 399]), np.append(costs, [300.0, 300.0])
    plain, wide = SpaceSaving(500), SpaceSaving(500, spread=True)
    plain.update(keys, costs)
    wide.update(keys, costs)
    known = float(costs[keys == 399].mean())
    assert wide.estimate([399])[0] == pytest.approx(known, rel=0.05)
    assert plain.estimate([399])[0] < 0.5 * known


def test_keys_that_tell_nothing_are_doubted_with_the_spread_too():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 300, 3_000)
    costs = 10.0 * np.exp(0.5 * rng.standard_normal(keys.size))
    wide = SpaceSaving(500, spread=True)
    wide.update(keys, costs)
    found = wide.estimate(range(300))
    means = np.array([costs[keys == key].mean() for key in range(300)])
    assert np.std(found) < 0.5 * np.std(means)


def test_a_table_without_spread_says_so():
    with pytest.raises(PenstockError, match="spread must be True to ask for it; got False"):
        SpaceSaving(4).spread_ms([1])


def test_tables_with_and_without_spread_can_be_merged():
    plain, wide = SpaceSaving(4), SpaceSaving(4, spread=True)
    plain.update([1, 1, 2], [1.0, 3.0, 9.0])
    wide.update([1, 1, 2], [1.0, 3.0, 9.0])
    for one in (plain, wide):
        both = SpaceSaving(4, spread=one is plain)
        both.merge(one)
        both.merge(plain if one is wide else wide)
        np.testing.assert_array_equal(both.hits(), [4.0, 2.0])
