"""What placers reach: the paper's set-ups, unequal workers, several resources, time limits."""

import numpy as np
import pytest

from penstock.checks.placers import uneven
from penstock.policies.placement import (
    Cluster,
    Cola,
    Consistent,
    Flux,
    LocalSearch,
    Milp,
    Traffic,
)
from penstock.sim import applied, even_cluster, uneven_cluster


def test_sixty_workers_within_twenty_migrations():
    theirs = []
    for seed in range(8):
        cluster = uneven_cluster(60, 1200, 0.3, seed=seed)
        ours, flux = LocalSearch(20).plan(cluster), Flux(20).plan(cluster)
        assert len(ours.moves) <= 20
        assert len(flux.moves) <= 20
        assert ours.distance_after <= 0.8
        assert ours.distance_after < flux.distance_after
        theirs.append(flux.distance_after)
    # Over the 8 seeds of the experiment, Flux is at 1.185 and the search at 0.67.
    assert np.mean(theirs) == pytest.approx(1.185, abs=0.001)


def test_sixty_workers_without_a_budget():
    plan = LocalSearch().plan(uneven_cluster(60, 1200, 0.3, seed=0))
    assert plan.distance_after <= 0.01
    assert len(plan.moves) < 200


@pytest.mark.parametrize("seed", range(3))
def test_near_the_bound_where_the_budget_binds(seed):
    plan = LocalSearch(10).plan(uneven_cluster(60, 1200, 0.6, seed=seed))
    assert len(plan.moves) == 10
    assert plan.lower_bound > 5
    assert plan.distance_after <= 1.05 * plan.lower_bound


def test_a_thousand_workers():
    plan = LocalSearch(333).plan(uneven_cluster(1_000, 20_000, 0.3, seed=0))
    assert len(plan.moves) <= 333
    assert plan.distance_after <= 1.3 * plan.lower_bound


def test_scale_in():
    even = even_cluster(60, 1200, 0)
    load = even.load[:, 0].copy()
    load[even.placement == 59] *= 2
    cluster = Cluster(load, even.placement, np.ones(60), removed=np.arange(60) < 10)
    distances, left = [], []
    for _ in range(12):
        plan = LocalSearch(20).plan(cluster)
        assert len(plan.moves) <= 20
        cluster = applied(cluster, plan)
        distances.append(plan.distance_after)
        left.append(cluster.undrained(cluster.placement))
    assert left[-1] == 0
    assert distances[7] < 5


def test_unequal_workers_get_their_share():
    rng = np.random.default_rng(0)
    capacity = np.array([0.5, 1, 2, 4])
    cluster = Cluster(rng.uniform(0.5, 1.5, 120), rng.integers(0, 4, 120), capacity)
    plan = LocalSearch().plan(cluster)
    carried = np.bincount(plan.placement, weights=cluster.load[:, 0])
    np.testing.assert_allclose(carried / capacity, cluster.mean, atol=0.02)


def memory_hungry():
    """The second worker has much CPU, and next to no memory to spare."""
    cpu = np.array([35.0, 35, 35, 35, 3, 3, 3, 3])
    memory = np.array([10.0, 10, 10, 10, 30, 30, 30, 5])
    return Cluster(np.stack((cpu, memory), axis=1), [0] * 4 + [1] * 4, [1, 1])


@pytest.mark.parametrize("placer", [LocalSearch(), Milp(), Flux(), Consistent(band=1)])
def test_no_worker_gets_more_than_it_can_carry_of_any_resource(placer):
    cluster = memory_hungry()
    assert cluster.bottleneck == 0
    plan = placer.plan(cluster)
    memory = np.bincount(plan.placement, weights=cluster.load[:, 1], minlength=2)
    assert (memory <= 100).all()
    # A move does not fit; a swap does.
    swaps = isinstance(placer, LocalSearch | Milp)
    assert plan.distance_after == (0 if swaps else plan.distance_before)


