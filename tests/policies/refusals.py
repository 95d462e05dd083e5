"""Input that policies refuse, and the line that they refuse it with."""

import math

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.scaling import Observed, Topology

RAGGED = [[1], [2, 3]]
NAN, INF = math.nan, math.inf
SINK = Topology.linear("sink")
ONES = np.ones(3)


def refusal(action):
    with pytest.raises(PenstockError) as caught:
        action()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def seen(**changes):
    given = {"received": ONES, "processed": ONES, "emitted": ONES, "cost_ms": ONES}
    return Observed(**{**given, "pending": 0.0, "degree": 1, **changes})
