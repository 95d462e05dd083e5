"""Partial key grouping: an independent twin, and two places for every key."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PlainPartialKey

from penstock.policies.grouping import KeyHash, PartialKey
from penstock.policies.grouping.slots import owners, salt_of

INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.lists(st.one_of(st.integers(0, 9), INT64), max_size=60)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(KEYS, max_size=4),
    st.integers(1, 40),
    st.sampled_from([1, 2, 7, None]),
    st.integers(0, 99),
)
def test_is_the_plain_twin(calls, k, half_life, seed):
    grouping = PartialKey(k, half_life, seed)
    twin = PlainPartialKey(k, half_life, int(salt_of(seed)), owners(k))
    for keys in calls:
        routed = grouping.route(np.array(keys, dtype=np.int64))
        assert routed.dtype == np.int32
        assert routed.tolist() == twin.route(keys)
    assert grouping.loads.tolist() == twin.loads


@settings(deadline=None, max_examples=60)
@given(INT64, st.integers(1, 70), st.integers(0, 99))
def test_a_key_has_two_places_that_differ(key, k, seed):
    twin = PlainPartialKey(k, None, int(salt_of(seed)), owners(k))
    both = twin.both(key)
    assert len(set(both)) == min(2, k)
    # Alone it uses both of them, in turn.
    routed = PartialKey(k, None, seed).route([key] * 10).tolist()
    assert routed == [*both] * 5


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 20), st.integers(0, 2**32), st.sampled_from([1, 10, None]))
def test_no_key_is_in_more_than_two_places(k, seed, half_life):
    rng = np.random.default_rng(seed)
    grouping = PartialKey(k, half_life)
    keys = np.minimum(rng.zipf(1.3, size=2_000), 300)
    routed = grouping.route(keys)
    for key in np.unique(keys):
        assert np.unique(routed[keys == key]).size <= 2
    assert grouping.fan_out == 2


def test_one_instance_gets_all():
    grouping = PartialKey(1)
    assert grouping.route([1, 2, 3, 1]).tolist() == [0, 0, 0, 0]
    assert grouping.fan_out == 1


@pytest.mark.parametrize("k", [2, 10, 50])
def test_many_keys_without_skew_are_balanced_to_a_few_records(k):
    keys = np.random.default_rng(1).integers(0, 10_000, size=100_000)
    counts = np.bincount(PartialKey(k, half_life=None).route(keys), minlength=k)
    assert counts.max() - counts.mean() <= 10
    by_hash = np.bincount(KeyHash(k).route(keys), minlength=k)
    assert by_hash.max() - by_hash.mean() > 100


def test_a_hot_key_overloads_its_two_instances():
    counts = np.bincount(PartialKey(10, half_life=None).route([7] * 1_000), minlength=10)
    assert sorted(counts.tolist())[-2:] == [500, 500]


def test_fading_lets_it_adapt():
    # After a long stream of one key its instances are avoided for ever, or for a while only.
    others = np.random.default_rng(0).integers(100, 10_000, size=2_000)
    hot = [7] * 100_000
    late = {}
    for half_life in (50, None):
        grouping = PartialKey(4, half_life)
        grouping.route(hot)
        late[half_life] = np.bincount(grouping.route(others)[-400:], minlength=4).max()
    assert late[50] < 120
    assert late[None] > 150


def test_the_seed_decides():
    keys = np.arange(100)
    assert (PartialKey(9, seed=1).route(keys) != PartialKey(9, seed=2).route(keys)).any()