def test_what_is_too_much_already_may_stay_but_not_grow():
    load = np.array([[30.0, 60], [30, 60], [30, 5], [30, 5], [10, 1], [10, 1], [100, 0]])
    cluster = Cluster(load, [0, 0, 0, 0, 1, 1, 2], [1, 1, 1])
    assert cluster.bottleneck == 0
    plan = LocalSearch().plan(cluster)
    used = np.bincount(plan.placement, weights=load[:, 1], minlength=3)
    assert used[0] <= 130
    assert (used[1:] <= 100).all()
    assert plan.distance_after < plan.distance_before


def test_costs_bind():
    rng = np.random.default_rng(1)
    cost = rng.uniform(1, 100, 200)
    cluster = Cluster(
        rng.exponential(3.0, 200), rng.integers(0, 10, 200), np.ones(10), migration_cost=cost
    )
    plans = [LocalSearch(max_cost=limit).plan(cluster) for limit in (50, 200, 1_000)]
    assert all(plan.cost <= limit for plan, limit in zip(plans, (50, 200, 1_000), strict=True))
    distances = [plan.distance_after for plan in plans]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < distances[0]


def test_a_goal_saves_migrations():
    cluster = uneven_cluster(20, 400, 0.3, seed=0)
    moves = [len(LocalSearch(goal=goal).plan(cluster).moves) for goal in (0.01, 0.5, 3.0, 100.0)]
    assert moves == sorted(moves, reverse=True)
    assert moves[0] > moves[1] > moves[2] > moves[3] == 0


# The exact model.


def hard():
    """A problem that the search does not solve to the goal."""
    rng = np.random.default_rng(3)
    return Cluster(rng.exponential(8.0, 24), rng.integers(0, 4, 24), np.ones(4))


def test_the_solver_is_never_worse_than_the_search():
    searched, solved = LocalSearch(4).plan(hard()), Milp(4).plan(hard())
    assert solved.distance_after <= searched.distance_after
    assert len(solved.moves) <= 4


def test_no_time_gives_the_best_known():
    plan = Milp(4, time_limit_s=1e-9).plan(hard())
    assert plan.moves == LocalSearch(4).plan(hard()).moves
    assert plan.reason.endswith("the best known after 1e-09 s, which depends on the machine")


def test_nodes_end_the_solver_so_that_time_does_not_matter():
    # Among the problems whose plans changed with the time that the solver had.
    cluster = uneven(9, removed=(1,))
    plan = Milp().plan(cluster)
    assert plan.reason.endswith("the best known when the solver's limits were reached")
    assert plan.moves == Milp(time_limit_s=1e6).plan(cluster).moves


def test_a_proof_is_told():
    cluster = Cluster([7, 5, 4, 3], [0, 0, 0, 1], [1, 1])
    plan = Milp(1, goal=0, max_nodes=1_000).plan(cluster)
    assert plan.distance_after == 0.5
    cluster = Cluster([7, 5, 4, 3, 6], [0, 0, 0, 1, 2], [1, 1, 1])
    assert Milp(2, goal=0).plan(cluster).reason.endswith("; proven to be best")


def test_large_problems_are_searched(monkeypatch):
    plan = Milp(4, max_binaries=95).plan(hard())
    assert plan.reason.endswith("too large to be solved exactly (96 binaries), searched")
    assert plan.moves == LocalSearch(4).plan(hard()).moves


def test_the_solver_is_not_asked_where_the_search_is_enough(monkeypatch):
    monkeypatch.setattr(Milp, "balanced", lambda *_: np.array([0, 1, 0, 1]))
    plan = Milp().plan(Cluster([5, 5, 5, 5], [0, 0, 0, 0], [1, 1]))
    assert plan.reason == "load distance 10 -> 0 points (bound 0) with 2 migrations"


