"""Messages name the parameter, what it must be, and the value."""

import math

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.validation import (
    above_zero,
    at_least_zero,
    between,
    finite,
    float64s,
    int64_keys,
    known,
    milliseconds,
    non_negatives,
    positive,
    whole,
)


@pytest.mark.parametrize(
    "check, message",
    [
        (lambda: whole("instances", 0, least=1), "instances must be >= 1; got 0"),
        (lambda: whole("instances", -3, least=1), "instances must be >= 1; got -3"),
        (lambda: whole("width", 9, least=1, most=8), "width must be <= 8; got 9"),
        (lambda: whole("k", 1.0, least=1), "k must be a whole number; got 1.0"),
        (lambda: whole("k", True, least=0), "k must be a whole number; got True"),
        (lambda: whole("k", "3", least=0), "k must be a whole number; got '3'"),
        (lambda: whole("k", None, least=0), "k must be a whole number; got None"),
        (lambda: between("epsilon", 0, 0, 1), "epsilon must be in (0, 1); got 0"),
        (lambda: between("epsilon", 1.5, 0, 1), "epsilon must be in (0, 1); got 1.5"),
        (lambda: between("f", 0, 0, 1, closed="high"), "f must be in (0, 1]; got 0"),
        (lambda: between("f", 1, 0, 1, closed="low"), "f must be in [0, 1); got 1"),
        (lambda: between("f", -1, 0, 1, closed="low high"), "f must be in [0, 1]; got -1"),
        (lambda: between("f", math.nan, 0, 1), "f must be finite; got nan"),
        (lambda: finite("x", math.inf), "x must be finite; got inf"),
        (lambda: finite("x", "1"), "x must be a number; got '1'"),
        (lambda: finite("x", False), "x must be a number; got False"),
        (lambda: positive("ratio", 0), "ratio must be > 0; got 0"),
        (lambda: positive("ratio", -0.5), "ratio must be > 0; got -0.5"),
        (lambda: positive("ratio", math.inf), "ratio must be finite; got inf"),
        (lambda: above_zero("half_life", 0), "half_life must be > 0; got 0"),
        (lambda: above_zero("half_life", -math.inf), "half_life must be finite; got -inf"),
        (lambda: at_least_zero("delay_ms", -1), "delay_ms must be >= 0; got -1"),
        (lambda: int64_keys("keys", [[1]]), "keys must be one-dimensional; got shape (1, 1)"),
        (lambda: int64_keys("keys", 3), "keys must be one-dimensional; got shape ()"),
        (
            lambda: int64_keys("keys", ["a"]),
            "keys must be whole numbers; got dtype <U1. Hash other keys to int64 first",
        ),
        (
            lambda: int64_keys("keys", [0.5]),
            "keys must be whole numbers; got dtype float64. Hash other keys to int64 first",
        ),
        (lambda: float64s("now_ms", [1.0], 2), "now_ms must have shape (2,); got (1,)"),
        (lambda: float64s("now_ms", ["a"], 1), "now_ms must be numbers; got ['a']"),
        (
            lambda: non_negatives("costs_ms", [1.0, -0.5], 2),
            "costs_ms must be finite and >= 0; got -0.5 at 1",
        ),
        (
            lambda: non_negatives("costs_ms", [math.nan], 1),
            "costs_ms must be finite and >= 0; got nan at 0",
        ),
        (
            lambda: non_negatives("costs_ms", [math.inf], 1),
            "costs_ms must be finite and >= 0; got inf at 0",
        ),
        (
            lambda: known("steps", "geometrical", ["constant", "geometric"]),
            "unknown steps 'geometrical'; did you mean 'geometric'?",
        ),
        (lambda: known("steps", "x", ["b", "a"]), "unknown steps 'x'; choose one of a, b"),
    ],
)
def test_messages(check, message):
    with pytest.raises(PenstockError) as caught:
        check()
    assert str(caught.value) == message


