"""Scalers: how many executors an application may have."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.scaling import Preventive, Scaler

SCALERS = [pytest.param(one, id=name) for name, one in Scaler.registered().items()]
NAN = float("nan")


@pytest.mark.parametrize("cls", SCALERS)
@pytest.mark.parametrize(
    "params, message",
    [
        (
            {"min_executors": 3, "max_executors": 2},
            "max_executors must be >= min_executors = 3; got 2",
        ),
        ({"min_executors": 0}, "min_executors must be >= 1; got 0"),
        ({"min_executors": None}, "min_executors must be a whole number; got None"),
        ({"min_executors": True}, "min_executors must be a whole number; got True"),
        ({"max_executors": 0}, "max_executors must be >= 1; got 0"),
        ({"max_executors": -4}, "max_executors must be >= 1; got -4"),
        ({"max_executors": 2.5}, "max_executors must be a whole number; got 2.5"),
        ({"max_executors": "8"}, "max_executors must be a whole number; got '8'"),
        ({"max_executors": NAN}, "max_executors must be a whole number; got nan"),
    ],
)
def test_bad_limits_of_executors(cls, params, message):
    with pytest.raises(PenstockError) as caught:
        cls(**params)
    assert str(caught.value) == message


@pytest.mark.parametrize("cls", SCALERS)
def test_by_default_there_is_one_executor_at_least_and_the_most_is_not_told(cls):
    assert (cls().min_executors, cls().max_executors) == (1, None)


@pytest.mark.parametrize("cls", SCALERS)
@pytest.mark.parametrize("least, most", [(1, 1), (2, 8), (3, 3), (5, None), (np.int64(2), 4)])
def test_limits_of_executors_are_parameters(cls, least, most):
    scaler = cls(min_executors=least, max_executors=most)
    assert (scaler.min_executors, scaler.max_executors) == (least, most)
    assert scaler.clone() == scaler
    assert scaler.clone(max_degree=64).max_executors == most
    assert scaler != cls(min_executors=least, max_executors=20)
    assert Scaler.named(cls.name, min_executors=least, max_executors=most) == scaler


@pytest.mark.parametrize("cls", SCALERS)
def test_limits_of_executors_are_not_those_of_degrees(cls):
    scaler = cls(min_degree=9, max_degree=9, max_executors=2)
    assert (scaler.min_degree, scaler.max_executors) == (9, 2)


def test_the_published_preset_has_limits_too():
    scaler = Preventive.as_published(min_executors=2, max_executors=6)
    assert (scaler.min_executors, scaler.max_executors) == (2, 6)
