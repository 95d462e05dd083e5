"""Speeds of executors: what key groups tell that move, and executors that are gone."""

import pickle

import numpy as np
import pytest
from group_batches import INTERVAL_MS, A, B, C, followed, points, tasks
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.keygroups import KeyGroups, Ran


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
