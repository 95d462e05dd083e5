"""Costs by size: lines of keys, shrinkage, outliers, and the model without sizes beside them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.costs import BySize, SpaceSaving
from penstock.policies.costs.by_size import sized_of
from penstock.policies.costs.line_fit import DOUBT, MEAN_SIZE, MS, SIZE, SLOPE, SLOPE_DOUBT
from penstock.policies.costs.outliers import factors_of
from penstock.policies.costs.pooled_by_size import PooledBySize

KEYS = st.integers(-3, 12)
COSTS = st.floats(0, 1e5, width=32)
SIZES = st.floats(0, 1e6, width=32) | st.sampled_from([-1.0, np.nan, np.inf, 1e300])
RECORDS = st.lists(st.tuples(KEYS, COSTS, SIZES), max_size=80)


def learnt(records, capacity=8, spread=True):
    model = BySize(capacity, seed=1, spread=spread)
    keys, costs, sizes = columns(records)
    model.update(keys, costs, sizes)
    return model


def columns(records):
    keys = np.array([key for key, _, _ in records], dtype=np.int64)
    return keys, np.array([c for _, c, _ in records]), np.array([s for _, _, s in records])


class PlainLine:
    """Weighted moments of a list of records."""

    def __init__(self, records, typical):
        self.sizes = np.array([size for size, _ in records])
        self.costs = np.array([cost for _, cost in records])
        total = self.sizes + typical
        self.weights = 2 * typical / total if typical else np.ones(self.sizes.size)
        self.size = np.average(self.sizes, weights=self.weights)
        self.ms = np.average(self.costs, weights=self.weights)

    def moments(self):
        dx, dy, w = self.sizes - self.size, self.costs - self.ms, self.weights
        return [(w * dx * dx).sum(), (w * dx * dy).sum(), (w * dy * dy).sum()]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(1, 1e3)), min_size=1, max_size=7))
def test_moments_are_those_of_a_plain_twin(records):
    # Fewer records than outliers need: all costs are believed.
    model = learnt([(1, cost, size) for size, cost in records])
    sizes = [size for size, _ in records]
    twin = PlainLine(records, float(np.mean(sizes)))
    line = model.lines[0]
    assert line["records"] == len(records)
    assert line["sizes"] == pytest.approx(sum(sizes), rel=1e-5, abs=1e-5)
    assert line["size"] == pytest.approx(twin.size, rel=1e-4, abs=1e-4)
    assert line["ms"] == pytest.approx(twin.ms, rel=1e-4)
    found = [line["sxx"], line["sxy"], line["syy"]]
    np.testing.assert_allclose(found, twin.moments(), rtol=1e-3, atol=1e-3 * max(1, *twin.costs))


def plain_estimate(model, key, size):
    """The line of a key beside the common line, in plain Python."""
    fitted = model.fitted
    size = size if 0 <= size <= 1e15 else fitted[MEAN_SIZE]

    def common(s):
        return max(fitted[MS] + fitted[SLOPE] * (s - fitted[SIZE]), 0.0)

    known = model.keys().tolist()
    line = model.lines[known.index(key)] if key in known else None
    if line is None or not line["records"]:
        return common(size)
    records, mean, ms, sxx, sxy = (float(line[n]) for n in ("records", "size", "ms", "sxx", "sxy"))
    there = common(mean)
    factor = ms / there if there else 1.0
    believed = 1 + (factor - 1) * records / (records + fitted[DOUBT])
    slope = believed * fitted[SLOPE]
    if sxx > 1e-6 * float(line["weight"]) * mean * mean:
        slope += (sxy / sxx - factor * fitted[SLOPE]) * sxx / (sxx + fitted[SLOPE_DOUBT])
    level = believed * there
    slope = min(max(slope, 0.0), level / mean if mean else np.inf)
    return max(level + slope * (size - mean), 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_estimates_are_those_of_a_plain_twin(seed):
    rng = np.random.default_rng(seed)
    keys, sizes = rng.integers(0, 12, 300), rng.pareto(2, 300) * 100
    costs = (1 + keys) * (3 + 0.1 * sizes) * np.exp(0.3 * rng.standard_normal(300))
    model = BySize(capacity=16)
    model.update(keys, costs, sizes)
    assert model.useful
    asked, at = np.arange(14), rng.uniform(-10, 500, 14)
    expected = [plain_estimate(model, key, size) for key, size in zip(asked, at, strict=True)]
    np.testing.assert_allclose(model.estimate(asked, at), expected, rtol=1e-5)


@settings(deadline=None, max_examples=60)
@given(RECORDS, RECORDS, st.integers(1, 8), st.floats(0.01, 1))
def test_estimates_and_spreads_are_finite_and_never_negative(records, more, capacity, factor):
    model = learnt(records, capacity)
    model.merge(learnt(more, 4))
    model.decay(factor)
    asked = np.tile(np.arange(-4, 14), 4)
    sizes = np.repeat([0.0, 1.0, 1e9, np.nan], 18)
    # The model without sizes may be below 0 by rounding.
    least = 0.0 if model.useful else -1e-9
    for found in (model.estimate(asked, sizes), model.spread_ms(asked, sizes)):
        assert np.isfinite(found).all()
        assert (found >= least).all()


@settings(deadline=None, max_examples=40)
@given(RECORDS, st.floats(0, 1e6, width=32))
def test_equal_sizes_give_the_numbers_of_the_model_without_sizes(records, size):
    records = [(key, cost, size) for key, cost, _ in records]
    model, plain = learnt(records), SpaceSaving(8, seed=1, spread=True)
    keys, costs, _ = columns(records)
    plain.update(keys, costs)
    assert not model.useful
    asked = np.arange(-4, 14)
    sizes = np.full(asked.size, 3.0)
    np.testing.assert_array_equal(model.estimate(asked, sizes), plain.estimate(asked))
    np.testing.assert_array_equal(model.spread_ms(asked, sizes), plain.spread_ms(asked))


def test_without_a_useful_slope_the_numbers_are_those_of_the_model_without_sizes():
    rng = np.random.default_rng(3)
    keys, sizes = rng.integers(0, 20, 3_000), rng.uniform(0, 100, 3_000)
    costs = np.exp(rng.standard_normal(3_000))
    model, plain = BySize(64), SpaceSaving(64)
    model.update(keys, costs, sizes)
    plain.update(keys, costs)
    assert not model.useful
    np.testing.assert_array_equal(model.estimate(keys, sizes), plain.estimate(keys))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 20), st.floats(0, 0.5))
def test_the_order_of_records_does_not_matter_while_nothing_is_evicted(seed, distinct, noise):
    rng = np.random.default_rng(seed)
    keys, sizes = rng.integers(0, distinct, 300), rng.uniform(0, 1_000, 300)
    costs = (1 + keys + 0.1 * sizes) * np.exp(noise * rng.standard_normal(300))
    order = rng.permutation(300)
    one, other = BySize(capacity=32), BySize(capacity=32)
    one.update(keys, costs, sizes)
    other.update(keys[order], costs[order], sizes[order])
    assert one.useful
    assert other.useful
    found, expected = one.estimate(keys, sizes), other.estimate(keys, sizes)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


LINES = st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 10)), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(LINES, st.integers(0, 1000))
def test_planted_lines_are_recovered(lines, seed):
    rng = np.random.default_rng(seed)
    keys = np.repeat(np.arange(len(lines)), 200)
    sizes = rng.uniform(0, 1_000, keys.size)
    a, b = np.array(lines).T
    model = BySize(capacity=16)
    model.update(keys, a[keys] + b[keys] * sizes, sizes)
    assert model.useful
    asked = np.arange(len(lines))
    for size in (0.0, 500.0, 2_000.0):
        truth = a + b * size
        found = model.estimate(asked, np.full(asked.size, size))
        np.testing.assert_allclose(found, truth, rtol=0.01, atol=0.005 * (a + b * 500).max())


@pytest.mark.parametrize("keys", [1, 20])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_one_percent_of_hundredfold_costs_hardly_matter(keys, share):
    rng = np.random.default_rng(5)
    a, b = rng.uniform(1, 5, keys), rng.uniform(0.005, 0.015, keys)
    model = BySize(capacity=64)

    def drawn(records):
        chosen, sizes = rng.integers(0, keys, records), np.exp(rng.normal(6, 1.2, records))
        return chosen, sizes, a[chosen] + b[chosen] * sizes

    for _ in range(10):
        chosen, sizes, truth = drawn(1_000)
        costs = truth * np.exp(0.3 * rng.standard_normal(1_000))
        costs[rng.random(1_000) < share] *= 100
        model.update(chosen, costs, sizes)
    chosen, sizes, truth = drawn(5_000)
    error = np.abs(model.estimate(chosen, sizes) - truth).mean() / truth.mean()
    assert error < 0.1


def plain_factors(costs, sizes, typical):
    """Winsorised residuals of one key, with NumPy's own means and quantiles."""
    factors = np.ones(costs.size)
    for _ in range(4):
        line = PlainLine(list(zip(sizes, costs * factors, strict=True)), typical)
        sxx, sxy, _ = line.moments()
        slope = min(max(sxy / sxx, 0), line.ms / line.size)
        ratios = costs / np.maximum(line.ms + slope * (sizes - line.size), 1e-6 * line.ms)
        ratios /= np.median(ratios)
        usual = np.quantile(np.maximum(ratios, 1 / ratios), 0.95, method="lower")
        most = max(usual**2, 2)
        factors = np.clip(ratios, 1 / most, most) / ratios
    return factors


