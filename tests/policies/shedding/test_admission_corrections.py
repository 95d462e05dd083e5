"""Corrections of the admission's clock, by hand."""

import numpy as np
import pytest
from plain_admission import offer

from penstock.policies.shedding import average
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.finish_clock import CLOCK, COUNT, MEAN, SHIFT, WAITED


def test_idle_time_is_found_by_replaying():
    admission = Admission(average(1_000.0), logged=8)
    # Planned: 0-10, 10-20, and 100-110 after idle time.
    offer(admission, [(10, 0, 0, False), (10, 0, 0, False), (10, 100, 100, False)])
    admission.correct(0, 5.0)
    assert admission.memory.sums[CLOCK] == 110
    admission.correct(1, 95.0)  # done at 115 instead of 20
    assert admission.memory.sums[CLOCK] == 125


def test_an_answer_older_than_the_log_moves_the_clock_alone():
    admission = Admission(average(1_000.0), logged=2)
    offer(admission, [(10, 0, 0, False)] * 4)
    admission.correct(0, 5.0)
    assert admission.memory.sums[CLOCK] == 45
    assert admission.request() == (3, 40.0)


def test_an_error_that_one_answer_has_corrected_is_not_corrected_again():
    admission = Admission(average(1_000.0), logged=8)
    offer(admission, [(10, 0, 0, False)] * 4)
    for number in range(4):  # each was asked before anything was known: all are 5 ms late
        admission.correct(number, 5.0)
        assert admission.memory.sums[CLOCK] == 45


def test_restart_forgets_all_but_the_mean_cost():
    admission = Admission(average(10.0), cheap=True, logged=4)
    offer(admission, [(8, 0, 0, False)] * 5)
    admission.correct(1, 3.0)
    admission.restart()
    fresh = Admission(average(10.0), cheap=True, logged=4)
    kept = [CLOCK, WAITED, COUNT, SHIFT]
    np.testing.assert_array_equal(admission.memory.sums[kept], fresh.memory.sums[kept])
    assert admission.memory.sums[MEAN] == 8
    assert not admission.memory.log.any()
    assert not admission.memory.numbers.any()


# An answer to a request from before anything was decided: its number is -1.


@pytest.mark.parametrize("now", [0.0, 1_000.0])
def test_the_first_answer_sets_the_clock(now):
    admission = Admission(average(10.0), logged=8)
    number, done = admission.request()
    assert (number, done) == (-1, 0.0)
    admission.correct(number, now - done)
    assert admission.memory.sums[CLOCK] == now


def test_the_first_answer_leaves_no_room_that_nobody_has_earned():
    admission = Admission(average(10.0), logged=8)
    number, done = admission.request()
    admission.correct(number, 1_000.0 - done)
    assert admission.memory.sums[WAITED] == 0
    assert offer(admission, [(10, 990, 1_000, False), (10, 990, 1_000, False)]) == [True, False]
