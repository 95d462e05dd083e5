"""Slots: shared out evenly, and one bin more changes as few of them as it must."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import plain_choices, plain_mix

from penstock.policies.grouping.slots import owners, salt_of, shift_of, start_and_step

# At 33 and 65 bins the table doubles.
SOME_BINS = [1, 2, 3, 10, 31, 32, 33, 63, 64, 65, 100, 333]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 400))
def test_slots_are_shared_evenly(bins):
    counts = np.bincount(owners(bins))
    assert counts.size == bins
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("bins", SOME_BINS)
def test_there_are_a_power_of_two_and_enough_for_every_bin(bins):
    slots = owners(bins).size
    assert slots.bit_count() == 1
    assert slots >= 32 * bins
    assert slots == 1_024 or slots < 64 * bins


@pytest.mark.parametrize("bins", SOME_BINS)
def test_the_same_for_the_same_number_of_bins(bins):
    np.testing.assert_array_equal(owners.__wrapped__(bins), owners(bins))


def before_and_after(bins):
    """The table with a bin more, and the one without in the same size."""
    after = owners(bins + 1)
    return np.repeat(owners(bins), after.size // owners(bins).size), after


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.integers(1, 300), st.sampled_from(SOME_BINS)))
def test_a_new_bin_takes_its_share_and_nothing_else_changes(bins):
    before, after = before_and_after(bins)
    changed = before != after
    assert set(after[changed].tolist()) == {bins}
    assert np.count_nonzero(changed) == after.size // (bins + 1)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300))
def test_a_new_bin_takes_as_much_from_each_of_the_others(bins):
    before, after = before_and_after(bins)
    taken = np.bincount(before[before != after], minlength=bins)
    assert taken.max() - taken.min() <= 2  # those with one more may give one more


INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=100)
@given(INT64, st.integers(0, 2**32), st.sampled_from(SOME_BINS))
def test_start_and_step_are_the_halves_of_the_scrambled_key(key, seed, bins):
    salt, owner = salt_of(seed), owners(bins)
    mixed = plain_mix(key, int(salt))
    start, step = (int(half) for half in start_and_step(np.int64(key), salt))
    assert start == mixed >> 32
    assert step == mixed % 2**32 | 1
    assert owner[start >> int(shift_of(owner))] == next(plain_choices(key, int(salt), owner))


def choices(bins, count=8, keys=2_000):
    """The first choices of some keys."""
    salt, owner = int(salt_of(0)), owners(bins)
    return np.array([list(islice(plain_choices(key, salt, owner), count)) for key in range(keys)])


@pytest.mark.parametrize("bins", [1, 5, 32])
def test_a_new_bin_changes_every_choice_with_the_same_small_probability(bins):
    before, after = choices(bins), choices(bins + 1)
    changed = before != after
    assert set(after[changed].tolist()) == {bins}
    expected = 1 / (bins + 1)
    # Four standard deviations of 2,000 keys.
    slack = 4 * (expected * (1 - expected) / 2_000) ** 0.5
    np.testing.assert_allclose(changed.mean(axis=0), expected, atol=slack)


def test_a_key_finds_every_bin_sooner_or_later():
    assert all(len(set(row)) == 10 for row in choices(10, count=120, keys=100).tolist())


def test_salts_of_seeds_differ_and_are_the_same_on_every_machine():
    assert len({int(salt_of(seed)) for seed in range(100)}) == 100
    known = [11749869230777074271, 9441442522235856127, 14276969152011380360]
    assert [int(salt_of(seed)) for seed in (0, 1, 42)] == known
