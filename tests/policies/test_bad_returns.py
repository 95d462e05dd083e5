"""A placer or scaler of a user that returns something else gets one line about it."""

import numpy as np
import pytest
from refusals import RAGGED, SINK, refusal, seen

from penstock.policies import scaling
from penstock.policies.placement import Cluster, Placer
from penstock.policies.scaling import History, Scaler

CLUSTER = Cluster(load=[30, 30, 20, 5], placement=[0, 0, 1, 2], capacity=[1, 1, 1])


class Placed(Placer):
    """Returns what it was given."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def place(self, cluster):
        return self.found


PLACED = "Placed.place must return the workers of all key groups and a note, such as (workers, '')"


@pytest.mark.parametrize(
    "found, message",
    [
        (None, f"{PLACED}; got None"),
        ([0, 0, 1, 2], f"{PLACED}; got [0, 0, 1, 2]"),
        (([0, 0, 1, 2], None), f"{PLACED}; got ([0, 0, 1, 2], None)"),
        (
            ([0.5, 0, 1, 2], ""),
            "the workers of Placed.place must be whole numbers; got dtype float64",
        ),
        (
            (np.full(4, np.nan), ""),
            "the workers of Placed.place must be whole numbers; got dtype float64",
        ),
        (
            (RAGGED, ""),
            "the workers of Placed.place must be one-dimensional; got rows of different lengths",
        ),
        (([0, 0, 1], ""), "Placed must place each of 4 key groups; got shape (3,)"),
    ],
)
def test_a_placer_that_returns_something_else(found, message):
    assert refusal(lambda: Placed(found).plan(CLUSTER)) == message


class Wanted(Scaler):
    """Returns what it was given."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def wanted(self, topology, history):
        return self.found


WANTED = "Wanted.wanted must return a degree and a reason for 'sink', such as (2, 'busy')"


@pytest.mark.parametrize(
    "found, message",
    [
        (None, "Wanted.wanted must return a dict, such as {'sink': (2, 'busy')}; got None"),
        ({"sink": 3}, f"{WANTED}; got 3"),
        ({"sink": (3,)}, f"{WANTED}; got (3,)"),
        ({"sink": (3, None)}, f"{WANTED}; got (3, None)"),
        (
            {"sink": ("3", "busy")},
            "the degree of Wanted.wanted for 'sink' must be a whole number; got '3'",
        ),
        (
            {"sink": (2.5, "busy")},
            "the degree of Wanted.wanted for 'sink' must be a whole number; got 2.5",
        ),
        (
            {"skin": (2, "busy")},
            "unknown operator of Wanted.wanted 'skin'; did you mean 'sink'?",
        ),
    ],
)
def test_a_scaler_that_returns_something_else(found, message):
    history = History(10.0, {"sink": seen()})
    assert refusal(lambda: Wanted(found).plan(SINK, history)) == message


def test_degrees_beyond_the_limits_are_still_cut():
    history = History(10.0, {"sink": seen()})
    for degree, cut in ((-5, 1), (np.int64(10**6), 8)):
        assert Wanted({"sink": (degree, "so")}).plan(SINK, history).degrees == {"sink": cut}
    assert scaling.Threshold().plan(SINK, history).degrees == {"sink": 1}