@pytest.mark.parametrize("seed", range(4))
def test_outliers_are_those_of_a_plain_twin(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(1, 1_000, 150)
    costs = (5 + 0.1 * sizes) * np.exp(0.3 * rng.standard_normal(150))
    costs[rng.choice(150, 3, replace=False)] *= 100
    keys, mean = np.zeros(150, dtype=np.int64), float(sizes.mean())
    found = factors_of(keys, costs, sizes, mean)
    np.testing.assert_allclose(found, plain_factors(costs, sizes, mean), rtol=1e-3)
    assert (found < 0.1).sum() == 3


def test_costs_of_two_kinds_are_no_outliers():
    rng = np.random.default_rng(1)
    sizes, missed = rng.uniform(100, 1_000, 500), rng.random(500) < 0.3
    costs = np.where(missed, 50.0, 1.0) * sizes
    np.testing.assert_array_equal(factors_of(np.zeros(500, dtype=np.int64), costs, sizes, 500), 1)


def test_the_spread_is_that_around_the_line():
    rng = np.random.default_rng(2)
    sizes = rng.uniform(100, 1_000, 5_000)
    costs = 0.1 * sizes * (1 + 0.2 * rng.uniform(-1, 1, sizes.size))
    model = BySize(capacity=4, spread=True)
    model.update(np.zeros(sizes.size, dtype=np.int64), costs, sizes)
    for size in (200.0, 800.0):
        expected = 0.1 * size * 0.2 / np.sqrt(3)
        assert model.spread_ms([0], [size]) == pytest.approx([expected], rel=0.05)


def test_a_key_with_one_record_is_near_the_common_line():
    rng = np.random.default_rng(4)
    keys, sizes = rng.integers(0, 50, 5_000), rng.uniform(0, 1_000, 5_000)
    costs = (5 + 0.1 * sizes) * np.exp(0.5 * rng.standard_normal(5_000) - 0.125)
    model = BySize(capacity=64)
    model.update(keys, costs, sizes)
    model.update([99], [500.0], [500.0])
    assert model.estimate([99], [500.0]) == pytest.approx([55.0], rel=0.6)
    assert model.estimate([99], [0.0]) < 10


def test_unknown_sizes_count_as_the_mean_size_and_are_not_learnt_as_sizes():
    sizes = np.arange(1.0, 41.0)
    model = BySize(capacity=4)
    model.update(np.zeros(40, dtype=np.int64), 2 * sizes, sizes)
    before = model.lines.copy()
    model.update([0, 0], [41.0, 41.0], [np.nan, -3.0])
    np.testing.assert_array_equal(model.lines, before)
    assert model.records == 42
    np.testing.assert_allclose(model.estimate([0, 0, 5], [np.nan, -1, np.inf]), 41.0, rtol=1e-5)
    np.testing.assert_allclose(model.estimate([0]), [41.0], rtol=1e-5)


def test_memory_is_bounded():
    model = BySize(capacity=1_000, spread=True)
    rng = np.random.default_rng(0)
    before = model.memory_bytes
    for _ in range(5):
        keys = rng.integers(0, 10**6, 5_000)
        model.update(keys, np.ones(5_000), rng.random(5_000))
    assert model.memory_bytes == before == pytest.approx(64 * 1_000, abs=300)


def test_evicted_keys_leave_no_line_behind():
    model = BySize(capacity=2)
    sizes = np.arange(20.0)
    model.update(np.zeros(20, dtype=np.int64), sizes, sizes)
    for key in range(1, 50):
        model.update([key], [5.0], [3.0])
        (entry,) = np.flatnonzero(model.keys() == key)
        assert model.lines[entry]["records"] == 1


def test_a_table_without_sizes_can_be_merged():
    model, plain = BySize(4), SpaceSaving(4)
    plain.update([1, 1], [3.0, 5.0])
    model.merge(plain)
    twin = SpaceSaving(4)
    twin.merge(plain)
    assert model.estimate([1]) == twin.estimate([1])
    assert not sized_of(plain)[1]["records"].any()
    with pytest.raises(PenstockError, match="only a SpaceSaving"):
        model.merge(3)


def test_wrong_sizes_are_refused():
    with pytest.raises(PenstockError, match="sizes must have shape"):
        BySize(4).update([1, 2], [1.0, 1.0], [1.0])
    with pytest.raises(PenstockError, match="sizes must be numbers"):
        BySize(4).estimate([1], ["long"])


def test_an_instance_with_large_records_is_not_slow():
    rng = np.random.default_rng(6)
    pool = PooledBySize(instances=2, capacity=16, spread=True)
    for _ in range(30):
        for instance, most in enumerate((200.0, 2_000.0)):
            sizes = rng.uniform(0, most, 200)
            measured = BySize(16, spread=True)
            measured.update(rng.integers(0, 5, 200), 1 + 0.1 * sizes, sizes)
            pool.learn(instance, measured)
    np.testing.assert_allclose(pool.slowdown, 1.0, atol=0.02)
    np.testing.assert_allclose(pool.estimate([0, 1], [0.0, 1_000.0]), [1.0, 101.0], rtol=0.05)


def test_a_slow_instance_is_slow_by_size_too():
    rng = np.random.default_rng(7)
    pool = PooledBySize(instances=2, capacity=16, spread=True)
    for _ in range(60):
        for instance, slowdown in enumerate((1.0, 2.0)):
            sizes = rng.pareto(2.5, 100) * 100
            costs = slowdown * (1 + 0.1 * sizes) * np.exp(0.2 * rng.standard_normal(100))
            measured = BySize(16, spread=True)
            measured.update(rng.integers(0, 5, 100), costs, sizes)
            pool.learn(instance, measured)
    assert pool.slowdown[1] / pool.slowdown[0] == pytest.approx(2, rel=0.05)
    expected = pool.expected_total_ms(1, measured)
    assert expected == pytest.approx(costs.sum(), rel=0.25)


def test_a_resized_pool_keeps_its_lines():
    sizes = np.arange(40.0)
    measured = BySize(8)
    measured.update(np.zeros(40, dtype=np.int64), 1 + sizes, sizes)
    pool = PooledBySize(instances=1, capacity=8)
    pool.learn(0, measured)
    np.testing.assert_allclose(pool.resized(3, 8).estimate([0], [100.0]), [101.0], rtol=1e-4)
