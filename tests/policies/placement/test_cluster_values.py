"""Clusters: what is known of one, what is refused, and what plans say of it."""

import numpy as np
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.policies.placement import Cluster, LocalSearch, Placer, Traffic
from penstock.policies.placement.problem import Problem


def cluster(**changes):
    given = {"load": [30, 30, 20, 0], "placement": [0, 0, 1, 2], "capacity": [1, 1, 1]}
    return Cluster(**(given | changes))


def test_distance_and_mean():
    one = cluster()
    assert one.mean == pytest.approx(80 / 3)
    assert one.distance(one.placement) == pytest.approx(60 - 80 / 3)
    np.testing.assert_allclose(one.deviations(one.placement) + one.mean, [60, 20, 0])


def test_capacities_weigh():
    one = cluster(capacity=[3, 1, 0.5])
    assert one.mean == pytest.approx(80 / 4.5)
    assert one.distance(one.placement) == pytest.approx(80 / 4.5)
    assert one.deviations(one.placement)[0] == pytest.approx(20 - one.mean)


def test_removed_workers_count_in_the_mean_only():
    one = cluster(removed=[True, False, False])
    assert one.mean == 40
    assert one.distance(one.placement) == 40
    assert one.undrained(one.placement) == 2


def test_the_mean_is_not_rounded():
    # The paper rounds it up: then a perfect placement has a distance, and lower loads are better.
    one = Cluster(load=[0.5, 0.5], placement=[0, 1], capacity=[1, 1])
    assert one.mean == 0.5
    assert one.distance(one.placement) == 0


def test_the_bottleneck_is_balanced():
    one = cluster(load=[[1, 30], [1, 30], [90, 20], [0, 40]])
    assert one.bottleneck == 1
    assert one.mean == 40


def test_collocation():
    one = cluster(traffic=Traffic([0, 0, 2], [1, 2, 3], [3, 1, 4]))
    assert one.collocation(one.placement) == 3 / 8
    assert np.isnan(cluster().collocation(one.placement))


def test_a_cluster_cannot_be_changed():
    loads = np.array([30.0, 30, 20, 0])
    one = cluster(load=loads)
    loads[0] = 99
    assert one.load[0, 0] == 30
    with pytest.raises(ValueError, match="read-only"):
        one.placement[0] = 2


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"load": [1, 2]}, "load must have one row for each of 4 key groups; got shape (2,)"),
        ({"load": [1, -2, 3, 4]}, "load must be >= 0; got -2 at 1"),
        ({"load": list("abcd")}, "load must be numbers; got ['a', 'b', 'c', 'd']"),
        ({"placement": [0, 1, 2, 3]}, "placement must name workers from 0 to 2; got 3 at 3"),
        ({"placement": [0, 1, 2, -1]}, "placement must name workers from 0 to 2; got -1 at 3"),
        (
            {"capacity": [1, 0, 1]},
            "capacity must be finite and > 0; got 0 at 1. Mark a worker without capacity as "
            "removed",
        ),
        ({"removed": [True]}, "removed must be True or False for each of 3 workers; got [True]"),
        ({"operator": [1]}, "operator must have shape (4,); got (1,)"),
        (
            {"migration_cost": [1, 2, 3, np.nan]},
            "migration_cost must be finite and >= 0; got nan at 3",
        ),
        (
            {"traffic": Traffic([0], [4], [1])},
            "traffic must name key groups from 0 to 3; got 4 at 0",
        ),
    ],
)
def test_clusters_that_are_refused(changes, message):
    with pytest.raises(PenstockError) as caught:
        cluster(**changes)
    assert str(caught.value) == message


def test_traffic_that_is_refused():
    with pytest.raises(PenstockError, match="traffic target must have shape"):
        Traffic([0, 1], [0], [1, 1])
    with pytest.raises(PenstockError, match="traffic volume must be finite and >= 0"):
        Traffic([0], [1], [-1.0])


