"""Consistent grouping: who gives a virtual worker to whom, and what that leads to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.experiments.cg import Cluster, summary
from penstock.policies import codec
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Consistent, RandomChoices

BUSY, NORMAL, IDLE = 1.2, 0.8, 0.4


def tell(cg, *signals):
    """Let instances report how busy they are."""
    for instance, utilization in signals:
        cg.observe(Feedback(instance, utilization=utilization))
    return cg.shares.tolist()


def owner(cg):
    """Whose the virtual workers are."""
    return codec.decode(cg._label(), cg.snapshot())["owner"]


# Routing.


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_is_porc_over_virtual_workers_that_belong_to_instances(seed, k, each, together):
    keys = np.random.default_rng(seed).zipf(1.3, size=300)
    cg = Consistent(k, each, half_life=7, reserve=0.25)
    porc = RandomChoices(k * each, half_life=7, reserve=0.25)
    found = cg.route_together(keys) if together else cg.route(keys)
    virtual = porc.route_together(keys) if together else porc.route(keys)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, virtual // each)
    assert cg.shares.tolist() == [each] * k


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(1, 2_000),
    st.sampled_from([0.01, 0.1, 1.0]),
    st.sampled_from([1.1, 2.0, 40.0]),
)
def test_the_imbalance_of_equal_shares_is_bounded(seed, k, each, m, epsilon, exponent):
    keys = np.random.default_rng(seed).zipf(exponent, size=m)
    counts = np.bincount(Consistent(k, each, epsilon, half_life=None).route(keys), minlength=k)
    assert counts.max() / counts.mean() - 1 <= epsilon + k * each / m + 1e-9


def test_loads_follow_the_shares():
    cg = Consistent(2, 4, half_life=None)
    assert tell(cg, (1, IDLE), (0, BUSY), (0, BUSY)) == [2, 6]
    counts = np.bincount(cg.route(np.random.default_rng(0).zipf(1.2, size=10_000)))
    np.testing.assert_allclose(counts / 10_000, [0.25, 0.75], rtol=0.011)


def test_a_move_changes_the_place_of_one_virtual_worker_only():
    keys = np.arange(5_000)
    params = {"virtual_workers": 5, "epsilon": 1_000.0, "half_life": None}
    still, moved = Consistent(4, **params), Consistent(4, **params)
    tell(moved, (1, IDLE), (2, BUSY))
    changed = still.route(keys) != moved.route(keys)
    assert changed.mean() == pytest.approx(1 / 20, rel=0.3)
    assert set(still.clone().route(keys)[changed].tolist()) == {2}


def test_beginning_a_batch_keeps_what_was_learnt():
    cg = Consistent(3, 4)
    shares = tell(cg, (0, BUSY), (1, IDLE), (0, BUSY))
    cg.route(np.arange(1_000))
    cg.begin(0)
    assert cg.shares.tolist() == shares
    fresh = Consistent(3, 4)
    tell(fresh, (0, BUSY), (1, IDLE), (0, BUSY))
    np.testing.assert_array_equal(cg.route(np.arange(500)), fresh.route(np.arange(500)))


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


# Other numbers of instances.


def test_a_new_instance_brings_virtual_workers_and_nothing_else_changes():
    cg = Consistent(4, 5)
    shares = tell(cg, (1, IDLE), (0, BUSY))
    before = owner(cg)
    cg.resize(5)
    assert owner(cg).tolist() == [*before, 4, 4, 4, 4, 4]
    assert cg.shares.tolist() == [*shares, 5]


def test_a_removed_instance_takes_its_virtual_workers_along():
    cg = Consistent(3, 4)
    tell(cg, (0, IDLE), (2, BUSY), (2, NORMAL))  # 0 has one of 2
    tell(cg, (2, IDLE), (1, BUSY))  # and 2 has one of 1
    assert cg.shares.tolist() == [5, 3, 4]
    before = owner(cg)[:8]
    cg.resize(2)
    changed = before != owner(cg)
    assert before[changed].tolist() == [2]
    assert owner(cg)[changed].tolist() == [1]  # who had less
    assert cg.shares.tolist() == [4, 4]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([BUSY, IDLE])), max_size=20),
    st.lists(st.integers(1, 12), max_size=5),
)
def test_resizing_moves_no_more_than_it_must(k, each, signals, sizes):
    cg = Consistent(k, each)
    tell(cg, *signals)
    for size in sizes:
        before = owner(cg)
        cg.resize(size)
        after = owner(cg)
        assert cg.shares.size == size
        assert cg.shares.sum() == after.size == size * each
        assert cg.shares.min() >= 1
        kept = min(before.size, after.size)
        assert (after[kept:] == np.arange(kept, after.size) // each).all()
        stayed = before[:kept] < size
        lost = size - np.unique(before[:kept][stayed]).size - max(0, after.size - kept) // each
        # Who would have none gets one.
        assert np.count_nonzero(before[:kept][stayed] != after[:kept][stayed]) <= lost


@pytest.mark.parametrize("k", [1, 4, 10])
def test_most_keys_stay_when_an_instance_comes_and_return_when_it_goes(k):
    keys = np.arange(5_000)
    cg = Consistent(k, 6, epsilon=1_000.0, half_life=None)
    before = cg.route(keys)
    cg.resize(k + 1)
    after = cg.route(keys)
    assert set(after[before != after].tolist()) == {k}
    assert (before != after).mean() == pytest.approx(1 / (k + 1), rel=0.2)
    cg.resize(k)
    np.testing.assert_array_equal(cg.route(keys), before)


def test_resizing_forgets_signals_of_the_old_cluster():
    cg = Consistent(3, 4)
    tell(cg, (2, IDLE))
    cg.resize(4)
    assert tell(cg, (0, BUSY)) == [4, 4, 4, 4]


def test_no_instances_are_refused():
    cg = Consistent(2, 3)
    before = cg.snapshot()
    with pytest.raises(PenstockError, match="instances must be >= 1; got 0"):
        cg.resize(0)
    assert cg.instances == 2
    assert cg.snapshot() == before


def test_a_copy_of_a_resized_one_takes_its_snapshot():
    cg = Consistent(2, 6)
    cg.route(np.arange(100))
    tell(cg, (1, IDLE), (0, BUSY))
    for size in (3, 1, 5):
        cg.resize(size)
        copy = cg.clone()
        copy.restore(cg.snapshot())
        assert copy.shares.tolist() == cg.shares.tolist()
        np.testing.assert_array_equal(copy.route(np.arange(100)), cg.route(np.arange(100)))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"instances": 0}, "instances must be >= 1; got 0"),
        ({"virtual_workers": 0}, "virtual_workers must be >= 1; got 0"),
        ({"epsilon": 0}, "epsilon must be > 0; got 0"),
        ({"epsilon": float("nan")}, "epsilon must be finite; got nan"),
        ({"idle": 0}, "idle must be > 0; got 0"),
        ({"busy": float("nan")}, "busy must be finite; got nan"),
        ({"idle": 0.9, "busy": 0.9}, "busy must be > idle = 0.9; got 0.9"),
        ({"busy": 0.7}, "busy must be > idle = 0.75; got 0.7"),
        ({"stride": -0.1}, "stride must be in [0, 1]; got -0.1"),
        ({"stride": 1.5}, "stride must be in [0, 1]; got 1.5"),
        ({"probes": 0}, "probes must be >= 1; got 0"),
        ({"half_life": 0}, "half_life must be >= 1; got 0"),
        ({"seed": -1}, "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        Consistent(**{"instances": 2, **params})
    assert str(caught.value) == message


# What it is for: workers of unequal capacities, which nobody has told it.


@pytest.fixture(scope="module")
def unequal():
    """Three of ten workers are five times as powerful as the others; 80% load."""
    results = Cluster(virtual_workers=20).results(0, {}, "round_robin")
    return {name: (result, summary(result)) for name, result in results.items()}


def test_unequal_workers_end_up_equally_loaded(unequal):
    _, numbers = unequal["cg"]
    assert numbers["late_imbalance"] <= 0.06
    assert numbers["queue_at_end"] < 100
    assert 30 < numbers["moves"] < 150


def test_round_robin_lets_the_queues_of_slow_workers_grow(unequal):
    result, numbers = unequal["round_robin"]
    longest = result.queues(4).max(axis=1)
    assert (np.diff(longest) > 5_000).all()
    assert numbers["queue_at_end"] == longest[-1]
    assert numbers["late_imbalance"] > 0.3
    assert numbers["moves"] == 0


def test_powerful_workers_get_more_of_the_stream(unequal):
    result, _ = unequal["cg"]
    late = np.bincount(result.instances[-100_000:], minlength=10)
    assert late[:3].min() > 3 * late[3:].max()
