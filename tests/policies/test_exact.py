"""Exact: it knows what it was told, and refuses the rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.costs import Exact

INT64 = st.integers(-(2**63), 2**63 - 1)
TOLD = st.lists(st.tuples(st.integers(-5, 5) | INT64, st.floats(0, 1e9)), min_size=1, max_size=20)


def split(told):
    return np.array([key for key, _ in told], dtype=np.int64), [cost for _, cost in told]


@settings(deadline=None, max_examples=100)
@given(TOLD, st.lists(TOLD, max_size=3))
def test_is_a_dictionary(first, later):
    twin = dict(first)
    model = Exact(*split(twin.items()))
    for told in later:
        keys, costs_ms = split(told)
        model.update(keys, costs_ms)
        twin.update(told)
    known = list(twin)
    assert model.estimate(np.array(known, dtype=np.int64)).tolist() == [twin[k] for k in known]


def test_unknown_keys_are_refused():
    model = Exact([1, 3], [10.0, 30.0])
    assert model.estimate([]).tolist() == []
    for unknown in (0, 2, 4):
        with pytest.raises(PenstockError) as caught:
            model.estimate([1, unknown, 3])
        assert str(caught.value) == f"keys must be known to Exact; got {unknown}"


def test_merge_takes_over_and_clear_goes_back():
    model = Exact([1, 2], [10.0, 20.0])
    model.merge(Exact([2, 3], [21.0, 31.0]))
    assert model.estimate([1, 2, 3]).tolist() == [10.0, 21.0, 31.0]
    model.clear()
    assert model.estimate([1, 2]).tolist() == [10.0, 20.0]
    with pytest.raises(PenstockError):
        model.estimate([3])


def test_does_not_fade():
    model = Exact([1], [10.0])
    model.decay(0.001)
    assert model.estimate([1]).tolist() == [10.0]
    with pytest.raises(PenstockError, match=r"factor must be in \(0, 1\]; got 0"):
        model.decay(0)


def test_snapshot_of_any_number_of_keys():
    model, other = Exact([1], [10.0]), Exact([1], [10.0])
    model.update([2, 3], [20.0, 30.0])
    other.restore(model.snapshot())
    assert other.estimate([1, 2, 3]).tolist() == [10.0, 20.0, 30.0]


def test_inputs_are_kept_verbatim():
    model = Exact(keys=[5, 3], costs_ms=[50.0, 30.0])
    assert model.params() == {"keys": [5, 3], "costs_ms": [50.0, 30.0]}
    assert model == Exact([5, 3], [50.0, 30.0])
    assert model != Exact([3, 5], [30.0, 50.0])


@pytest.mark.parametrize(
    "keys, costs, message",
    [
        ([], [], "keys must not be empty; got []"),
        ([1, 2], [1.0], "costs_ms must have shape (2,); got (1,)"),
        ([1], [-1.0], "costs_ms must be finite and >= 0; got -1.0 at 0"),
        ([1, 2], [1.0, np.inf], "costs_ms must be finite and >= 0; got inf at 1"),
    ],
)
def test_bad_parameters(keys, costs, message):
    with pytest.raises(PenstockError) as caught:
        Exact(keys, costs)
    assert str(caught.value) == message
