"""Groupings of a user's own in the engine: with `route` alone, and with trackers."""

import numpy as np
import pytest

from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.sim import Stream, Synthetic, simulate


class Alternate(Grouping):
    """Needs `route` only."""

    def route(self, keys, now_ms=None):
        return np.asarray(np.abs(keys) % self.instances, dtype=np.int32)


class Telltale:
    """Says after every record what it has seen."""

    state = "LISTENING"

    def __init__(self, instance):
        self.instance = instance

    def execute(self, keys, costs_ms, finished_ms, request=None):
        return [Feedback(self.instance, delta_ms=float(costs_ms.sum()))]


class LeastWork(Grouping):
    """Routes to the instance that has reported the least work; keeps a diary."""

    def __init__(self, instances):
        super().__init__(instances)
        self.told_ms = np.zeros(instances)
        self.diary = []

    def tracker(self, instance):
        return Telltale(instance)

    def route(self, keys, now_ms=None):
        self.diary += [("route", float(now)) for now in now_ms]
        return np.full(len(keys), self.told_ms.argmin(), dtype=np.int32)

    def observe(self, feedback):
        self.diary.append(("observe", feedback.instance, feedback.delta_ms))
        self.told_ms[feedback.instance] += feedback.delta_ms


def test_route_alone_is_enough():
    stream = Synthetic(records=500).stream(1).provisioned(3)
    result = simulate(Alternate(3), stream)
    np.testing.assert_array_equal(result.instances, stream.keys % 3)
    assert (result.messages, result.scheduler_bytes, result.tracker_bytes) == (0, 0, 0)
    assert [(c.who, c.state) for c in result.changes] == [("scheduler", "RUN")]


def test_an_own_tracker_is_heard_in_time():
    stream = Stream.of([1, 2, 2, 2], [10.0, 1.0, 1.0, 1.0]).every(5.0)
    grouping = LeastWork(2)
    result = simulate(grouping, stream, delay_ms=2.0)
    # Done at 10, 11 and 12 ms, received 2 ms later: the fourth record is the first to profit.
    assert grouping.diary == [
        ("route", 0.0),
        ("route", 5.0),
        ("route", 10.0),
        ("observe", 0, 10.0),
        ("observe", 0, 1.0),
        ("observe", 0, 1.0),
        ("route", 15.0),
    ]
    assert result.instances.tolist() == [0, 0, 0, 1]
    assert result.messages == 4
    assert result.message_bytes == 4 * Feedback(0, delta_ms=0.0).message_bytes


@pytest.mark.parametrize("delay_ms, heard", [(4.0, True), (5.0, True), (5.5, False)])
def test_a_message_of_this_very_moment_is_heard(delay_ms, heard):
    # The first record is done at 5 ms; the third one arrives at 10 ms.
    stream = Stream.of([1, 1, 1], [5.0, 100.0, 5.0]).arriving([0.0, 1.0, 10.0])
    result = simulate(LeastWork(2), stream, delay_ms=delay_ms)
    assert result.instances.tolist() == [0, 0, 1 if heard else 0]


def test_state_of_own_trackers_is_recorded():
    result = simulate(LeastWork(2), Stream.of([1], [1.0]))
    assert {(c.who, c.state) for c in result.changes} == {
        ("scheduler", "RUN"),
        ("instance 0", "LISTENING"),
        ("instance 1", "LISTENING"),
    }


class OddOnesOut(Alternate):
    """Measures instances 0 and 2 only."""

    def __init__(self, instances):
        super().__init__(instances)
        self.told_ms = {}

    def tracker(self, instance):
        return None if instance % 2 else Telltale(instance)

    def observe(self, feedback):
        told_ms = self.told_ms.get(feedback.instance, 0.0)
        self.told_ms[feedback.instance] = told_ms + feedback.delta_ms


def test_some_instances_may_have_no_tracker():
    keys = [0, 1, 2] * 5
    stream = Stream.of(keys, [1.0 + key for key in keys]).every(10.0)
    grouping = OddOnesOut(3)
    simulate(grouping, stream)
    assert grouping.told_ms == {0: 5 * 1.0, 2: 4 * 3.0}  # the last one is not delivered
