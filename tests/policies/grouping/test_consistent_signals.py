"""Signals of consistent grouping: who gives virtual workers to whom, and how many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_workers import BUSY, IDLE, NORMAL, owner, tell

from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Consistent, RandomChoices

# Signals.


def test_a_busy_instance_gives_one_virtual_worker_to_an_idle_one():
    cg = Consistent(3, 4)
    assert tell(cg, (2, IDLE), (0, BUSY)) == [3, 4, 5]
    assert cg.moves == 1
    assert cg.learns


def test_the_order_of_the_two_signals_does_not_matter():
    assert tell(Consistent(2, 4), (0, BUSY), (1, IDLE)) == [3, 5]
    assert tell(Consistent(2, 4), (1, IDLE), (0, BUSY)) == [3, 5]


def test_idle_instances_are_served_in_the_order_they_came():
    cg = Consistent(4, 5)
    assert tell(cg, (2, IDLE), (3, IDLE), (1, IDLE), (0, BUSY)) == [4, 5, 6, 5]
    assert tell(cg, (0, BUSY)) == [3, 5, 6, 6]
    assert tell(cg, (0, BUSY)) == [2, 6, 6, 6]


def test_who_says_idle_again_keeps_its_place():
    assert tell(Consistent(4, 5), (3, IDLE), (1, IDLE), (3, IDLE), (0, BUSY)) == [4, 5, 5, 6]


def test_who_says_idle_twice_waits_once():
    cg = Consistent(3, 4)
    # Instance 1 has been busy, so that without its signal it is not the first to be given to.
    tell(cg, (1, BUSY), (1, NORMAL), (2, NORMAL))
    assert tell(cg, (1, IDLE), (1, IDLE), (0, BUSY)) == [3, 5, 4]
    assert tell(cg, (0, BUSY)) == [2, 5, 5]


def test_a_signal_is_good_for_one_pair():
    cg = Consistent(4, 5)
    tell(cg, (0, BUSY))
    assert tell(cg, (1, IDLE), (2, IDLE), (3, IDLE)) == [4, 6, 5, 5]
    assert cg.moves == 1


def test_who_is_normal_again_waits_no_longer():
    cg = Consistent(3, 4)
    assert tell(cg, (2, IDLE), (1, IDLE), (2, NORMAL), (0, BUSY)) == [3, 5, 4]
    # A busy one as well: a later idle signal finds nobody.
    assert tell(Consistent(2, 4), (0, BUSY), (0, NORMAL), (1, IDLE)) == [4, 4]


def test_who_turns_from_idle_to_busy_gives():
    assert tell(Consistent(2, 4), (0, NORMAL), (1, IDLE), (1, BUSY)) == [5, 3]


def test_the_thresholds_themselves_are_normal():
    cg = Consistent(2, 4, idle=0.5, busy=0.75)
    assert tell(cg, (1, 0.5), (0, 0.75)) == [4, 4]
    assert tell(cg, (0, 0.7500001)) == [3, 5]


def test_without_an_idle_one_it_gives_to_the_one_overloaded_least_recently():
    cg = Consistent(4, 50, stride=0)
    tell(cg, *((instance, NORMAL) for instance in range(4)))
    for instance in (2, 3, 1):
        tell(cg, (instance, BUSY), (instance, NORMAL))
    assert cg.shares.tolist() == [53, 49, 49, 49]  # 0 never was
    assert tell(cg, (0, BUSY), (0, NORMAL)) == [52, 49, 50, 49]
    # Instance 2 again, busy more recently than 3 and 1 from now on.
    assert tell(cg, (2, BUSY), (2, NORMAL)) == [52, 49, 49, 50]
    assert tell(cg, (0, BUSY)) == [51, 49, 49, 51]


def test_alone_it_keeps_everything():
    cg = Consistent(1, 4)
    assert tell(cg, (0, BUSY), (0, BUSY), (0, IDLE)) == [4]
    assert cg.moves == 0


def test_who_has_not_been_heard_yet_is_given_nothing():
    cg = Consistent(3, 4)
    assert tell(cg, (0, BUSY), (1, BUSY)) == [4, 4, 4]
    assert tell(cg, (2, NORMAL)) == [3, 4, 5]


def test_busy_instances_are_served_in_the_order_they_came():
    cg = Consistent(4, 4)
    tell(cg, (2, BUSY), (0, BUSY), (1, BUSY), (2, BUSY))
    assert tell(cg, (3, IDLE)) == [4, 4, 3, 5]
    assert tell(cg, (3, IDLE)) == [3, 4, 3, 6]
    assert tell(cg, (3, IDLE)) == [3, 3, 3, 7]
    assert tell(cg, (3, IDLE)) == [3, 3, 3, 7]  # each of them once


def test_where_everybody_is_busy_nothing_is_moved():
    cg = Consistent(3, 4)
    tell(cg, *((instance, NORMAL) for instance in range(3)))
    for _ in range(10):
        tell(cg, (0, BUSY), (1, BUSY), (2, BUSY))
    assert cg.moves <= 2  # until all of them have said so


def test_an_instance_keeps_its_last_virtual_worker():
    cg = Consistent(2, 2)
    for _ in range(5):
        tell(cg, (0, BUSY), (1, IDLE))
    assert cg.shares.tolist() == [1, 3]
    assert cg.moves == 1


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5),
    st.sampled_from([1, 4, 30]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([9.0, BUSY, NORMAL, IDLE])), max_size=60),
)
def test_virtual_workers_are_neither_lost_nor_made(k, each, stride, signals):
    cg = Consistent(k, each, stride=stride)
    for instance, utilization in signals:
        before, moves = owner(cg), cg.moves
        tell(cg, (instance, utilization))
        changed = before != owner(cg)
        assert np.count_nonzero(changed) == cg.moves - moves
        assert len(set(before[changed])) == len(set(owner(cg)[changed])) <= 1  # of one, to one
        assert stride > 0 or cg.moves - moves <= 1
    assert cg.shares.sum() == k * each
    assert cg.shares.min() >= 1


def test_a_virtual_worker_returns_home():
    cg = Consistent(3, 2)
    home = owner(cg).tolist()
    tell(cg, (1, IDLE), (0, BUSY), (0, NORMAL))
    assert owner(cg).tolist() == [0, 1, 1, 1, 2, 2]
    tell(cg, (0, IDLE), (1, BUSY))
    assert owner(cg).tolist() == home
    assert cg.moves == 2


# How many move at once: the middle of the thresholds is 0.8.


@pytest.mark.parametrize(
    "giver, taker, stride, moved",
    [
        (1.6, 0.4, 0.5, 15),  # 60 (1 - 0.8 / 1.6) = 30 too many, 60 (0.8 / 0.4 - 1) too few
        (1.6, 0.4, 1.0, 30),
        (1.6, 0.4, 0.0, 1),
        (1.6, 0.64, 0.5, 7),  # 15 too few
        (0.86, 0.74, 0.5, 2),  # 4.19 too many, 4.86 too few
        (1.6, 0.0, 1.0, 30),  # with nothing to do it has room for all of them
        (1e9, 0.4, 1.0, 59),  # but one stays
    ],
)
def test_a_pair_moves_part_of_what_is_too_much(giver, taker, stride, moved):
    cg = Consistent(2, 60, stride=stride)
    assert tell(cg, (1, taker), (0, giver)) == [60 - moved, 60 + moved]
    assert cg.moves == moved


def test_who_has_no_room_gets_one_at_most():
    cg = Consistent(2, 60, stride=1.0)
    tell(cg, (1, NORMAL))
    assert tell(cg, (0, 1.6)) == [59, 61]


def test_those_at_home_with_the_taker_move_first():
    cg = Consistent(3, 20, stride=1.0)
    tell(cg, (1, IDLE), (0, 1.2), (0, NORMAL))
    moved = np.flatnonzero(owner(cg) != np.arange(60) // 20)
    assert moved.tolist() == [14, 15, 16, 17, 18, 19]  # a third of 20
    # 26 (1 - 0.8 / 2.4) = 17 go: the 6 from 0 among them.
    tell(cg, (0, 0.1), (1, 2.4))
    assert (owner(cg)[moved] == 0).all()
    assert cg.shares.tolist() == [20 - 6 + 17, 20 + 6 - 17, 20]


def test_as_published_moves_one_and_counts_for_ever():
    cg = Consistent.as_published(2, 60, seed=3)
    assert (cg.stride, cg.half_life, cg.virtual_workers, cg.seed) == (0, None, 60, 3)
    keys = np.random.default_rng(3).zipf(1.3, size=2_000)
    plain = RandomChoices.as_published(120, seed=3).route(keys)
    np.testing.assert_array_equal(Consistent.as_published(2, 60, seed=3).route(keys), plain // 60)
    assert tell(cg, (1, 0.1), (0, 9.0)) == [59, 61]


def test_who_has_not_been_heard_yet_is_not_flooded():
    # In the first slot, all are equally busy: nobody should end up with far more than another.
    shares = tell(Consistent(3, 60), (0, 1.6), (1, 1.6), (2, 1.6))
    assert max(shares) - min(shares) <= 6


def test_several_givers_do_not_overfill_one_taker():
    cg = Consistent(6, 60, stride=1.0)
    tell(cg, *((i, NORMAL) for i in range(6)))
    tell(cg, *((i, 0.86) for i in range(5)))  # all but 5 have been busy
    before = int(cg.shares[5])
    tell(cg, (5, 0.7), *((i, 0.9) for i in range(5)))
    room = before * (0.8 / 0.7 - 1)
    assert cg.shares[5] - before <= room + 5


def test_other_messages_are_no_signals():
    cg = Consistent(2, 4)
    before = cg.snapshot()
    cg.observe(Feedback(0, delta_ms=5.0, slowdown=2.0))
    assert cg.snapshot() == before


def test_signals_of_removed_instances_are_dropped():
    cg = Consistent(3, 4)
    cg.resize(2)
    before = cg.snapshot()
    tell(cg, (2, BUSY))
    assert cg.snapshot() == before


SIGNALS = [(0, BUSY), (2, IDLE), (1, IDLE), (0, BUSY), (1, BUSY), (2, NORMAL), (0, BUSY)]


@pytest.mark.parametrize("cut", range(len(SIGNALS) + 1))
def test_a_snapshot_carries_on_where_it_was_taken(cut):
    keys = np.random.default_rng(cut).zipf(1.3, size=500)
    first, second = (Consistent(3, 4, half_life=10) for _ in range(2))
    tell(first, *SIGNALS[:cut])
    first.route(keys)
    second.restore(first.snapshot())
    assert second.moves == first.moves
    for cg in (first, second):
        tell(cg, *SIGNALS[cut:])
    np.testing.assert_array_equal(first.route(keys), second.route(keys))
    assert first.snapshot() == second.snapshot()
