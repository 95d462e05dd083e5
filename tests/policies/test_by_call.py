"""Costs of whole calls: counts of keys, filters, and the judge that chooses between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control import OperatorPolicies
from penstock.errors import PenstockError
from penstock.policies.costs import ByCall, SpaceSaving, call_filters
from penstock.policies.costs.by_call import ROWS
from penstock.policies.costs.call_filters import DOUBTS, LEVEL, no_filters
from penstock.policies.costs.pooled_by_call import PooledByCall
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Factoring, Proactive
from penstock.policies.shedding import LoadAware, each_record

KEYS = st.lists(st.integers(-3, 9), min_size=1, max_size=30)
CALLS = st.lists(st.tuples(KEYS, st.floats(0, 1e4, width=32)), min_size=1, max_size=20)


def measured(calls, capacity=8, spread=True):
    model = ByCall(capacity, spread=spread)
    for keys, cost_ms in calls:
        model.add_call(keys, cost_ms)
    return model


def drawn(count, costs_ms, records=20, seed=0, noise=0.0):
    """Calls whose keys are as likely as not to be in them, so that calls differ."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        some = rng.permutation(len(costs_ms))[: rng.integers(1, len(costs_ms) + 1)]
        keys = rng.choice(some, records)
        factors = np.exp(noise * rng.standard_normal(records))
        yield keys, float((np.asarray(costs_ms)[keys] * factors).sum())


def taught(pool, calls, instance=0):
    for keys, cost_ms in calls:
        pool.learn(instance, measured([(keys, cost_ms)]))
    return pool


@settings(deadline=None, max_examples=60)
@given(CALLS)
def test_counts_of_calls_are_those_of_a_dictionary(calls):
    model = measured(calls, capacity=32)
    counts, numbers = model.calls
    for row in range(ROWS):
        own = calls[row::ROWS]
        keys = [key for some, _ in own for key in some]
        assert numbers[row].tolist() == pytest.approx([len(keys), sum(ms for _, ms in own)])
        found = dict(zip(model.keys().tolist(), counts[row].tolist(), strict=False))
        assert {k: n for k, n in found.items() if n} == {k: keys.count(k) for k in keys}


@settings(deadline=None, max_examples=40)
@given(CALLS, CALLS)
def test_no_record_is_counted_twice_however_small_the_table_is(first, second):
    model, other = measured(first, capacity=3), measured(second, capacity=2)
    model.merge(other)
    counts, numbers = model.calls
    assert (counts.sum(axis=1) <= numbers[:, 0]).all()
    assert numbers[:, 0].sum() == sum(len(keys) for keys, _ in first + second)
    copy = model.clone()
    copy.restore(model.snapshot())
    assert copy.snapshot() == model.snapshot()


def test_equal_shares_are_what_the_table_itself_estimates():
    calls, plain = [([1, 1, 2], 9.0), ([3], 5.0)], SpaceSaving(8)
    for keys, cost_ms in calls:
        plain.update(keys, np.full(len(keys), cost_ms / len(keys)))
    model = measured(calls, spread=False)
    np.testing.assert_array_equal(model.estimate([1, 2, 3]), plain.estimate([1, 2, 3]))


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_a_wrong_cost_is_refused(wrong):
    with pytest.raises(PenstockError, match="cost_ms must be"):
        ByCall().add_call([1], wrong)


class PlainFilter:
    """The Kalman step of one filter, with NumPy and without winsorised errors."""

    def __init__(self, columns, doubt):
        self.own = np.zeros(columns)
        self.variance = np.ones(columns)
        self.level, self.level_variance, self.doubt = 0.0, 1.0, doubt

    def learn(self, counts, cost):
        n = counts.sum()
        if self.level == 0:
            self.level = cost / n
            return
        expected = (counts * np.maximum(self.level + self.own, 0)).sum()
        total = self.level_variance * n * n + self.doubt * n
        total += (self.variance * counts**2).sum()
        step = (cost - expected) / total
        moved = self.level_variance * n
        self.level = max(self.level + moved * step, 0.0)
        self.level_variance = max(self.level_variance - moved * moved / total, 1e-3)
        used = counts > 0
        gain = (self.variance * counts)[used]
        self.own[used] = np.maximum(self.own[used] + gain * step, -self.level)
        self.variance[used] -= gain * gain / total
        self.variance[used] += (1 - self.variance[used]) / 512


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 40), min_size=5, max_size=5), st.floats(1, 1e4)),
        min_size=1,
        max_size=12,
    )
)
def test_the_kernel_does_what_its_plain_twin_does(calls):
    filters = no_filters(capacity=4)
    twins = [PlainFilter(5, doubt) for doubt in DOUBTS]
    for several, cost_ms in calls:
        counts = np.array(several, dtype=np.float64)
        if not counts.sum():
            continue
        used = np.flatnonzero(counts)
        call_filters.learn(used, counts[used], cost_ms, filters)
        for number, twin in enumerate(twins):
            twin.learn(counts, cost_ms)
            assert filters[2][number, LEVEL] == pytest.approx(twin.level, rel=1e-3, abs=1e-3)
            np.testing.assert_allclose(filters[0][number], twin.own, rtol=1e-2, atol=0.1)
            np.testing.assert_allclose(filters[1][number], twin.variance, rtol=1e-3, atol=1e-4)


