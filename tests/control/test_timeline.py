"""Batches in, periods out: what came, what was done, and what is remembered."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looks import BUSY, GAPS, WAITING, constant, done, line_of, look, rate, seen

from penstock.control.timeline import KEPT, Running, Timeline

# What came.


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0.2, 30.0), st.integers(0, 10_000), st.floats(0.0, 1.0)),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 10_000),
    st.integers(1, 10),
)
def test_periods_have_all_that_came_whatever_batches_read_of_it(steps, behind, periods):
    began_s, looks = 1_000.0, [look(1_000.0, 7, behind)]
    for gap_s, came, share in steps:
        began_s += gap_s
        available = behind + came
        rows = share * available
        behind = available - rows
        looks.append(look(began_s, rows, behind))
    line = line_of(*looks, period_s=(began_s - 1_000.0) / periods)
    received = seen(line, began_s).received
    assert received.size == periods
    assert (received >= 0).all()
    assert received.sum() == pytest.approx(sum(came for _, came, _ in steps), rel=1e-6, abs=1e-3)


@settings(deadline=None, max_examples=60)
@given(GAPS, st.floats(0.0, 1_000.0), st.floats(1.0, 60.0), st.floats(0.0, 60.0))
def test_a_constant_rate_is_constant_whatever_the_length_of_batches(gaps, per_s, period_s, later_s):
    began_s = np.cumsum([0.0, *gaps])
    rows = per_s * np.array([1.0, *gaps])
    line = line_of(*map(look, began_s, rows), period_s=period_s)
    received = seen(line, began_s[-1] + later_s).received
    assert received == pytest.approx(np.full(received.size, per_s * period_s), rel=1e-6, abs=1e-6)
    assert rate(line) == pytest.approx(per_s, rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(GAPS, st.floats(0.0, 1_000.0))
def test_seconds_since_1970_are_as_good_as_any(gaps, per_s):
    began_s = 1.75e9 + np.cumsum([0.0, *gaps])
    line = line_of(*map(look, began_s, per_s * np.array([1.0, *gaps])))
    received = seen(line, began_s[-1]).received
    assert received.size == pytest.approx(sum(gaps) / 10, abs=1 + 1e-6)
    np.testing.assert_allclose(received, 10 * per_s, rtol=1e-4, atol=1e-9)


def test_what_a_source_falls_behind_by_has_come():
    line = line_of(*(look(5.0 * i, 50, behind=150.0 * i) for i in range(5)))
    assert seen(line, 20.0).received.tolist() == [400, 400]
    assert rate(line) == 40


def test_what_is_read_of_a_backlog_has_come_before():
    line = line_of(*(look(5.0 * i, 100, behind=400.0 - 100 * i) for i in range(5)))
    assert seen(line, 20.0).received.tolist() == [0, 0]
    assert rate(line) == 0


def test_a_source_that_tells_of_less_than_was_read_takes_nothing_back():
    line = line_of(look(0, 0, behind=500), look(5, 10), look(10, 10))
    assert seen(line, 10.0).received.tolist() == [10]


def test_what_came_before_the_first_look_is_not_known():
    line = line_of(look(0, 1_000_000, behind=2_000), look(10, 50, behind=2_000))
    assert seen(line, 10.0).received.tolist() == [50]


def test_arrivals_go_on_at_the_rate_of_the_last_period():
    quick = [look(20.0 + 5 * i, 200) for i in range(1, 3)]
    line = line_of(*constant(10.0), *quick)
    received = seen(line, 50.0).received
    assert received.tolist() == [100, 100, 400, 400, 400]


def test_one_long_batch_is_enough_to_know_a_rate():
    line = line_of(look(0, 5), look(60, 600))
    assert rate(line) == 10
    assert seen(line, 80.0).received.tolist() == [100] * 8


def test_idle_looks_bring_the_rate_down():
    idle = [look(20.0 + 5 * i, 0) for i in range(1, 5)]
    line = line_of(*constant(10.0), *idle)
    assert seen(line, 40.0).received.tolist() == [100, 100, 0, 0]
    assert rate(line) == 0
    assert line.pending(1_000.0, BUSY) == 0


def test_half_of_a_period_of_nothing_halves_the_rate():
    line = line_of(*constant(10.0), look(25.0, 0))
    assert rate(line) == 5


def test_looks_that_are_not_newer_are_ignored():
    line = line_of(*constant(10.0))
    before = seen(line, 20.0)
    for old in (look(20.0, 999, 999, state_bytes=9.0), look(7.0, 999, 999), look(-3.0, 999, 999)):
        line.add(old)
    after = seen(line, 20.0)
    assert after.received.tolist() == before.received.tolist()
    assert after.processed.tolist() == before.processed.tolist()
    assert line.pending(20.0, WAITING) == line.last.state_bytes == 0
    line.add(look(25.0, 50))
    assert rate(line) == 10


# What was done.


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0.2, 30.0), st.floats(0.0, 1.0), st.integers(0, 10_000)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 10),
)
def test_periods_have_all_that_was_done(batches, periods):
    began_s, total, looks = 0.0, 500.0, [look(0.0, 5, taken_s=0.05, work=done(500.0))]
    for gap_s, share, records in batches:
        began_s += gap_s
        total += records
        # The next one begins at least 0.2 s later.
        looks.append(look(began_s, records, taken_s=0.2 * share, work=done(total)))
    ended_s = looks[-1].began_s + looks[-1].taken_s
    one = seen(line_of(*looks, period_s=ended_s / periods), ended_s)
    assert one.processed.sum() == pytest.approx(total - 500, abs=1e-3)
    assert one.emitted.sum() == pytest.approx(2 * (total - 500), abs=1e-3)
    assert one.selectivity == pytest.approx(2 if total > 500 else 1)
    known = one.cost_ms[~np.isnan(one.cost_ms)]
    # Where nearly nothing was done, differences of sums round.
    np.testing.assert_allclose(known[one.processed[~np.isnan(one.cost_ms)] > 0.1], 20, rtol=1e-3)


def test_costs_are_not_known_of_periods_in_which_nothing_was_done():
    worked = [look(10.0 * i, 10, taken_s=0, work=done(10.0 * i)) for i in range(3)]
    idle = [look(20.0 + 10 * i, 0, taken_s=0, work=done(20.0)) for i in range(1, 3)]
    one = seen(line_of(*worked, *idle), 40.0)
    assert one.processed.tolist() == [10, 10, 0, 0]
    assert one.cost_ms[:2].tolist() == [20, 20]
    assert np.isnan(one.cost_ms[2:]).all()
    assert one.recent_cost_ms(2) == 20


def test_nothing_done_at_all_has_no_cost():
    idle = [look(5.0 * i, 50, work=done(0.0)) for i in range(5)]
    one = seen(line_of(*idle), 20.0)
    assert one.received.tolist() == [100, 100]
    assert one.processed.tolist() == [0, 0]
    assert np.isnan(one.cost_ms).all()
    assert math.isnan(one.mean_cost_ms)


def test_looks_that_know_nothing_of_the_work_are_bridged():
    known = [look(0, 0, taken_s=0, work=done(0.0)), look(20, 10, taken_s=0, work=done(200.0))]
    one = seen(line_of(known[0], look(5, 90), look(10, 100), known[1]), 20.0)
    assert one.received.tolist() == [190, 10]
    assert one.processed.tolist() == [100, 100]


def test_work_that_is_never_known_is_none():
    one = seen(line_of(*(look(5.0 * i, 50) for i in range(5))), 20.0)
    assert one.received.tolist() == [100, 100]
    assert one.processed.tolist() == one.emitted.tolist() == [0, 0]
    assert math.isnan(one.mean_cost_ms)


def test_the_degree_and_how_long_it_is_unchanged_are_handed_on():
    one = line_of(*constant(10.0)).seen(20.0, BUSY, degree=7, unchanged=3)
    assert (one.degree, one.unchanged) == (7, 3)


def test_what_single_operators_did_is_kept_for_people():
    operators = {"parse": done(10.0), "sink": done(5.0)}
    line = line_of(look(0, 10, work=done(10.0)), look(5, 10, work=done(20.0), operators=operators))
    assert line.last.operators == operators
    assert seen(line, 10.0).processed.sum() == pytest.approx(10)


# What is remembered.


@pytest.mark.parametrize("running", [WAITING, BUSY, Running(True, 50.0)], ids=str)
def test_before_the_first_look_nothing_is_known(running):
    line = Timeline(period_s=10.0, interval_s=5.0)
    one = seen(line, 1e9, running)
    assert one.received.size == one.processed.size == one.emitted.size == one.cost_ms.size == 0
    assert line.pending(1e9, running) == line.rate_per_s(1e9, running) == one.pending == 0
    assert line.last is None


def test_one_look_tells_no_rate():
    line = line_of(look(0, 1_000))
    assert rate(line) == 0
    assert seen(line, 25.0).received.tolist() == [0, 0]


@pytest.mark.parametrize(
    "now_s, periods", [(-50.0, 0), (9.9, 0), (10.0, 1), (39.9, 3), (1e6, KEPT)]
)
def test_periods_are_whole_and_end_now(now_s, periods):
    line = line_of(*constant(10.0))
    one = seen(line, now_s)
    assert one.received.size == one.processed.size == one.cost_ms.size == periods


def test_the_last_look_is_the_newest():
    line = line_of(look(0, 1, state_bytes=5e6), look(5, 1, state_bytes=2e6), look(3, 1))
    assert (line.last.began_s, line.last.state_bytes) == (5, 2e6)


def test_memory_does_not_grow_with_looks():
    line = line_of(period_s=10.0)
    for i in range(100_000):
        line.add(look(1.0 * i, 30, taken_s=0.5, work=done(30.0 * i)))
    assert len(line._looks) == len(line._arrived) <= (KEPT + 2) * 10 + 2
    one = seen(line, 99_999.0)
    assert one.received == pytest.approx(np.full(KEPT, 300.0))
    assert one.cost_ms == pytest.approx(np.full(KEPT, 20.0))


def test_memory_does_not_grow_with_short_looks_in_long_periods():
    line = line_of(period_s=3_600.0)
    for i in range(25_000):
        line.add(look(0.1 * i, 3, taken_s=0.05, work=done(3.0 * i)))
    assert len(line._looks) == len(line._arrived) == len(line._began_s) == 10_000
    # What is left still fits together, over the time that it covers.
    assert rate(line) == pytest.approx(30)
    assert seen(line, 2_499.9).received.size == 0
    received = seen(line, 2_499.9 + 3_600).received
    assert received == pytest.approx(np.array([108_000.0]))


def test_looks_that_are_rarer_than_periods_are_kept():
    line = line_of(*(look(600.0 * i, 6_000, work=done(6_000.0 * i)) for i in range(50)))
    assert len(line._looks) <= 5
    assert seen(line, 600.0 * 49).received == pytest.approx(np.full(KEPT, 100.0))