def test_the_solver_drains_as_much_as_the_search():
    cluster = hard()
    removed = np.array([True, False, False, False])
    cluster = Cluster(cluster.load, cluster.placement, cluster.capacity, removed=removed)
    searched, solved = LocalSearch(3).plan(cluster), Milp(3, goal=0).plan(cluster)
    left = [cluster.undrained(plan.placement) for plan in (searched, solved)]
    assert left[1] <= left[0]
    assert solved.distance_after <= searched.distance_after + 1e-9


# Baselines.


def test_flux_pairs_first_and_last():
    cluster = Cluster([9, 3, 2, 6, 4, 1], [0, 0, 0, 1, 2, 3], np.ones(4))
    plan = Flux().plan(cluster)
    # 14 and 1 differ by 13: 3 is the biggest that is not above 6.5; 6 and 4 differ by 2 only.
    assert plan.moves[0] == (1, 0, 3)
    assert len({move.key_group for move in plan.moves}) == len(plan.moves)


def test_flux_lowers_the_variance():
    for seed in range(5):
        cluster = uneven_cluster(20, 400, 0.6, seed=seed)
        plan = Flux(20).plan(cluster)
        before, after = (np.var(cluster.deviations(w)) for w in (cluster.placement, plan.placement))
        assert after < before
        assert len(plan.moves) <= 20


def test_consistent_gives_from_busy_to_idle_workers():
    cluster = Cluster([10, 10, 10, 10, 10], [0, 0, 0, 0, 1], np.ones(2))
    plan = Consistent(band=6).plan(cluster)
    assert [(m.source, m.target) for m in plan.moves] == [(0, 1)]
    assert plan.distance_after == 5


def test_consistent_without_an_idle_worker():
    # Mean 30: one is busy, and all others are between the thresholds (section VI-A).
    load = [20, 8, 4, 4, 28, 28, 28]
    cluster = Cluster(load, [0, 0, 0, 0, 1, 2, 3], np.ones(4))
    assert (cluster.deviations(cluster.placement)[1:] > -5).all()
    plan = Consistent(band=5).plan(cluster)
    assert plan.distance_before == 6
    assert plan.distance_after == 2
    assert len(plan.moves) == 1


# Known problems in which a part of the search or of the model decides.


def test_the_largest_key_groups_leave_first():
    removed = [True, False, False]
    cluster = Cluster([1, 8, 3, 10, 10], [0, 0, 0, 1, 2], np.ones(3), removed=removed)
    for budget, expected in ((1, [1]), (2, [1, 2]), (3, [1, 2, 0])):
        plan = LocalSearch(budget, tolerated=np.inf).plan(cluster)
        left = [move.key_group for move in plan.moves if move.source == 0]
        assert left == expected


def test_the_solver_is_better_than_the_search_within_the_budget():
    cluster = Cluster([28, 19, 20, 27, 17, 23, 25, 7, 2], [0, 0, 2, 2, 0, 1, 2, 0, 2], np.ones(3))
    searched, solved = (one.plan(cluster) for one in (LocalSearch(2, goal=0), Milp(2, goal=0)))
    assert (searched.distance_after, solved.distance_after) == (8, 4)
    assert len(solved.moves) == 2
    assert solved.reason.endswith("; proven to be best")


def test_moves_that_turn_out_to_be_unnecessary_are_taken_back():
    load, placement = [2, 7, 16, 9, 18, 18, 5, 18, 1, 2], [1, 0, 1, 1, 0, 2, 0, 2, 1, 2]
    plan = LocalSearch(goal=1.0).plan(Cluster(load, placement, np.ones(3)))
    assert plan.distance_after == 2
    assert len(plan.moves) == 3


def test_cola_gives_workers_in_proportion_to_their_capacity():
    groups = np.arange(80)
    chain = Traffic(source=groups[:-1], target=groups[1:], volume=np.ones(79))
    cluster = Cluster(np.ones(80), groups % 2, [1.0, 3.0], traffic=chain)
    plan = Cola().plan(cluster)
    assert np.bincount(plan.placement).tolist() == pytest.approx([20, 60], abs=2)
    assert plan.collocation_after > 0.95
