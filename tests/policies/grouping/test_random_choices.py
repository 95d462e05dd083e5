"""The power of random choices: an independent twin, its bound, and where keys stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PlainRandomChoices, plain_choices

from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.grouping import BoundedHash, RandomChoices
from penstock.policies.grouping.slots import owners, salt_of
from penstock.sim import replication, zipf_keys

STREAMS = {
    "all equal": lambda rng, m: np.full(m, rng.integers(-(2**63), 2**63 - 1)),
    "few keys": lambda rng, m: rng.choice(rng.integers(-(2**63), 2**63 - 1, size=4), size=m),
    "Zipf": lambda rng, m: rng.zipf(1.2, size=m),
    "uniform": lambda rng, m: rng.integers(0, 500, size=m),
    "all different": lambda rng, m: np.arange(m),
    "one after the other": lambda rng, m: np.sort(rng.zipf(1.5, size=m)),
}
ANY_STREAM = st.builds(
    lambda name, seed, m: STREAMS[name](np.random.default_rng(seed), m),
    st.sampled_from(sorted(STREAMS)),
    st.integers(0, 2**32),
    st.integers(1, 1_500),
)


@settings(deadline=None, max_examples=120)
@given(
    st.lists(st.tuples(ANY_STREAM.map(lambda keys: keys[:120]), st.booleans()), max_size=4),
    st.integers(1, 12),
    st.sampled_from([0.01, 0.1, 0.5, 3.0]),
    st.sampled_from([1, 2, 5, 64]),
    st.sampled_from([1, 3, 20, None]),
    st.integers(0, 99),
    st.sampled_from([0.5, 0.0, 0.25, 1.0]),
)
def test_is_the_plain_twin(calls, k, epsilon, probes, half_life, seed, reserve):
    grouping = RandomChoices(k, epsilon, probes, half_life, seed, reserve)
    twin = PlainRandomChoices(k, epsilon, probes, half_life, int(salt_of(seed)), owners(k), reserve)
    for keys, together in calls:
        if together:
            found = grouping.route_together(keys)
            listed = list(map(int, keys))
            order = sorted(range(len(listed)), key=lambda i: (-listed.count(listed[i]), listed[i]))
            expected = dict(zip(order, twin.route([listed[i] for i in order], True), strict=True))
            assert found.tolist() == [expected[i] for i in range(len(listed))]
        else:
            found = grouping.route(keys)
            assert found.tolist() == twin.route(keys)
        assert found.dtype == np.int32
    assert grouping.loads.tolist() == twin.loads


def test_as_published_takes_the_first_choice_below_the_limit():
    keys = np.random.default_rng(4).zipf(1.4, size=3_000)
    loads, expected = [0] * 7, []
    for count, key in enumerate(map(int, keys), start=1):
        limit = 1.1 * count / 7
        chosen = next(
            choice
            for choice in plain_choices(key, int(salt_of(2)), owners(7))
            if loads[choice] <= limit
        )
        loads[chosen] += 1
        expected.append(chosen)
    assert RandomChoices.as_published(7, 0.1, seed=2).route(keys).tolist() == expected


def test_a_reservation_keeps_rare_keys_together():
    keys = zipf_keys(np.random.default_rng(1), 20_000, 2_000, exponent=1.4)
    ours, published = (
        replication(keys, grouping.route(keys), 20)
        for grouping in (RandomChoices(20, half_life=None), RandomChoices.as_published(20))
    )
    assert ours < 0.98 * published


def imbalance(routed, n):
    counts = np.bincount(routed, minlength=n)
    return (counts.max() - counts.mean()) / counts.mean()


@settings(deadline=None, max_examples=150)
@given(ANY_STREAM, st.integers(1, 50), st.floats(1e-4, 4.0), st.sampled_from([1, 2, 64]))
def test_imbalance_is_bounded_for_any_stream(keys, n, epsilon, probes):
    routed = RandomChoices(n, epsilon, probes, half_life=None).route(keys)
    assert imbalance(routed, n) <= epsilon + n / keys.size + 1e-9


@settings(deadline=None, max_examples=80)
@given(ANY_STREAM, st.integers(1, 50), st.floats(1e-4, 4.0), st.sampled_from([1, 2, 64]))
def test_imbalance_is_bounded_for_records_that_come_together(keys, n, epsilon, probes):
    grouping = RandomChoices(n, epsilon, probes, half_life=None)
    half = keys.size // 2
    routed = np.concatenate([grouping.route_together(keys[:half]), grouping.route(keys[half:])])
    assert imbalance(routed, n) <= epsilon + n / keys.size + 1e-9


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.4, 2.0])
@pytest.mark.parametrize("n", [10, 100])
def test_keys_are_in_fewer_places_than_with_bounded_hashing(exponent, n):
    keys = zipf_keys(np.random.default_rng(3), 200_000, 20_000, exponent=exponent)
    memory = {
        cls: replication(keys, cls(n, half_life=None).route(keys), n)
        for cls in (RandomChoices, BoundedHash)
    }
    assert 1 <= memory[RandomChoices] < memory[BoundedHash] <= n


def test_rare_keys_stay_in_one_place_where_there_is_room():
    keys = np.random.default_rng(1).integers(0, 2_000, size=50_000)
    assert replication(keys, RandomChoices(10, 100.0, half_life=None).route(keys), 10) == 1
    # Less room still keeps most of them together; with hardly any they move now and then.
    by_epsilon = [
        replication(keys, RandomChoices(10, epsilon, half_life=None).route(keys), 10)
        for epsilon in (0.5, 0.1, 0.01)
    ]
    assert by_epsilon == sorted(by_epsilon)
    assert by_epsilon[0] < 1.01


def test_a_hot_key_spreads_over_as_many_bins_as_it_fills():
    rng = np.random.default_rng(2)
    for share, places in ((0.05, 1), (0.25, 3), (0.45, 5)):
        hot = rng.random(100_000) < share
        keys = np.where(hot, -1, rng.integers(0, 10_000, size=hot.size))
        routed = RandomChoices(10, half_life=None).route(keys)
        counts = np.bincount(routed[hot], minlength=10)
        # All but a tenth of its records are in that many bins.
        assert np.sort(counts)[::-1][:places].sum() > 0.9 * counts.sum()


def hot_and_cold(hot=0.1, records=20_000):
    rng = np.random.default_rng(4)
    cold = rng.integers(0, 2_000, size=records)
    return np.where(rng.random(records) < hot, -1, cold)


@pytest.mark.parametrize("n", [5, 10, 50])
def test_records_that_come_together_are_in_fewer_places(n):
    keys = hot_and_cold()
    one_by_one = RandomChoices(n, half_life=None).route(keys)
    together = RandomChoices(n, half_life=None).route_together(keys)
    assert replication(keys, together, n) < replication(keys, one_by_one, n)
    assert imbalance(together, n) <= 0.01 + n / keys.size


def test_with_little_skew_together_is_where_the_first_hash_says():
    keys = np.arange(1_000)
    first = RandomChoices(10, 100.0, half_life=None).route(keys)
    together = RandomChoices(10, 1.0).route_together(keys)
    np.testing.assert_array_equal(together, first)


def test_the_last_places_are_for_the_hot_key():
    # Rare keys that share a bin with a hot one go elsewhere for good, so are in one place each.
    keys = zipf_keys(np.random.default_rng(0), 100_000, 10_000, exponent=2.0)
    grouping = RandomChoices(10, half_life=None)
    routed = grouping.route(keys)
    assert 0 in grouping._bins.reserved
    rare = keys > 100
    assert replication(keys[rare], routed[rare], 10) < 1.6


def test_routers_overflow_into_different_bins():
    # A single choice that is full at once: all else overflows.
    first = []
    for router in range(6):
        grouping = RandomChoices(6, epsilon=0.01, probes=1, half_life=None)
        grouping.begin(router)
        routed = grouping.route([7] * 6).tolist()
        first.append(next(i for i in routed if i != routed[0]))
    assert len(set(first)) >= 5


@pytest.mark.parametrize("k", [1, 2, 5, 10, 31, 32, 100])
def test_resize_keeps_the_choices_of_most_keys(k):
    keys = np.arange(5_000)
    grouping = RandomChoices(k, epsilon=1_000.0, half_life=None)
    before = grouping.route(keys)
    grouping.resize(k + 1)
    grouping.begin(0)
    after = grouping.route(keys)
    changed = before != after
    assert set(after[changed].tolist()) == {k}
    assert 0.5 / (k + 1) < changed.mean() < (2 / (k + 1) if k > 1 else 0.6)
    grouping.resize(k)
    grouping.begin(0)
    np.testing.assert_array_equal(grouping.route(keys), before)


def test_resize_forgets_who_had_the_last_places():
    grouping = RandomChoices(4, half_life=None)
    grouping.route(hot_and_cold())
    grouping.resize(2)
    assert grouping._bins.reserved.tolist() == grouping._bins.votes.tolist() == [0, 0]
    assert set(grouping.route(np.arange(200)).tolist()) == {0, 1}


def test_after_fewer_bins_an_overflow_stays_within_them():
    grouping = RandomChoices(8, probes=1, half_life=None)
    grouping.begin(7)
    grouping.resize(2)
    assert codec.decode(grouping._label(), grouping.snapshot())["overflow"].tolist() == [0]
    assert set(grouping.route([7] * 100).tolist()) == {0, 1}


def test_one_bin_gets_all():
    assert RandomChoices(1).route([1, 2, 3]).tolist() == [0, 0, 0]
    assert RandomChoices(1).route_together([1, 2, 3]).tolist() == [0, 0, 0]


def test_probes_must_be_at_least_one():
    with pytest.raises(PenstockError, match="probes must be >= 1; got 0"):
        RandomChoices(2, probes=0)
