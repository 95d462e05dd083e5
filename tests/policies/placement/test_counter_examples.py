"""Where the paper's model is unbounded, infeasible or wrong: what ours does instead."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.policies.placement import Albic, Cluster, LocalSearch, Milp
from penstock.sim import applied

BOTH = [Milp(2), LocalSearch(2)]


@pytest.mark.parametrize("placer", BOTH)
def test_a_distance_that_could_be_zero_for_nothing(placer):
    # With d_u and d_l of any sign, d = 0 fits every placement: nothing would be balanced.
    cluster = Cluster([10, 10, 10, 10], [0, 0, 0, 0], [1, 1])
    assert placer.plan(cluster).distance_after == 0


@pytest.mark.parametrize("placer", BOTH)
def test_a_worker_with_more_than_twice_the_mean(placer):
    # Constraint 5 (d <= mean) has no solution here: two moves leave a distance above the mean.
    cluster = Cluster([5] * 12, [0] * 12, [1, 1, 1, 1])
    plan = placer.plan(cluster)
    assert plan.distance_after > cluster.mean
    assert plan.distance_after == 50 - 15
    assert len(plan.moves) == 2


@pytest.mark.parametrize("placer", BOTH)
def test_a_mean_that_is_rounded_up(placer):
    # Around a mean of 1 instead of 0.6, [0.6, 0.6] is no better than [1.2, 0].
    cluster = Cluster([0.6, 0.6], [0, 0], [1, 1])
    assert placer.plan(cluster).distance_after == pytest.approx(0)


def test_lemma_1_a_move_into_a_removed_worker():
    # Three workers: one is empty and is to be removed. If the smallest key group moves there, the
    # distance is 0, which nothing else within one migration achieves.
    cluster = Cluster([4, 1, 4], [0, 0, 1], [1, 1, 1], removed=[False, False, True])
    for placer in (Milp(1, goal=0), LocalSearch(1, goal=0)):
        plan = placer.plan(cluster)
        assert all(move.target != 2 for move in plan.moves)
        assert plan.distance_after == 0.5


@pytest.mark.parametrize("placer", [Milp(3), LocalSearch(3), Albic(3)])
def test_key_groups_without_load_leave_removed_workers(placer):
    # The distance is 0 whether they leave or not.
    load = [10, 10, 0, 0, 0, 0]
    cluster = Cluster(load, [0, 1, 2, 2, 2, 2], [1, 1, 1], removed=[False, False, True])
    plan = placer.plan(cluster)
    assert len(plan.moves) == 3
    plan = placer.plan(applied(cluster, plan))
    assert [move.source for move in plan.moves] == [2]
    assert plan.reason.startswith("load distance 0 -> 0 points")


@pytest.mark.parametrize("placer", [Milp(4), LocalSearch(4), Albic(4)])
def test_a_cluster_without_any_load_is_drained(placer):
    cluster = Cluster(np.zeros(8), [2] * 8, [1, 3, 1], removed=[False, False, True])
    for _ in range(2):
        cluster = applied(cluster, placer.plan(cluster))
    assert np.bincount(cluster.placement, minlength=3).tolist() == [2, 6, 0]


def test_balancing_does_not_eat_the_budget_of_draining():
    # Every round, loads have changed: balancing to the last point would take all migrations.
    rng = np.random.default_rng(0)
    load = rng.uniform(0.8, 1.2, 200)
    removed = np.arange(10) == 9
    cluster = Cluster(load, np.arange(200) % 10, np.ones(10), removed=removed)
    for _ in range(4):
        changed = cluster.load[:, 0] * rng.uniform(0.8, 1.2, 200)
        cluster = replace(cluster, load=changed)
        cluster = applied(cluster, LocalSearch(5).plan(cluster))
    assert cluster.undrained(cluster.placement) == 0


def test_an_overload_comes_before_draining():
    load = [20, 20, 20, 20, 20, 5, 5, 5]
    removed = [False, False, False, True]
    cluster = Cluster(load, [0, 0, 0, 0, 1, 2, 3, 3], np.ones(4), removed=removed)
    first = LocalSearch(1).plan(cluster)
    assert [move.source for move in first.moves] == [0]
    drain_first = LocalSearch(1, tolerated=np.inf).plan(cluster)
    assert [move.source for move in drain_first.moves] == [3]


def test_a_key_group_too_dear_for_the_budget_stays():
    removed = [False, True]
    cluster = Cluster([5, 5], [1, 1], [1, 1], removed=removed, migration_cost=[10, 3])
    plan = LocalSearch(max_cost=5).plan(cluster)
    assert [move.key_group for move in plan.moves] == [1]
    assert "1 of 2 key groups leave" in plan.reason