def test_a_budget_is_one_of_two():
    with pytest.raises(PenstockError, match="max_cost must be None if max_migrations = 3 is given"):
        LocalSearch(3, 5.0)
    with pytest.raises(PenstockError, match="max_migrations must be >= 0; got -1"):
        LocalSearch(-1)
    with pytest.raises(PenstockError, match="max_cost must be >= 0; got -1"):
        LocalSearch(max_cost=-1)
    assert LocalSearch().budget == np.inf
    assert LocalSearch(max_cost=3).prices(cluster(migration_cost=[1, 2, 3, 4])).tolist() == [
        1,
        2,
        3,
        4,
    ]
    assert LocalSearch(3).prices(cluster(migration_cost=[1, 2, 3, 4])).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "placer, changes, reason",
    [
        (LocalSearch(0), {}, "the budget is 0 (max_migrations)"),
        (LocalSearch(max_cost=0), {}, "the budget is 0 (max_cost)"),
        (
            LocalSearch(),
            {"load": [1, np.nan, 1, np.inf]},
            "the load of 2 key groups is unknown, for example of key group 1",
        ),
        (LocalSearch(), {"load": [0, 0, 0, 0]}, "all loads are 0"),
        (LocalSearch(), {"removed": [True] * 3}, "all 3 workers are marked for removal"),
        (LocalSearch(), {"load": [], "placement": []}, "there are no key groups"),
    ],
)
def test_why_nothing_is_moved(placer, changes, reason):
    plan = placer.plan(cluster(**changes))
    assert plan.moves == ()
    assert plan.reason == f"nothing is moved: {reason}"
    assert plan.obstacle == reason


def test_reasons():
    traffic = Traffic([0], [2], [1])
    plan = LocalSearch(1, goal=1).plan(cluster(traffic=traffic, removed=[False, False, True]))
    assert plan.reason == (
        "load distance 20 -> 10 points (bound 10) with 1 migrations of at most 1; "
        "0 of 1 key groups leave workers to be removed; collocation 0% -> 100%"
    )
    plan = LocalSearch(max_cost=2.5, goal=1).plan(cluster(migration_cost=[2, 2, 2, 2]))
    assert plan.reason.endswith("with 1 migrations that cost 2 of at most 2.5")
    even = Cluster([5, 5], [0, 1], [1, 1])
    plan = LocalSearch().plan(even)
    assert plan.reason == "nothing to move: load distance 0 points (bound 0)"
    assert plan.obstacle == ""


def test_moves_that_relieve_most_come_first():
    # Worker 1 is the fullest, then worker 0; key group 0 is the largest, but on worker 0.
    one = Cluster([12, 4, 9, 11, 5, 6], [0, 0, 1, 1, 1, 2], [1, 1, 1])
    moves = Given([2, 2, 2, 0, 0, 2]).plan(one).moves
    assert [move.key_group for move in moves] == [3, 2, 4, 0, 1]


class Given(Placer):
    """One of the user's own: a placement as given."""

    def __init__(self, placement, max_migrations=None):
        super().__init__(max_migrations)
        self.placement = placement

    def place(self, cluster):
        return np.array(self.placement), "as given"


@pytest.mark.parametrize(
    "own, message",
    [
        (Given([0, 0]), "Given must place each of 4 key groups; got shape (2,)"),
        (
            Given([0, 0, 1, 3]),
            "Given must move key groups to workers that stay; got 3 for key group 3",
        ),
        (
            Given([1, 0, 1, 2]),
            "Given must move key groups to workers that stay; got 1 for key group 0",
        ),
        (Given([2, 2, 0, 0], 3), "Given must spend at most 3; got 4"),
    ],
)
def test_wrong_plans_of_your_own_are_refused(own, message):
    with pytest.raises(PenstockError) as caught:
        own.plan(cluster(removed=[False, True, False]))
    assert str(caught.value) == message


def test_public_names():
    assert penstock.placement.Albic(max_migrations=10).budget == 10
    assert Placer.named("albic", max_migrations=10) == penstock.placement.Albic(10)


def test_units_are_merged():
    one = cluster(load=[[30, 1], [30, 2], [20, 3], [0, 4]])
    problem = Problem.of(one, np.array([1.0, 2, 4, 8]), 3.0)
    merged = problem.merged(np.array([1, 1, 0, 2]))
    assert merged.load.tolist() == [20, 60, 0]
    assert merged.others.tolist() == [[3], [3], [4]]
    assert merged.price.tolist() == [4, 3, 8]
    assert merged.home.tolist() == [1, 0, 2]
