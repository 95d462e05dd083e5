"""From tasks of batches to a cluster: loads, places, traffic, and costs of key groups."""

import numpy as np
import pytest
from group_batches import INTERVAL_MS, A, B, C, followed, points, tasks
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.keygroups import KeyGroups, Ran
from penstock.policies.placement import Cluster, LocalSearch

# Loads.


def test_a_load_is_100_times_busy_by_interval():
    groups = followed(*3 * [tasks(A, 250.0)], interval_ms=500.0)
    assert points(groups).tolist() == [50.0]


def test_slots_do_not_change_loads_but_capacities():
    groups = followed(*3 * [tasks(A, 250.0)])
    cluster, names = groups.cluster({A: 4, B: 2})
    assert cluster.load[:, 0].tolist() == [25.0]
    assert dict(zip(names, cluster.capacity, strict=True)) == {A: 4, B: 2}


def test_the_first_batch_of_all_is_not_a_load():
    groups = followed(tasks(A, 9_000.0))
    assert np.isnan(points(groups)).all()
    groups.add(tasks(A, 100.0), INTERVAL_MS)
    assert points(groups).tolist() == [10.0]


def test_loads_are_smoothed():
    groups = followed(*5 * [tasks(A, 100.0)], tasks(A, 200.0))
    [after_one] = points(groups)
    assert 10 < after_one < 20
    found = [after_one]
    for _ in range(20):
        groups.add(tasks(A, 200.0), INTERVAL_MS)
        found += points(groups).tolist()
    assert (np.diff(found) > 0).all()
    assert found[-1] == pytest.approx(20.0, rel=0.01)


def test_intervals_are_smoothed_too():
    groups = followed(*5 * [tasks(A, 100.0)])
    groups.add(tasks(A, 100.0), 2 * INTERVAL_MS)
    assert 5 < points(groups)[0] < 10


@given(st.lists(st.floats(1.0, 1e4), min_size=2, max_size=30), st.floats(1.0, 1e5))
def test_a_load_is_never_outside_of_what_was_measured(busy_ms, interval_ms):
    groups = followed(*(tasks(A, ms) for ms in busy_ms), interval_ms=interval_ms)
    [load] = points(groups) * interval_ms / 100
    assert min(busy_ms[1:]) * (1 - 1e-9) <= load <= max(busy_ms[1:]) * (1 + 1e-9)


def test_the_first_batch_after_a_move_is_not_a_load():
    other = [Ran((0, 1), B, 100.0)]
    groups = followed(*3 * [tasks(A, 100.0) + other], tasks(B, 9_000.0) + other)
    assert groups.where[0, 0] == B
    assert points(groups).tolist() == [10.0, 10.0]
    groups.add(tasks(B, 200.0) + other, INTERVAL_MS)
    assert 10 < points(groups)[0] < 20


def test_the_first_batch_on_a_new_executor_is_not_a_load():
    groups = followed(*3 * [tasks(A, 100.0)], tasks("new", 9_000.0))
    assert points(groups, "new").tolist() == [10.0]


@pytest.mark.parametrize("before", [[], 3 * [tasks(B, 100.0)]], ids=["first", "moved"])
def test_a_task_that_ran_twice_in_the_batch_that_loads_state_is_not_a_load(before):
    groups = followed(*before, 2 * tasks(A, 9_000.0))
    assert points(groups) == pytest.approx([10.0 if before else np.nan], nan_ok=True)


def test_the_way_home_is_a_move_as_well():
    groups = followed(*3 * [tasks(A, 100.0)], tasks(B, 9_000.0), tasks(A, 9_000.0))
    assert points(groups).tolist() == [10.0]


def test_a_key_group_that_never_settles_has_no_load():
    groups = followed(*10 * [tasks(A, 100.0), tasks(B, 100.0)])
    assert np.isnan(points(groups)).all()


def test_a_key_group_without_a_task_keeps_its_load_and_place():
    groups = followed(*3 * [tasks(A, 100.0, groups=2)], tasks(A, 100.0), [])
    assert points(groups).tolist() == [10.0, 10.0]
    assert groups.where[0, 1] == A
    assert groups.batches == 5


def test_nothing_is_planned_while_a_load_is_not_known():
    groups = followed(*3 * [tasks(A, 100.0, groups=4)])
    groups.add([*tasks(A, 100.0, groups=4), Ran((0, 4), B, 1.0)], INTERVAL_MS)
    cluster, _ = groups.cluster({A: 1, B: 1})
    assert np.isnan(cluster.load[:, 0]).tolist() == [False] * 4 + [True]
    plan = LocalSearch().plan(cluster)
    assert plan.moves == ()
    assert "the load of 1 key groups is unknown" in plan.reason


# Places.


def test_key_groups_of_executors_that_vanished_are_left_out():
    batch = [Ran((0, 0), A, 100.0), Ran((0, 1), B, 200.0), Ran((1, 0), A, 300.0)]
    groups = followed(*3 * [batch])
    cluster, names = groups.cluster({C: 1, A: 1})
    assert groups.groups({C: 1, A: 1}) == [(0, 0), (1, 0)]
    assert names == [C, A]
    assert cluster.load[:, 0].tolist() == [10.0, 30.0]
    assert cluster.placement.tolist() == [1, 1]


def test_a_key_group_of_an_executor_that_vanished_has_its_load_where_it_reappears():
    groups = followed(*3 * [tasks(A, 100.0)])
    assert groups.groups([B]) == []
    groups.add(tasks(B, 9_000.0), INTERVAL_MS)
    assert groups.groups([B]) == [(0, 0)]
    assert points(groups, B).tolist() == [10.0]


