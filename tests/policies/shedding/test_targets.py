"""Targets: what durations may look like, and what is said of those that may not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.shedding import Target, average, each_record, sliding_average

MAKERS = [average, sliding_average, each_record]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "given_, ms",
    [
        ("32 ms", 32.0),
        ("32ms", 32.0),
        ("  2 s ", 2_000.0),
        ("1.5 s", 1_500.0),
        (".5 s", 500.0),
        ("5. ms", 5.0),
        ("1 min", 60_000.0),
        ("0.5 h", 1_800_000.0),
        (7, 7.0),
        (0.25, 0.25),
    ],
)
def test_durations(make, given_, ms):
    assert make(given_).limit_ms == ms


@given(st.integers(1, 10**6), st.sampled_from([("ms", 1), ("s", 1_000), ("min", 60_000)]))
def test_a_whole_number_of_any_unit(number, unit):
    name, ms = unit
    assert average(f"{number} {name}") == average(number * ms)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "wrong",
    ["", "ms", "32", "two seconds", "2 sec", "2 S", "-2 s", "1.2.3 s", ". s", "1e3 ms", "2 s 3"],
)
def test_text_that_is_no_duration_is_named_with_the_units(make, wrong):
    with pytest.raises(PenstockError) as caught:
        make(wrong)
    such_as = "'500 ms', '10 s', '5 min', '2 hours' or '1 day'"
    expected = f"limit must be a duration, such as {such_as}; got {wrong!r}"
    assert str(caught.value) == expected


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "wrong, message",
    [
        (0, "limit must be > 0; got 0"),
        ("0 ms", "limit must be > 0; got 0"),
        (-1.5, "limit must be > 0; got -1.5"),
        (math.nan, "limit must be finite; got nan"),
        (math.inf, "limit must be finite; got inf"),
        (None, "limit must be a number; got None"),
        (True, "limit must be a number; got True"),
        ([1.0], "limit must be a number; got [1.0]"),
    ],
)
def test_numbers_that_are_no_limit(make, wrong, message):
    with pytest.raises(PenstockError) as caught:
        make(wrong)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "wrong, message",
    [
        (0, "records must be >= 1; got 0"),
        (2.5, "records must be a whole number; got 2.5"),
        ("many", "records must be a whole number; got 'many'"),
    ],
)
def test_records_that_cannot_be_averaged(wrong, message):
    with pytest.raises(PenstockError) as caught:
        sliding_average("1 s", records=wrong)
    assert str(caught.value) == message


def test_a_target_made_by_hand_is_checked_as_well():
    with pytest.raises(PenstockError, match="limit_ms must be > 0; got 0"):
        Target(0)
    with pytest.raises(PenstockError, match="records must be >= 0; got -1"):
        Target(1.0, -1)


def test_how_fast_waiting_times_fade():
    assert average(1).fade == 1
    assert each_record(1).fade == 0
    assert sliding_average(1, records=4).fade == 0.75
    assert sliding_average(1).records == 4_000
    assert sliding_average(1, records=1) == each_record(1)


@given(st.integers(1, 1_000))
def test_as_many_records_count_as_are_averaged(records):
    count = 0.0
    for _ in range(20 * records):
        count = sliding_average(1, records).fade * count + 1
    assert count == pytest.approx(records)


@pytest.mark.parametrize(
    "target, text",
    [
        (average("2 s"), "waiting time, on average over the stream, at most 2000 ms"),
        (each_record(6.4), "waiting time of each record at most 6.4 ms"),
        (
            sliding_average("64 ms", records=1_500),
            "waiting time, on average over 1,500 records, at most 64 ms",
        ),
    ],
)
def test_as_text(target, text):
    assert str(target) == text


def test_targets_are_values():
    assert average("2 s") == average(2_000)
    assert len({average(1), average("1 ms"), each_record(1)}) == 2
    with pytest.raises(AttributeError):
        average(1).limit_ms = 2
