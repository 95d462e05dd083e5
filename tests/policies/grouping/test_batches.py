"""Batches: all instances idle, records known together, and the last word of trackers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import optimum

from penstock.policies.costs import CountMin, Exact, SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import (
    FullKnowledge,
    KeyHash,
    Proactive,
    ProactiveAsPublished,
    RoundRobin,
)

COSTS = Exact(range(65), [float(key) for key in range(65)])  # key t costs t ms


def posg(k):
    """A grouping that knows all the costs."""
    grouping = Proactive(k)
    for instance in range(k):
        measured = grouping.measurements()
        measured.update(range(65), [float(key) for key in range(65)])
        grouping.observe(Feedback(instance, measured, delta_ms=0.0))
    return grouping


MAKERS = {"posg": posg, "full_knowledge": lambda k: FullKnowledge(k, COSTS)}


def makespan(instances, keys, k):
    return np.bincount(instances, weights=keys, minlength=k).max()


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=8), st.integers(1, 4), st.integers(0, 5))
@pytest.mark.parametrize("name", MAKERS)
def test_longest_first_is_within_its_bound(name, keys, k, router):
    grouping = MAKERS[name](k)
    grouping.begin(router)
    found = makespan(grouping.route_together(keys), keys, k)
    assert found <= (4 / 3 - 1 / (3 * k)) * optimum(keys, k) + 1e-6


@pytest.mark.parametrize("name", MAKERS)
def test_longest_first_by_hand(name):
    grouping = MAKERS[name](2)
    # In the order of arrival 1, 1 | 2 would make 3; the longest first makes 2.
    assert makespan(grouping.route_together([1, 1, 2]), [1, 1, 2], 2) == 2
    grouping.begin(0)
    assert makespan(grouping.route([1, 1, 2]), [1, 1, 2], 2) == 3


def test_without_costs_together_is_in_order():
    for grouping in (RoundRobin(3), KeyHash(3), ProactiveAsPublished(3), Proactive(3)):
        keys = np.arange(20)
        np.testing.assert_array_equal(
            np.bincount(grouping.clone().route_together(keys), minlength=3),
            np.bincount(grouping.clone().route(keys), minlength=3),
        )


@pytest.mark.parametrize(
    "make",
    [*MAKERS.values(), RoundRobin, Proactive, ProactiveAsPublished],
    ids=lambda make: make.__qualname__,
)
def test_routers_start_at_different_instances(make):
    grouping = make(3)
    first = []
    for router in range(7):
        grouping.begin(router)
        first.append(int(grouping.route([1])[0]))
    assert first == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("name", MAKERS)
def test_a_batch_begins_idle(name):
    grouping, fresh = MAKERS[name](3), MAKERS[name](3)
    grouping.route([64, 64, 1], [50.0, 60.0, 70.0])
    grouping.observe(Feedback(0, delta_ms=1_000.0))
    for one in (grouping, fresh):
        one.begin(1)
    keys = np.random.default_rng(0).integers(1, 65, size=200)
    np.testing.assert_array_equal(grouping.route(keys), fresh.route(keys))


def test_what_was_expected_of_a_message():
    grouping = posg(2)
    measured = grouping.measurements()
    measured.update([10, 10, 3], [11.0, 11.0, 5.0])
    assert grouping.expected_total_ms(Feedback(1, measured)) == pytest.approx(23)
    assert grouping.expected_total_ms(Feedback(1, delta_ms=3.0)) == 0
    assert RoundRobin(2).expected_total_ms(Feedback(1, measured)) == 0


def test_models_of_measurements():
    assert RoundRobin(2).measurements() is None
    assert isinstance(Proactive(2).measurements(), SpaceSaving)
    assert ProactiveAsPublished(2, seed=3).measurements() == CountMin(seed=3)


@pytest.mark.parametrize("grouping", [Proactive(1), ProactiveAsPublished(1)], ids=str)
def test_trackers_say_the_rest_at_the_end(grouping):
    tracker = grouping.tracker(0)
    tracker.execute(np.array([1, 2]), np.array([10.0, 4.0]), finished_ms=14.0)
    (last,) = tracker.finish()
    assert (last.instance, last.delta_ms) == (0, None)
    assert last.costs.estimate([1, 2]).tolist() == [10.0, 4.0]
    grouping.observe(last)


def test_messages_about_nothing_teach_nothing():
    grouping = Proactive(3)
    for instance in range(3):
        for message in grouping.tracker(instance).finish():
            grouping.observe(message)
    assert np.bincount(grouping.route(np.arange(300)), minlength=3).tolist() == [100, 100, 100]
