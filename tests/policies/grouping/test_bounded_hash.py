"""Consistent hashing with bounded loads: an independent twin, its bound, and its ring."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PlainBoundedHash

from penstock.errors import PenstockError
from penstock.policies.grouping import BoundedHash
from penstock.policies.grouping.slots import salt_of

STREAMS = {
    "all equal": lambda rng, m: np.full(m, rng.integers(-(2**63), 2**63 - 1)),
    "few keys": lambda rng, m: rng.choice(rng.integers(-(2**63), 2**63 - 1, size=4), size=m),
    "Zipf": lambda rng, m: rng.zipf(1.2, size=m),
    "uniform": lambda rng, m: rng.integers(0, 500, size=m),
}
ANY_STREAM = st.builds(
    lambda name, seed, m: STREAMS[name](np.random.default_rng(seed), m),
    st.sampled_from(sorted(STREAMS)),
    st.integers(0, 2**32),
    st.integers(1, 1_500),
)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(ANY_STREAM.map(lambda keys: keys[:80]), max_size=4),
    st.integers(1, 12),
    st.sampled_from([0.01, 0.1, 0.5, 3.0]),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([1, 3, 20, None]),
    st.integers(0, 99),
)
def test_is_the_plain_twin(calls, k, epsilon, points, half_life, seed):
    grouping = BoundedHash(k, epsilon, points, half_life, seed)
    twin = PlainBoundedHash(k, epsilon, points, half_life, int(salt_of(seed)))
    for keys in calls:
        assert grouping.route(keys).tolist() == twin.route(keys)
    assert grouping.loads.tolist() == twin.loads


@settings(deadline=None, max_examples=150)
@given(ANY_STREAM, st.integers(1, 50), st.floats(1e-4, 4.0), st.sampled_from([1, 10]))
def test_imbalance_is_bounded_for_any_stream(keys, n, epsilon, points):
    counts = np.bincount(BoundedHash(n, epsilon, points, half_life=None).route(keys), minlength=n)
    assert (counts.max() - counts.mean()) / counts.mean() <= epsilon + n / keys.size + 1e-9


def unbound(k, points=1, seed=0):
    """With so much room that nothing ever overflows."""
    return BoundedHash(k, 1e6, points, half_life=None, seed=seed)


@pytest.mark.parametrize("k", [1, 2, 10, 40])
@pytest.mark.parametrize("points", [1, 20])
def test_a_new_bin_takes_keys_and_nobody_else_does(k, points):
    keys = np.arange(5_000)
    grouping = unbound(k, points)
    before = grouping.route(keys)
    grouping.resize(k + 1)
    after = grouping.route(keys)
    changed = before != after
    assert set(after[changed].tolist()) == {k}
    assert changed.any()
    grouping.resize(k)
    np.testing.assert_array_equal(grouping.route(keys), before)


def test_more_points_share_the_ring_out_more_evenly():
    keys = np.arange(20_000)
    largest = [
        np.mean([np.bincount(unbound(10, points, seed).route(keys)).max() for seed in range(5)])
        for points in (1, 10, 100)
    ]
    assert largest == sorted(largest, reverse=True)
    assert largest[-1] < 1.4 * 2_000


def test_a_key_without_skew_stays_in_one_place():
    grouping = unbound(10)
    first = grouping.route(np.arange(500))
    np.testing.assert_array_equal(grouping.route(np.arange(500)), first)


def test_what_overflows_goes_to_the_next_bin_on_the_ring():
    # One key: its bins fill one after the other, always in the same order.
    routed = BoundedHash(5, epsilon=1.0, half_life=None).route([7] * 1_000)
    order = list(dict.fromkeys(routed.tolist()))
    ring = PlainBoundedHash(5, 1.0, 1, None, int(salt_of(0))).ring
    bins = [bin_ for _, bin_ in ring]
    start = bins.index(order[0])
    assert (bins[start:] + bins[:start])[: len(order)] == order
    # At twice the mean, 3 of 5 bins are enough.
    assert len(order) == 3


def test_one_bin_gets_all():
    assert BoundedHash(1).route([1, 2, 3]).tolist() == [0, 0, 0]


def test_the_seed_draws_another_ring():
    keys = np.arange(100)
    assert (unbound(9, seed=1).route(keys) != unbound(9, seed=2).route(keys)).any()


def test_points_must_be_at_least_one():
    with pytest.raises(PenstockError, match="points must be >= 1; got 0"):
        BoundedHash(2, points=0)
