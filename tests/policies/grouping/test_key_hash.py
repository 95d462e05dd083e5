"""Key grouping: one key, one instance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.grouping import KeyHash
from penstock.policies.hashing import HashFamily

INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=100)
@given(st.lists(INT64, max_size=30), st.integers(1, 20), st.integers(0, 99))
def test_is_the_first_function_of_the_family(keys, k, seed):
    array = np.array(keys, dtype=np.int64)
    routed = KeyHash(k, seed).route(array)
    np.testing.assert_array_equal(routed, HashFamily(1, k, seed).hash(array)[0])


def test_a_key_stays_where_it_is():
    grouping = KeyHash(10)
    first = grouping.route(np.arange(100))
    np.testing.assert_array_equal(grouping.route(np.arange(100)[::-1])[::-1], first)
    assert grouping.fan_out == 1
    assert grouping.memory_bytes == 0


@pytest.mark.parametrize("k", [2, 5, 10])
def test_keys_are_spread_evenly(k):
    counts = np.bincount(KeyHash(k).route(np.arange(10_000)), minlength=k)
    assert counts.min() > 0.9 * 10_000 / k
    assert counts.max() < 1.1 * 10_000 / k


def test_the_seed_decides():
    keys = np.arange(100)
    assert (KeyHash(5, seed=1).route(keys) != KeyHash(5, seed=2).route(keys)).any()


def test_resize_uses_all_instances():
    grouping = KeyHash(2)
    grouping.resize(7)
    assert set(grouping.route(np.arange(200)).tolist()) == set(range(7))
    np.testing.assert_array_equal(grouping.route(np.arange(200)), KeyHash(7).route(np.arange(200)))


def test_bad_parameters():
    with pytest.raises(PenstockError, match="instances must be >= 1; got 0"):
        KeyHash(0)
    with pytest.raises(PenstockError, match="seed must be >= 0; got -1"):
        KeyHash(2, seed=-1)
