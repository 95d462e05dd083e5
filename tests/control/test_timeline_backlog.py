"""Batches in, periods out: what waits, and what the running batch has read."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from looks import BUSY, GAPS, WAITING, constant, line_of, look, rate, seen

from penstock.control.timeline import Running

# What waits.


@pytest.mark.parametrize("running", [WAITING, BUSY, Running(True, 50.0)], ids=str)
def test_waiting_for_the_next_trigger_is_no_congestion(running):
    line = line_of(*constant(10.0, taken_s=4.9))
    assert line.pending(20.0, running) == 0
    assert line.pending(29.9, running) == 0


def test_what_comes_while_a_batch_overruns_its_interval_waits():
    line = line_of(*constant(10.0), look(25.0, 50, taken_s=12.0))
    assert line.pending(37.0, WAITING) == pytest.approx(10 * 7)
    assert seen(line, 40.0).pending == pytest.approx(10 * 7)


@settings(deadline=None)
@given(st.floats(0.0, 100.0), st.floats(1.0, 1_000.0))
def test_a_batch_that_still_runs_counts_from_when_it_should_have_ended(running_s, per_s):
    line = line_of(*constant(per_s))
    # It began at 25 s, and should end at 30 s.
    expected = per_s * max(0.0, running_s - 5.0)
    assert line.pending(25.0 + running_s, BUSY) == pytest.approx(expected, abs=1e-6)
    assert line.pending(25.0 + running_s, WAITING) == 0


def test_what_sources_are_behind_by_waits_too():
    line = line_of(look(0, 0, behind=100), look(5, 50, behind=300, taken_s=8.0))
    assert line.pending(13.0, WAITING) == 300 + 3 * 50


def test_without_a_trigger_interval_only_sources_tell():
    line = line_of(*constant(10.0, taken_s=60.0), look(25, 50, behind=70), interval_s=None)
    assert line.pending(1_000.0, BUSY) == 70


# What the running batch has read.


def test_what_the_running_batch_has_read_has_come_before_it_began():
    # It began at 25 s.
    line, running = line_of(*constant(10.0)), Running(True, 500.0)
    assert seen(line, 25.0, running).received == pytest.approx(np.array([100, 550.0]))
    assert rate(line, running) == pytest.approx(55)
    # From there on it is taken to go on so.
    assert seen(line, 35.0, running).received == pytest.approx(np.array([100, 550, 550.0]))


def test_a_large_step_is_seen_while_its_first_batch_runs():
    line, now_s = line_of(*constant(10.0)), 40.0
    before, after = seen(line, now_s, BUSY), seen(line, now_s, Running(True, 1_000.0))
    assert before.received.tolist() == [100] * 4
    assert after.received[-1] > 10 * before.received[-1]
    # It should have ended at 30 s.
    assert before.pending == pytest.approx(10 * 10)
    assert after.pending == pytest.approx(10 * rate(line, Running(True, 1_000.0)))


@settings(deadline=None, max_examples=60)
@given(GAPS, st.floats(0.1, 5_000.0), st.floats(1.0, 60.0), st.sampled_from([None, 0.2, 5.0]))
def test_a_batch_that_reads_more_tells_the_same_while_it_runs_and_when_it_is_done(
    gaps, rows, period_s, interval_s
):
    began_s = np.cumsum([0.0, *gaps])
    looks = [look(at, 30, taken_s=0.1) for at in began_s]
    next_s = began_s[-1] + max(0.1, interval_s or 0.0)
    running = line_of(*looks, period_s=period_s, interval_s=interval_s)
    ended = line_of(*looks, look(next_s, rows), period_s=period_s, interval_s=interval_s)
    now_s = next_s + 7.0
    told = Running(True, rows)
    assume(rows > rate(running) * (next_s - began_s[-1]))
    found, expected = seen(running, now_s, told).received, seen(ended, now_s).received
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert rate(running, told, now_s) == pytest.approx(rate(ended))


def test_what_is_told_of_the_running_batch_is_not_kept():
    line = line_of(*constant(10.0))
    seen(line, 40.0, Running(True, 1_000.0))
    assert seen(line, 40.0).received.tolist() == [100] * 4
    line.add(look(25.0, 1_000))
    assert seen(line, 25.0).received == pytest.approx(np.array([100, 1_050.0]))


def test_a_running_batch_that_tells_nothing_changes_nothing():
    line = line_of(*constant(10.0))
    assert seen(line, 40.0, Running(True, 0.0)).received.tolist() == [100] * 4
    assert rate(line, BUSY) == 10


def test_a_batch_that_has_begun_early_began_no_later_than_now():
    # It was expected at 25 s; clocks differ.
    line = line_of(*constant(10.0))
    received = seen(line, 22.0, Running(True, 50.0)).received
    assert received.tolist() == pytest.approx([100, 20 + 60 + 50])
    assert seen(line, 20.0, Running(True, 50.0)).received.tolist() == [100, 100]


def test_the_batch_after_a_long_one_begins_when_that_ends():
    line = line_of(*constant(10.0), look(25.0, 50, taken_s=15.0))
    # It began at 40 s, with what came in 15 s.
    running = Running(True, 600.0)
    assert rate(line, running, 41.0) == pytest.approx(40)
    assert seen(line, 40.0, running).received == pytest.approx(np.array([100, 100, 250, 400.0]))


def test_what_it_has_read_of_a_backlog_has_come_before():
    line = line_of(*constant(10.0), look(25.0, 50, behind=400.0))
    # 400 of 1,400 were known; 1,000 came from 25 s to 30 s.
    received = seen(line, 30.0, Running(True, 1_400.0)).received
    assert received == pytest.approx(np.array([100, 100, 1_450.0]))


def test_one_look_and_a_running_batch_tell_a_rate():
    line = line_of(look(0.0, 1_000))
    assert rate(line, Running(True, 50.0), 12.0) == pytest.approx(10)
    assert seen(line, 20.0, Running(True, 50.0)).received.tolist() == pytest.approx([100, 100])


def test_a_batch_that_reads_of_a_backlog_does_not_say_that_nothing_comes():
    line = line_of(*(look(5.0 * i, 50, behind=150.0 * i) for i in range(5)))
    assert rate(line) == 40
    assert rate(line, Running(True, 50.0), 26.0) >= 40


def test_rows_of_which_a_part_is_told_do_not_lower_a_rate():
    line = line_of(*constant(10.0))
    assert rate(line, Running(True, 5.0), 26.0) >= 10


def test_a_batch_that_begins_after_a_pause_is_no_flood():
    line = line_of(look(0.0, 5, taken_s=0.1), interval_s=None)
    running = Running(True, 100.0, began_s=19.0)
    assert seen(line, 20.0, running).received.sum() == pytest.approx(100 * 20 / 19)
