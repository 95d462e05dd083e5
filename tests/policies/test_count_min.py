"""Count-Min: the matrices, the paper's bounds and its expectation of section IV-B."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.hashing import HashFamily

RECORDS = st.lists(
    st.tuples(st.integers(-5, 40), st.floats(0, 1e6, allow_subnormal=False)), max_size=60
)


def split(records):
    return [key for key, _ in records], [cost for _, cost in records]


def learn(model, records):
    keys, costs_ms = split(records)
    model.update(keys, costs_ms)


class PlainCountMin:
    """Listings III.1 and III.2 with a dictionary of cells."""

    def __init__(self, model):
        self.hashes = HashFamily(model.rows, model.columns, model.seed)
        self.cells = {}
        self.costs = []

    def cells_of(self, key):
        return [(row, int(h[0])) for row, h in enumerate(self.hashes.hash([key]))]

    def update(self, key, cost):
        self.costs.append(cost)
        for cell in self.cells_of(key):
            count, total = self.cells.get(cell, (0, 0.0))
            self.cells[cell] = count + 1, total + cost

    def estimate(self, key):
        count, total = min(
            (self.cells.get(cell, (0, 0.0)) for cell in self.cells_of(key)), key=lambda c: c[0]
        )
        if count:
            return total / count
        return sum(self.costs) / len(self.costs) if self.costs else 0.0


@settings(deadline=None, max_examples=100)
@given(RECORDS, st.sampled_from([0.05, 0.3, 0.9]), st.sampled_from([0.1, 0.6]), st.integers(0, 9))
def test_is_the_plain_twin(records, epsilon, delta, seed):
    model = CountMin(epsilon, delta, seed)
    learn(model, records)
    twin = PlainCountMin(model)
    for key, cost in records:
        twin.update(key, cost)
    found = model.estimate(range(-10, 50))
    np.testing.assert_allclose(found, [twin.estimate(key) for key in range(-10, 50)], rtol=1e-12)
    assert model.frequency.sum() == model.rows * len(records)


@settings(deadline=None, max_examples=100)
@given(RECORDS.filter(bool), st.integers(0, 9))
def test_estimates_lie_between_the_smallest_and_the_largest_cost(records, seed):
    keys, costs = split(records)
    model = CountMin(epsilon=0.9, delta=0.3, seed=seed)
    model.update(keys, costs)
    found = model.estimate(range(-10, 50))
    assert found.min() >= min(costs) * (1 - 1e-12)
    assert found.max() <= max(costs) * (1 + 1e-12)


def test_sizes_of_the_paper():
    assert (CountMin().rows, CountMin().columns) == (4, 55)
    assert CountMin(epsilon=0.001).columns == 2719
    assert CountMin(delta=0.25).rows == 2
    assert CountMin(epsilon=0.7, delta=0.25).columns == 4  # Figure 1
    assert CountMin(delta=0.99).rows == 1
    assert CountMin().memory_bytes == 2 * 4 * 55 * 8 == 3520


def test_unseen_keys_cost_the_mean():
    model = CountMin()
    assert model.mean_ms() == 0.0
    assert model.estimate([1]).tolist() == [0.0]
    model.update([1, 1, 2], [10.0, 10.0, 4.0])
    assert model.mean_ms() == 8.0
    twin = PlainCountMin(model)
    taken = {*twin.cells_of(1), *twin.cells_of(2)}
    unseen = [key for key in range(3, 200) if not taken.issuperset(twin.cells_of(key))]
    assert len(unseen) > 190
    assert set(model.estimate(unseen)) == {8.0}


# Section IV-B: n keys, all equally frequent, 64 of each cost from 1 to 64.
N, COLUMNS = 4096, 55
COSTS = np.repeat(np.arange(1.0, 65.0), 64)
T = COSTS.sum()


def expectation(w, c=COLUMNS, n=N):
    return (T - w) / (n - 1) - c * (T - n * w) / (n * (n - 1)) * (1 - (1 - 1 / c) ** n)


@pytest.fixture(scope="module")
def ratios():
    """W / F in the cell of each key, in 4000 rows."""
    keys = np.random.default_rng(1).integers(-(2**63), 2**63, size=N, dtype=np.int64)
    found = []
    for seed in range(4):
        model = CountMin(epsilon=0.05, delta=2.0**-1000, seed=seed)
        assert (model.rows, model.columns) == (1000, COLUMNS)
        model.update(keys, COSTS)
        columns = HashFamily(model.rows, model.columns, seed).hash(keys)
        found.append(np.take_along_axis(model.cell_means(), columns.astype(np.int64), axis=1))
    return np.concatenate(found)


def test_extremes_of_the_expectation():
    values = [expectation(w) for w in range(1, 65)]
    assert round(min(values), 2) == 32.08
    assert round(max(values), 2) == 32.92
    assert values == sorted(values)


@pytest.mark.parametrize("cost", [1, 16, 32, 33, 48, 64])
def test_single_rows_follow_the_expectation(ratios, cost):
    by_row = ratios[:, cost == COSTS].mean(axis=1)
    error = by_row.std() / np.sqrt(by_row.size)
    assert error < 0.02
    assert abs(by_row.mean() - expectation(cost)) < 4 * error


def test_markov_bound_of_the_smallest_row(ratios):
    smallest = ratios.reshape(1000, 4, N).min(axis=1)
    for x in (33, 34, 36, 40, 48, 64):
        for cost in (1, 32, 64):
            probability = (smallest[:, cost == COSTS] >= x).mean()
            assert probability <= (expectation(cost) / x) ** 4


def test_frequency_bound_of_count_min():
    rng = np.random.default_rng(2)
    keys = np.minimum(rng.zipf(1.5, size=3000), 300)
    distinct, frequency = np.unique(keys, return_counts=True)
    exceeded = np.zeros(distinct.size)
    seeds = 200
    for seed in range(seeds):
        model = CountMin(epsilon=0.05, delta=0.1, seed=seed)
        model.update(keys, np.ones(keys.size))
        columns = HashFamily(model.rows, model.columns, seed).hash(distinct).astype(np.int64)
        found = np.take_along_axis(model.frequency, columns, axis=1).min(axis=0)
        assert (found >= frequency).all()
        exceeded += found - frequency >= model.epsilon * (keys.size - frequency)
    assert (exceeded / seeds).max() <= 0.1


@settings(deadline=None, max_examples=50)
@given(RECORDS, RECORDS)
def test_merge_is_update_with_both(first, second):
    together, one, other = CountMin(), CountMin(), CountMin()
    learn(together, first + second)
    learn(one, first)
    learn(other, second)
    before = other.snapshot()
    one.merge(other)
    np.testing.assert_array_equal(one.frequency, together.frequency)
    np.testing.assert_allclose(one.cumulated_ms, together.cumulated_ms, rtol=1e-12)
    assert other.snapshot() == before


@pytest.mark.parametrize("other", [CountMin(seed=1), CountMin(epsilon=0.1), SpaceSaving()])
def test_merge_refuses_other_parameters(other):
    with pytest.raises(PenstockError, match="only equal parameters can be merged"):
        CountMin().merge(other)


def test_decay_keeps_estimates_and_weighs_new_records_more():
    model = CountMin()
    model.update([1] * 4, [10.0] * 4)
    model.decay(0.25)
    assert model.estimate([1]).tolist() == [10.0]
    model.update([1], [20.0])
    assert model.estimate([1]).tolist() == [15.0]
    for factor in (0, -1, 1.5, float("nan")):
        with pytest.raises(PenstockError, match="factor must be"):
            model.decay(factor)


def test_cell_means():
    model = CountMin(epsilon=0.9, delta=0.6)
    assert np.isnan(model.cell_means()).all()
    model.update([1, 1], [10.0, 20.0])
    means = model.cell_means()
    assert means[~np.isnan(means)].tolist() == [15.0]


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 2])
def test_bad_parameters(name, value):
    with pytest.raises(PenstockError) as caught:
        CountMin(**{name: value})
    assert str(caught.value) == f"{name} must be in (0, 1); got {value:g}"
