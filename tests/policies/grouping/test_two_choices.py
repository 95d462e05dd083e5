"""The power of two choices: an independent twin, and balance whatever the keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PlainTwoChoices

from penstock.policies.grouping import TwoChoices
from penstock.policies.grouping.slots import salt_of


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.integers(0, 80), max_size=5),
    st.integers(1, 40),
    st.sampled_from([1, 2, 7, None]),
    st.integers(0, 99),
)
def test_is_the_plain_twin(sizes, k, half_life, seed):
    grouping = TwoChoices(k, half_life, seed)
    twin = PlainTwoChoices(k, half_life, int(salt_of(seed)))
    for size in sizes:
        keys = np.arange(size)
        assert grouping.route(keys).tolist() == twin.route(keys)
    assert grouping.loads.tolist() == twin.loads


@pytest.mark.parametrize("k", [2, 10, 100])
@pytest.mark.parametrize("half_life", [1_000, None])
def test_a_stream_of_one_key_is_balanced_to_a_few_records(k, half_life):
    counts = np.bincount(TwoChoices(k, half_life).route([7] * 100_000), minlength=k)
    assert counts.max() - counts.mean() <= (5 if half_life is None else 200)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_keys_do_not_matter(k, seed):
    keys = np.random.default_rng(seed).integers(0, 50, size=300)
    np.testing.assert_array_equal(TwoChoices(k).route(keys), TwoChoices(k).route([0] * 300))


def test_a_frequent_key_ends_up_everywhere():
    grouping = TwoChoices(10)
    assert set(grouping.route([7] * 1_000).tolist()) == set(range(10))
    assert grouping.fan_out == 10


def test_two_instances_take_turns():
    pairs = TwoChoices(2, half_life=None).route([7] * 1_000).reshape(-1, 2)
    assert (np.sort(pairs, axis=1) == [0, 1]).all()


def test_one_instance_gets_all():
    assert TwoChoices(1).route([1, 2, 3]).tolist() == [0, 0, 0]


def test_routers_draw_choices_of_their_own():
    routed = []
    for router in range(3):
        grouping = TwoChoices(50)
        grouping.begin(router)
        routed.append(grouping.route([7] * 40).tolist())
    assert routed[0] != routed[1] != routed[2] != routed[0]


def test_resize_draws_on():
    grouping = TwoChoices(2)
    grouping.route([7] * 100)
    grouping.resize(9)
    assert set(grouping.route([7] * 500).tolist()) == set(range(9))