def test_costs_of_keys_are_found_from_calls_that_mix_them():
    costs_ms = [1.0, 2.0, 20.0, 5.0]
    pool = taught(PooledByCall(1, 8), drawn(300, costs_ms))
    assert pool.useful
    np.testing.assert_allclose(pool.estimate(range(4)), costs_ms, rtol=0.15, atol=0.5)
    assert "keys, learnt from whole batches" in pool.source


def test_equal_shares_are_kept_where_keys_explain_nothing():
    pool = taught(PooledByCall(1, 8), drawn(300, [4.0] * 6, noise=1.0))
    assert not pool.useful
    np.testing.assert_array_equal(pool.estimate(range(6)), pool.table.estimate(range(6)))
    assert pool.source.startswith("equal shares of each batch; they predict")


def test_one_pause_changes_little():
    costs_ms = [1.0, 2.0, 20.0, 5.0]
    pool = taught(PooledByCall(1, 8), drawn(200, costs_ms))
    before = pool.estimate(range(4))
    pool.learn(0, measured([([0, 1, 2, 3], 1e6)]))
    np.testing.assert_allclose(pool.estimate(range(4)), before, rtol=0.3, atol=0.5)


def test_costs_that_change_are_followed():
    pool = taught(PooledByCall(1, 8), drawn(200, [1.0, 2.0, 20.0, 5.0]))
    taught(pool, drawn(600, [20.0, 2.0, 1.0, 5.0], seed=1))
    assert pool.useful
    assert pool.estimate([0])[0] > 3 * pool.estimate([2])[0]


def test_an_instance_with_expensive_keys_is_not_slow():
    rng, pool = np.random.default_rng(0), PooledByCall(2, 8)
    for _ in range(300):
        for instance, share in (0, 0.8), (1, 0.2):
            keys = (rng.random(20) < share).astype(int)
            pool.learn(instance, measured([(keys, float(np.array([1.0, 9.0])[keys].sum()))]))
    assert pool.useful
    np.testing.assert_allclose(pool.slowdown, 1, atol=0.1)


def test_a_slow_instance_is_found():
    rng, pool = np.random.default_rng(0), PooledByCall(2, 8)
    for _ in range(300):
        for instance, slow in (0, 1.0), (1, 2.0):
            keys = (rng.random(20) < rng.random()).astype(int)
            cost_ms = slow * float(np.array([1.0, 9.0])[keys].sum())
            pool.learn(instance, measured([(keys, cost_ms)]))
    assert pool.slowdown[1] / pool.slowdown[0] == pytest.approx(2.0, rel=0.1)


def test_costs_survive_another_number_of_instances():
    costs_ms = [1.0, 2.0, 20.0, 5.0]
    pool = taught(PooledByCall(2, 8), drawn(200, costs_ms))
    for instances in 1, 4:
        other = pool.resized(instances, 8)
        np.testing.assert_allclose(other.estimate([*range(4), 99]), pool.estimate([*range(4), 99]))
        assert other.source == pool.source


def grouping_of(kind):
    grouping = kind(2, together=True)
    for number, (keys, cost_ms) in enumerate(drawn(200, [1.0, 2.0, 20.0, 5.0])):
        tracker = grouping.tracker(number % 2)
        assert not tracker.execute(keys, np.full(keys.size, cost_ms / keys.size), cost_ms)
        for message in tracker.finish():
            grouping.observe(message)
    return grouping


@pytest.mark.parametrize("kind", [Proactive, Factoring])
def test_a_grouping_learns_from_calls_and_goes_on_after_a_restart(kind):
    grouping = grouping_of(kind)
    assert grouping.cost_source.startswith("keys, learnt")
    other = kind(2, together=True)
    other.restore(grouping.snapshot())
    keys = np.array([2, 0, 1, 3, 2, 0])
    np.testing.assert_array_equal(other.expected_ms(keys), grouping.expected_ms(keys))
    for one in grouping, other:
        one.begin(0)
    np.testing.assert_array_equal(other.route_together(keys), grouping.route_together(keys))
    np.testing.assert_array_equal(other.route(keys), grouping.route(keys))


def test_sizes_go_before_keys():
    grouping = Factoring(2, sized=True, together=True)
    assert not isinstance(grouping.measurements(), ByCall)
    assert (grouping.cost_source, Factoring(2).cost_source) == ("", "")


def test_a_shedder_learns_from_the_same_calls():
    both = OperatorPolicies(
        Factoring(2, together=True), LoadAware(each_record("1 s"), instances=2, together=True)
    )
    for keys, cost_ms in drawn(100, [1.0, 2.0, 20.0, 5.0]):
        model = both.measuring.measurements()
        model.add_call(keys, cost_ms)
        both.observe(Feedback(0, model))
    assert all("keys, learnt" in one.cost_source for one in both.all)
    assert "costs from keys" in both.words


@given(CALLS, CALLS, st.floats(0.1, 10))
def test_merged_calls_are_as_expensive_as_their_scale_says(first, second, scale):
    model, other = measured(first, capacity=32), measured(second, capacity=32)
    model.merge(other, scale)
    _, numbers = model.calls
    records = sum(len(keys) for keys, _ in first + second)
    costs_ms = sum(ms for _, ms in first) + scale * sum(ms for _, ms in second)
    assert numbers.sum(axis=0).tolist() == pytest.approx([records, costs_ms])


def test_a_key_that_takes_the_place_of_another_one_in_a_merge_has_its_own_counts():
    model = measured([([1, 2], 1.0)], capacity=2)
    model.merge(measured([([3] * 5, 1.0)], capacity=2))
    counts, _ = model.calls
    assert counts[:, model.keys().tolist().index(3)].sum() == 5