def test_good_numbers_come_back_as_plain_ones():
    assert type(whole("k", np.int32(3), least=3, most=3)) is int
    assert type(positive("x", np.float32(0.5))) is float
    assert between("f", 1, 0, 1, closed="high") == 1.0
    assert between("f", 0, 0, 1, closed="low") == 0.0
    assert above_zero("half_life", math.inf) == math.inf
    assert at_least_zero("delay_ms", 0) == 0.0
    assert known("steps", "a", ["b", "a"]) == "a"


def test_ready_arrays_are_not_copied():
    keys, costs = np.arange(3), np.arange(3.0)
    assert int64_keys("keys", keys) is keys
    assert non_negatives("costs_ms", costs, 3) is costs


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, ">i8", np.int64])
def test_keys_become_int64(dtype):
    found = int64_keys("keys", np.array([1, 2, 3, 4], dtype=dtype)[::2])
    assert found.dtype == np.int64
    assert found.flags.c_contiguous
    assert found.tolist() == [1, 3]


def test_read_only_arrays_are_left_alone():
    keys, costs = np.arange(3), np.arange(3.0)
    keys.flags.writeable = costs.flags.writeable = False
    found = int64_keys("keys", keys)
    found[0] = 9
    assert keys.tolist() == [0, 1, 2]
    assert non_negatives("costs_ms", costs, 3).tolist() == [0.0, 1.0, 2.0]


def test_empty_lists_are_keys():
    assert int64_keys("keys", []).dtype == np.int64
    assert non_negatives("costs_ms", [], 0).shape == (0,)


@pytest.mark.parametrize(
    "text, expected_ms",
    [
        ("500 ms", 500.0),
        ("1 millisecond", 1.0),
        ("2 milliseconds", 2.0),
        ("10 s", 1e4),
        ("10s", 1e4),
        ("1 second", 1e3),
        ("1.5 seconds", 1500.0),
        (".5 s", 500.0),
        ("5 min", 3e5),
        ("1 minute", 6e4),
        ("3 minutes", 1.8e5),
        ("2 h", 7.2e6),
        ("1 hour", 3.6e6),
        ("2 hours", 7.2e6),
        ("1 d", 8.64e7),
        ("1 day", 8.64e7),
        ("2 days", 1.728e8),
        ("1 min 30 s", 9e4),
        ("1h30min", 5.4e6),
        ("1 day 2 hours 3 minutes 4 seconds 5 ms", 93_784_005.0),
        (" 10 s ", 1e4),
    ],
)
def test_durations_have_long_and_short_units_and_add_up(text, expected_ms):
    assert milliseconds("period", text) == expected_ms


@pytest.mark.parametrize("number", [250, 250.0, np.float64(250), np.int64(250)])
def test_a_duration_without_unit_is_in_milliseconds(number):
    assert milliseconds("period", number) == 250.0


@pytest.mark.parametrize(
    "text",
    ["", " ", "10", "s", "ten s", "10 parsecs", "10 S", "1,5 s", "-1 s", "1 s 2"],
)
def test_text_that_is_no_duration_is_refused(text):
    with pytest.raises(PenstockError) as caught:
        milliseconds("period", text)
    assert str(caught.value) == (
        "period must be a duration, such as '500 ms', '10 s', '5 min', '2 hours' or '1 day'; "
        f"got {text!r}"
    )


@pytest.mark.parametrize(
    "value, message",
    [
        (0, "period must be > 0; got 0"),
        (-5, "period must be > 0; got -5"),
        ("0 s", "period must be > 0; got 0"),
        (math.inf, "period must be finite; got inf"),
        (math.nan, "period must be finite; got nan"),
        (True, "period must be a number; got True"),
        (None, "period must be a number; got None"),
    ],
)
def test_durations_must_be_positive_numbers(value, message):
    with pytest.raises(PenstockError) as caught:
        milliseconds("period", value)
    assert str(caught.value) == message
