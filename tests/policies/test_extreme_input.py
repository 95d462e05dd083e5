"""Input of policies that is extreme, but good, is accepted."""

import numpy as np
import pytest
from refusals import NAN, seen

from penstock.policies.grouping import BoundedHash, Consistent, KeyHash, RandomChoices
from penstock.policies.placement import Albic, Cluster, Cola, Traffic
from penstock.policies.scaling import History, Preventive, RateBased, Topology
from penstock.policies.shedding import LoadAware, RandomDrop, average


@pytest.mark.parametrize("epsilon", [1e15, 1e20, 3e18])
def test_with_a_huge_epsilon_a_key_never_spreads(epsilon):
    for cls in (BoundedHash, RandomChoices):
        for half_life in (1_000, None):
            one = cls(3, epsilon=epsilon, half_life=half_life)
            assert np.unique(one.route(np.full(20_000, 7))).size == 1
    consistent = Consistent(3, epsilon=epsilon, half_life=None)
    assert np.unique(consistent.route(np.full(20_000, 7))).size == 1


def test_an_epsilon_at_which_no_bin_is_full_decides_like_a_larger_one():
    keys = np.random.default_rng(1).zipf(1.3, 5_000)
    for cls in (BoundedHash, RandomChoices):
        routed = [cls(5, epsilon=epsilon).route(keys) for epsilon in (10.0, 1e12)]
        np.testing.assert_array_equal(*routed)


def test_large_seeds_are_taken():
    keys = np.arange(100)
    for seed in (2**63, 2**64, 2**70):
        assert RandomDrop(0.5, seed=seed).admit(keys, np.zeros(100)).any()
        shedder = LoadAware(average(5), instances=2, seed=seed, window=4, first_window=4)
        shedder.admit_until_answer(keys, np.zeros(100), np.zeros(100), np.zeros(100, dtype=bool))
        assert KeyHash(3, seed=seed).route(keys).max() < 3
        pairs = Traffic(source=[0, 1], target=[2, 3], volume=[5, 5])
        four = Cluster([10] * 4, [0, 0, 1, 1], [1, 1], traffic=pairs)
        assert Cola(seed=seed).plan(four).collocation_after == 1
        assert Albic(seed=seed).plan(four).collocation_after == 1


def test_a_late_batch_begins():
    RandomDrop(0.5).begin(1e30)


def test_many_points_are_drawn_in_a_moment():
    assert BoundedHash(4, points=250_000).route([1]).size == 1


def test_lists_are_observations_too():
    listed = seen(received=[1.0, 2.0, 3.0], cost_ms=[5.0, NAN, 5.0])
    assert listed.received.tolist() == [1.0, 2.0, 3.0]
    assert listed.mean_cost_ms == 5.0


@pytest.mark.parametrize("scaler", [Preventive, RateBased])
def test_a_need_beyond_all_numbers_is_that_of_all_instances(scaler):
    huge = seen(cost_ms=[1e200] * 3, pending=1e200)
    with np.errstate(over="ignore"):
        plan = scaler(max_degree=9).plan(Topology.linear("op"), History(1_000.0, {"op": huge}))
    assert plan.degrees == {"op": 9}
