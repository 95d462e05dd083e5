"""From tasks of batches to a cluster: loads, speeds, and where key groups live."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.keygroups import KeyGroups, Ran
from penstock.policies.placement import Cluster, LocalSearch

INTERVAL_MS = 1_000.0
A, B, C = "a", "b", "c"


def tasks(executor, busy_ms, records=0.0, groups=1, operator=0):
    return [Ran((operator, i), executor, busy_ms, records) for i in range(groups)]


def followed(*batches, interval_ms=INTERVAL_MS):
    groups = KeyGroups()
    for batch in batches:
        groups.add(batch, interval_ms)
    return groups


def points(groups, *executors):
    """The loads of all key groups that are alive."""
    return groups.cluster(dict.fromkeys(executors or (A, B, C), 1))[0].load[:, 0]


def seen_on(places, batches=3, records=100.0):
    """Batches of key groups that go from place to place: (executor, ms that a record takes)."""
    return [
        [
            Ran((0, i), executor, ms * records, records)
            for i, way in enumerate(places)
            for executor, ms in [way[min(turn, len(way) - 1)]]
        ]
        for turn in range(max(map(len, places)))
        for _ in range(batches)
    ]


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


# Speeds.


def ratio(groups, one=A, other=B):
    return groups.speed(one) / groups.speed(other)


def test_executors_are_equally_fast_until_something_tells():
    ways = [[(A, 1.0)]] * 5 + [[(B, 9.0)]] * 5
    groups = followed(*seen_on(ways))
    assert [groups.speed(one) for one in (A, B, "never seen")] == [1.0] * 3
    cluster, _ = groups.cluster({A: 2, B: 2})
    assert cluster.capacity.tolist() == [2, 2]


@pytest.mark.parametrize("first, second", [(1.0, 2.0), (2.0, 1.0)])
def test_an_executor_that_is_twice_as_slow_is_found(first, second):
    groups = followed(*seen_on([[(A, first), (B, second)]] * 10))
    assert ratio(groups) == pytest.approx(second / first, rel=0.01)
    cluster, _ = groups.cluster({A: 2, B: 2})
    assert cluster.capacity.tolist() == [2 * groups.speed(A), 2 * groups.speed(B)]


@settings(max_examples=50)
@given(
    st.lists(st.floats(0.01, 100.0), min_size=10, max_size=40),
    st.floats(0.5, 2.0),
    st.integers(1, 10_000),
)
def test_speeds_do_not_depend_on_what_a_record_costs_or_how_many_there_are(costs, slower, records):
    ways = [[(A, cost), (B, cost * slower)] for cost in costs]
    groups = followed(*seen_on(ways, records=float(records)))
    assert ratio(groups) == pytest.approx(slower, rel=0.01)


def test_little_evidence_is_believed_little():
    found = [ratio(followed(*seen_on([[(A, 1.0), (B, 2.0)]] * count))) for count in (1, 2, 5, 20)]
    assert (np.diff(found) > 0).all()
    assert 1.1 < found[0] < 1.5
    assert found[-1] == pytest.approx(2.0, rel=0.001)
    assert found[-1] < 2.0


def test_a_move_tells_as_much_of_one_executor_as_of_the_other():
    groups = followed(*seen_on([[(A, 1.0), (B, 16.0)]]))
    assert (groups.speed(A), groups.speed(B)) == pytest.approx((2.0, 0.5))
    assert groups.speed(C) == 1.0


def test_a_move_tells_once():
    way = [[(A, 1.0), (B, 16.0)]]
    assert ratio(followed(*seen_on(way, batches=50))) == ratio(followed(*seen_on(way, batches=2)))


def test_nothing_new_is_learnt_from_a_move_that_went_as_expected():
    groups = followed(*seen_on([[(A, 1.0), (B, 2.0)]] * 60))
    known = groups.speed(A), groups.speed(B)
    for batch in seen_on([[(B, 2.0), (A, 1.0)]]):
        groups.add(batch, INTERVAL_MS)
    assert (groups.speed(A), groups.speed(B)) == pytest.approx(known, rel=1e-6)


def test_an_executor_that_has_become_slow_is_found():
    groups = followed(*seen_on([[(A, 1.0), (B, 1.0)]] * 10))
    for batch in seen_on([[(B, 3.0), (A, 1.0)]] * 10, batches=20):
        groups.add(batch, INTERVAL_MS)
    assert ratio(groups) == pytest.approx(3.0, rel=0.05)


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcd"), st.floats(1e-9, 1e9)), min_size=1, max_size=4),
        min_size=1,
        max_size=30,
    )
)
def test_speeds_are_within_limits_whatever_was_measured(ways):
    groups = followed(*seen_on(ways))
    limit = 10.0 * (1 + 1e-9)
    assert all(1 / limit <= groups.speed(one) <= limit for one in "abcd")


def test_speeds_that_cannot_be_are_clipped():
    groups = followed(*seen_on([[(A, 1e-6), (B, 1e6)]] * 50))
    assert (groups.speed(A), groups.speed(B)) == pytest.approx((10.0, 0.1))


@pytest.mark.parametrize("turn", [1, -1], ids=["before", "after"])
@pytest.mark.parametrize("busy_ms, records", [(0.0, 10.0), (10.0, 0.0), (0.0, 0.0)])
def test_no_time_and_no_records_tell_nothing_of_speeds(busy_ms, records, turn):
    ways = [(busy_ms, records), (10.0, 10.0)][::turn]
    groups = followed(
        *3 * [tasks(A, *ways[0], groups=10)],
        *3 * [tasks(B, *ways[1], groups=10)],
    )
    assert (groups.speed(A), groups.speed(B)) == (1.0, 1.0)


def test_batches_without_records_do_not_hide_what_a_record_takes():
    idle = 3 * [tasks(A, 1.0)]
    groups = followed(*3 * [tasks(A, 100.0, 100.0)], *idle, *3 * [tasks(B, 200.0, 100.0)])
    assert ratio(groups) == pytest.approx(2**0.5)


def test_a_batch_without_records_after_a_move_delays_what_it_tells():
    groups = followed(*3 * [tasks(A, 100.0, 100.0)], *3 * [tasks(B, 1.0)])
    for _ in range(3):
        groups.add(tasks(B, 200.0, 100.0), INTERVAL_MS)
    assert ratio(groups) > 1.1


def test_what_loading_state_takes_does_not_make_an_executor_slow():
    groups = followed(
        *3 * [tasks(A, 100.0, 100.0, groups=10)],
        tasks(B, 9_000.0, 100.0, groups=10),
        *3 * [tasks(B, 100.0, 100.0, groups=10)],
    )
    assert (groups.speed(A), groups.speed(B)) == pytest.approx((1.0, 1.0))


def test_loads_of_slow_executors_are_those_of_the_work():
    """A key group of the same work has the same load wherever it lives."""
    measured = [[(A, 1.0), (B, 2.0)], [(B, 2.0), (A, 1.0)]] * 100
    groups = followed(*seen_on([*measured, [(A, 1.0)], [(B, 2.0)]], batches=20))
    cluster, [_, slow] = groups.cluster({A: 1, B: 1})
    assert slow == B
    on_fast, on_slow = cluster.load[-2:, 0]
    assert on_fast == pytest.approx(on_slow, rel=0.02)
    assert cluster.capacity[0] / cluster.capacity[1] == pytest.approx(2.0, rel=0.02)


def test_how_full_an_executor_is_does_not_depend_on_its_speed():
    groups = followed(*seen_on([[(A, 1.0), (B, 2.0)]] * 10, batches=30))
    cluster, _ = groups.cluster({A: 1, B: 1})
    full = cluster.load[:, 0].sum() / cluster.capacity[1]
    assert full == pytest.approx(100 * 10 * 200.0 / INTERVAL_MS, rel=0.01)


@pytest.mark.parametrize("batches", [1, 2, 3, 10])
def test_a_move_to_a_slow_executor_does_not_change_the_load(batches):
    groups = followed(*seen_on([*[[(A, 1.0), (B, 2.0)]] * 100, [(A, 1.0)]], batches=20))
    before = points(groups)[-1]
    for _ in range(batches):
        groups.add([Ran((0, 100), B, 200.0, 100.0)], INTERVAL_MS)
    assert points(groups)[-1] == pytest.approx(before, rel=0.01)


def test_records_that_become_dearer_everywhere_do_not_make_an_executor_slow():
    ways = [[(A, 1.0), (B, 1.0), (B, 3.0)]] * 10 + [[(A, 1.0), (A, 1.0), (A, 3.0)]] * 10
    groups = followed(*seen_on(ways, batches=20))
    assert ratio(groups) == pytest.approx(1.0)


def test_executors_are_compared_by_way_of_others():
    ways = [[(A, 2.0), (B, 1.0)], [(B, 1.0), (C, 1.0)]] * 50
    groups = followed(*seen_on(ways))
    assert ratio(groups, B, C) == pytest.approx(1.0, rel=0.01)
    assert ratio(groups, C, A) == pytest.approx(2.0, rel=0.01)


# Executors that are gone.


def test_executors_that_are_gone_are_forgotten_and_others_are_not():
    groups = followed(*seen_on([[(A, 1.0), (B, 2.0)]] * 10))
    known = groups.speed(A), groups.speed(B)
    groups.cluster({A: 1, B: 1, C: 1}, marked=frozenset({B}))
    assert (groups.speed(A), groups.speed(B)) == known
    groups.cluster({A: 1, C: 1})
    # The only one that is known is now the measure.
    assert (groups.speed(A), groups.speed(B)) == (1.0, 1.0)


def test_memory_is_bounded_when_executors_come_and_go_for_ever():
    groups, sizes = KeyGroups(), []
    for number in range(200):
        for _ in range(2):
            groups.add(tasks(f"{number:06}", 10.0, 10.0, groups=8), INTERVAL_MS)
        groups.cluster({f"{number:06}": 1})
        sizes.append(len(pickle.dumps(groups)))
    assert sizes[-1] < 2 * sizes[20]


def after_a_slow_one():
    """A has become known to be four times as slow as B and C, and is gone."""
    ways = [[(A, 4.0), (B, 1.0)], [(A, 4.0), (C, 1.0)], [(B, 1.0), (C, 1.0)]] * 20
    return followed(*seen_on([*ways, *8 * [[(A, 4.0)]]], batches=10))


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_load_that_was_measured_on_a_slow_executor_that_is_gone_does_not_change(batches):
    """The same work takes 100 ms on B: a tenth of its time."""
    groups = after_a_slow_one()
    cluster, _ = groups.cluster({A: 1, B: 1, C: 1})
    assert cluster.load[-8:, 0] / cluster.capacity[1] == pytest.approx([10.0] * 8, rel=0.01)
    groups.cluster({B: 1, C: 1})
    for _ in range(batches):
        groups.add([Ran((0, i), B, 100.0, 100.0) for i in range(60, 68)], INTERVAL_MS)
    cluster, _ = groups.cluster({B: 1, C: 1})
    assert cluster.load[-8:, 0] / cluster.capacity[0] == pytest.approx([10.0] * 8, rel=0.1)


def test_who_takes_over_from_a_slow_executor_that_is_gone_does_not_become_faster():
    groups = after_a_slow_one()
    assert ratio(groups, B, C) == pytest.approx(1.0, rel=0.01)
    groups.cluster({B: 1, C: 1})
    for _ in range(3):
        groups.add([Ran((0, i), B, 100.0, 100.0) for i in range(60, 68)], INTERVAL_MS)
    assert ratio(groups, B, C) == pytest.approx(1.0, rel=0.1)


def test_a_new_executor_is_as_fast_as_the_others_when_the_slow_one_is_gone():
    groups = after_a_slow_one()
    cluster, _ = groups.cluster({B: 1, C: 1, "new": 1})
    assert cluster.capacity / cluster.capacity.mean() == pytest.approx([1.0] * 3, rel=0.1)


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
