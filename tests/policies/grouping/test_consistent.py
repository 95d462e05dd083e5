"""Consistent grouping: routing, other numbers of instances, and unequal workers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_workers import BUSY, IDLE, NORMAL, owner, tell

from penstock.errors import PenstockError
from penstock.experiments.cg import Cluster, summary
from penstock.policies.grouping import Consistent, RandomChoices

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
