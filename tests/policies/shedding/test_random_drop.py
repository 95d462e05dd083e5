"""Base Line: a share of the records, whatever they are."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.shedding import Never, RandomDrop


def drop(shedder, count, protected=None):
    return shedder.admit(np.arange(count), np.zeros(count), protected=protected)


@pytest.mark.parametrize("ratio", [0.01, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_the_share_is_as_told(ratio, seed):
    count = 100_000
    shed = 1 - drop(RandomDrop(ratio, seed=seed), count).mean()
    assert abs(shed - ratio) < 4 * math.sqrt(ratio * (1 - ratio) / count)


@pytest.mark.parametrize("ratio, kept", [(0, 1.0), (0.0, 1.0), (1, 0.0), (1.0, 0.0)])
def test_all_or_nothing(ratio, kept):
    assert drop(RandomDrop(ratio), 5_000).mean() == kept


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 2**32))
def test_deciding_in_parts_is_deciding_at_once(parts, seed):
    at_once, in_parts = RandomDrop(0.4, seed=seed), RandomDrop(0.4, seed=seed)
    found = [drop(in_parts, part) for part in parts]
    np.testing.assert_array_equal(
        np.concatenate([*found, np.zeros(0, dtype=np.bool_)]), drop(at_once, sum(parts))
    )


def test_records_are_drawn_for_one_by_one():
    shed = ~drop(RandomDrop(0.5), 100_000)
    assert np.corrcoef(shed[1:], shed[:-1])[0, 1] == pytest.approx(0, abs=0.02)
    again, other = drop(RandomDrop(0.5), 1_000), drop(RandomDrop(0.5, seed=1), 1_000)
    assert (again == ~shed[:1_000]).all()
    assert 0.4 < (again == other).mean() < 0.6


def test_the_protected_are_kept_and_the_others_are_drawn_for_as_before():
    spared = np.arange(1_000) % 3 == 0
    before, now = drop(RandomDrop(0.6), 1_000), drop(RandomDrop(0.6), 1_000, spared)
    assert now[spared].all()
    np.testing.assert_array_equal(now[~spared], before[~spared])


def test_it_does_not_look_at_the_load_and_learns_nothing():
    shedder = RandomDrop(0.3)
    assert shedder.blind
    assert not shedder.learns
    assert (shedder.state, shedder.planned_ms, shedder.expected_ms([1]).tolist()) == (
        "RUN",
        0.0,
        [0.0],
    )
    shedder.resize(4)
    assert shedder.instances == 4


@pytest.mark.parametrize(
    "params, message",
    [
        ({"ratio": -0.1}, "ratio must be in [0, 1]; got -0.1"),
        ({"ratio": 1.5}, "ratio must be in [0, 1]; got 1.5"),
        ({"ratio": math.nan}, "ratio must be finite; got nan"),
        ({"ratio": "half"}, "ratio must be a number; got 'half'"),
        ({"ratio": True}, "ratio must be a number; got True"),
        ({"ratio": 0.1, "instances": 0}, "instances must be >= 1; got 0"),
        ({"ratio": 0.1, "seed": -1}, "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        RandomDrop(**params)
    assert str(caught.value) == message


def test_never_admits_everything():
    assert drop(Never(), 100).all()
    assert Never(instances=3).admit([], []).shape == (0,)
