"""Shedders of a user's own in the engine: masks, trackers, and protected records."""

import numpy as np
import pytest
from every_shedder import Odd

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import RoundRobin
from penstock.sim import Stream, simulate


class Own(Odd):
    """Returns the decisions that it was given."""

    def __init__(self, wrong):
        super().__init__()
        self.wrong = wrong

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return self.wrong(np.asarray(keys))


class Measured(Own):
    """The same, with a tracker: records are decided about one by one."""

    def tracker(self, instance):
        return Telltale()


class Telltale:
    """Says after every record what it cost."""

    state = "LISTENING"

    def execute(self, keys, costs_ms, finished_ms, request=None):
        return [Feedback(0, delta_ms=float(costs_ms.sum()))]

    def finish(self):
        return []


WRONG = {
    "whole numbers": (lambda keys: keys, "dtype int64 and shape ({},)"),
    "numbers": (lambda keys: np.ones(keys.size), "dtype float64 and shape ({},)"),
    "empty": (lambda keys: np.ones(0, dtype=np.bool_), "dtype bool and shape (0,)"),
    "table": (lambda keys: np.ones((keys.size, 1), dtype=np.bool_), "dtype bool and shape ({}, 1)"),
    "list": (lambda keys: [True] * keys.size, "a value of type list"),
    "one value": (lambda keys: True, "a value of type bool"),
    "nothing": (lambda keys: None, "a value of type NoneType"),
}


@pytest.mark.parametrize("cls", [Own, Measured])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_mask_is_refused(cls, wrong):
    stream = Stream.of([1, 2, 3], [1.0] * 3).every(1.0)
    with pytest.raises(PenstockError) as caught:
        simulate(RoundRobin(1), stream, shedder=cls(WRONG[wrong][0]))
    records = 3 if cls is Own else 1
    assert str(caught.value) == (
        f"{cls.__name__}.admit must return a bool array with True or False for each of {records} "
        f"records; got {WRONG[wrong][1].format(records)}"
    )


class Diary(Odd):
    """Keeps each message that it receives, with its time."""

    def __init__(self):
        super().__init__()
        self.diary = []

    def tracker(self, instance):
        return Telltale()

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        self.diary += [("admit", float(now)) for now in now_ms]
        return super().admit(keys, arrival_ms)

    def observe(self, feedback):
        self.diary.append(("observe", feedback.delta_ms))


def test_an_own_tracker_is_heard_in_time_and_of_executed_records_only():
    stream = Stream.of([1, 2, 3, 5], [4.0, 1.0, 2.0, 1.0]).every(5.0)
    shedder = Diary()
    result = simulate(RoundRobin(1), stream, shedder=shedder, delay_ms=1.0)
    assert shedder.diary == [
        ("admit", 0.0),
        ("observe", 4.0),
        ("admit", 5.0),
        ("admit", 10.0),
        ("observe", 2.0),
        ("admit", 15.0),
    ]
    assert result.messages == 3


class Sparing(Odd):
    """Odd keys, and what is protected: as `admit` is described."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        mask = super().admit(keys, arrival_ms)
        return mask if protected is None else mask | protected


def test_an_own_shedder_may_look_at_the_protected():
    stream = Stream.of([1, 2, 3, 4], [1.0] * 4).every(1.0)
    spared = [False, True, False, False]
    result = simulate(RoundRobin(1), stream, shedder=Sparing(), protected=spared)
    assert result.kept.tolist() == [True, True, True, False]


def test_an_own_shedder_may_look_at_the_protected_where_there_are_none():
    stream = Stream.of([1, 2, 3, 4], [1.0] * 4).every(1.0)
    result = simulate(RoundRobin(1), stream, shedder=Sparing())
    assert result.kept.tolist() == [True, False, True, False]