def test_new_executors_are_workers_without_key_groups():
    groups = followed(*3 * [tasks(A, 100.0, groups=2)])
    cluster, names = groups.cluster({A: 1, "new": 2, "newer": 3})
    assert names == [A, "new", "newer"]
    assert cluster.capacity.tolist() == [1, 2, 3]
    assert cluster.placement.tolist() == [0, 0]


def test_marked_executors_are_removed():
    groups = followed(*3 * [tasks(A, 100.0)])
    executors = {A: 1, B: 1, C: 1}
    assert groups.cluster(executors)[0].removed.tolist() == [False] * 3
    marked = frozenset({C, A, "gone"})
    assert groups.cluster(executors, marked=marked)[0].removed.tolist() == [True, False, True]


def test_key_groups_know_their_operators():
    groups = followed(*3 * [tasks(A, 1.0, operator=3) + tasks(B, 1.0, groups=2, operator=1)])
    assert groups.cluster({A: 1, B: 1})[0].operator.tolist() == [1, 1, 3]


def test_nothing_has_been_seen_yet():
    cluster, names = KeyGroups().cluster({A: 1})
    assert (cluster.key_groups, cluster.workers, names) == (0, 1, [A])
    assert LocalSearch().plan(cluster).reason == "nothing is moved: there are no key groups"


def test_there_may_be_no_executors():
    cluster, names = followed(*3 * [tasks(A, 1.0)]).cluster({})
    assert (cluster.key_groups, cluster.workers, names) == (0, 0, [])


# What key groups send, and what moving them costs.


def test_traffic_is_only_between_key_groups_that_are_known():
    groups = followed(*3 * [[Ran((0, 0), A, 1.0), Ran((1, 0), A, 1.0), Ran((1, 1), B, 1.0)]])
    sent = {
        ((0, 0), (1, 0)): 5.0,
        ((0, 0), (1, 1)): 7.0,
        ((1, 0), (0, 0)): 0.0,
        ((0, 0), (9, 9)): 11.0,
        ((9, 9), (0, 0)): 13.0,
    }
    traffic = groups.cluster({A: 1, B: 1}, traffic=sent)[0].traffic
    found = zip(traffic.source, traffic.target, traffic.volume, strict=True)
    assert sorted(found) == [(0, 1, 5.0), (0, 2, 7.0)]
    assert len(groups.cluster({A: 1}, traffic=sent)[0].traffic) == 1
    assert len(groups.cluster({B: 1}, traffic=sent)[0].traffic) == 0


def test_migration_costs_are_1_where_none_is_given():
    groups = followed(*3 * [tasks(A, 1.0, groups=3)])
    cost = {(0, 1): 500.0, (0, 2): 0.0, (9, 9): 7.0}
    assert groups.cluster({A: 1}, migration_cost=cost)[0].migration_cost.tolist() == [1, 500, 0]
    for none in (None, {}):
        found = groups.cluster({A: 1}, migration_cost=none)[0].migration_cost
        assert found.tolist() == [1, 1, 1]


# What is not a number.


def test_what_is_not_known_changes_nothing():
    nan = float("nan")
    groups = followed(*3 * [tasks(A, 100.0, 100.0)])
    groups.add(tasks(A, nan, 100.0), nan)
    assert points(groups).tolist() == [10.0]
    for _ in range(3):
        groups.add(tasks(B, nan, 100.0), INTERVAL_MS)
    assert groups.where[0, 0] == B
    assert points(groups).tolist() == [10.0]
    assert (groups.speed(A), groups.speed(B)) == (1.0, 1.0)


def test_what_was_not_known_at_first_is_known_later():
    nan = float("nan")
    groups = followed(*3 * [tasks(A, nan, 100.0)], interval_ms=nan)
    assert np.isnan(points(groups)).all()
    groups.add(tasks(A, 100.0, 100.0), INTERVAL_MS)
    assert points(groups).tolist() == [10.0]


# Whatever happens.

NAMES = st.sampled_from(["1", "2", "3", "4", "driver"])
RAN = st.builds(
    Ran,
    st.tuples(st.integers(0, 2), st.integers(0, 5)),
    NAMES,
    st.floats(0.0, 1e7),
    st.one_of(st.just(0.0), st.floats(1.0, 1e9)),
)
BATCHES = st.lists(st.tuples(st.lists(RAN, max_size=12), st.floats(1.0, 1e6)), max_size=12)


@settings(deadline=None, max_examples=150)
@given(
    BATCHES,
    st.dictionaries(NAMES, st.integers(1, 16)),
    st.frozensets(NAMES),
    st.dictionaries(
        st.tuples(*2 * [st.tuples(st.integers(0, 3), st.integers(0, 6))]),
        st.floats(0.0, 1e12),
        max_size=8,
    ),
)
def test_any_batches_give_a_cluster_with_every_live_key_group_placed_once(
    batches, executors, marked, traffic
):
    groups, last = KeyGroups(), {}
    for batch, interval_ms in batches:
        groups.add(batch, interval_ms)
        last |= {one.group: one.executor for one in batch}
        cluster, names = groups.cluster(executors, marked=marked, traffic=traffic)
        ids = groups.groups(executors)
        assert isinstance(cluster, Cluster)
        assert names == list(executors)
        assert ids == sorted(group for group, place in last.items() if place in executors)
        assert [names[i] for i in cluster.placement] == [last[group] for group in ids]
        assert cluster.operator.tolist() == [operator for operator, _ in ids]
        assert cluster.load.shape == (len(ids), 1)
        assert not np.isinf(cluster.load).any()
        assert all(0.099 < groups.speed(name) < 10.001 for name in names)
        assert set(np.array(names)[cluster.removed]) == marked & set(names)
    assert groups.batches == len(batches)
