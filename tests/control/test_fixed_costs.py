"""Fixed costs of batches and costs of records are told apart."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control import Running, Timeline
from penstock.control.fixed_costs import FixedTime, RecordTime
from penstock.control.saved_scaling import SavedScaling, read_scaling, scaling_bytes
from penstock.control.timeline import Look, Work
from penstock.errors import PenstockError
from penstock.policies.scaling import Observed

SIZES = st.lists(st.integers(1, 1_000), min_size=8, max_size=60)


@given(SIZES, st.floats(0.0, 5.0), st.floats(0.001, 0.1), st.integers(1, 8))
def test_the_fixed_time_is_what_records_do_not_explain(sizes, fixed_s, cost_s, slots):
    fixed = FixedTime()
    for records in sizes:
        work_s = records * cost_s
        fixed.add(fixed_s + work_s / slots, work_s=work_s, slots=slots)
    assert fixed.seconds == pytest.approx(fixed_s, abs=1e-9)


def test_a_slow_batch_changes_no_fixed_time():
    fixed = FixedTime()
    for taken_s in (0.5, 0.5, 9.0, 0.5, 0.5):
        fixed.add(taken_s, work_s=0.0, slots=1)
    assert fixed.seconds == 0.5


@given(SIZES, st.floats(0.0, 5_000.0), st.floats(0.01, 50.0))
def test_the_run_time_of_records_is_the_slope(sizes, fixed_ms, cost_ms):
    rest = RecordTime()
    for records in [*sizes, 10, 1_000, 10, 1_000, 10, 1_000, 10, 1_000]:
        rest.add(records, fixed_ms + cost_ms * records, tasks=0)
    assert rest.per_record_ms == pytest.approx(cost_ms, rel=1e-6)


def test_one_slow_batch_in_ten_changes_no_slope():
    rest = RecordTime()
    for i, records in enumerate(range(100, 1_000, 30)):
        rest.add(records, 500 + 2.0 * records + (60_000 if i % 10 == 3 else 0), tasks=0)
    assert rest.per_record_ms == pytest.approx(2.0, rel=0.2)


def test_batches_of_one_size_cost_what_they_take_until_another_size_comes():
    rest = RecordTime()
    assert math.isnan(rest.per_record_ms)
    for _ in range(20):
        rest.add(100, 700.0, tasks=0)
    assert rest.per_record_ms == 7.0
    rest.add(300, 1_100.0, tasks=0)
    assert rest.per_record_ms == pytest.approx(2.0)


def test_small_tasks_are_fixed_costs_until_another_size_comes():
    rest = RecordTime()
    for _ in range(20):
        rest.add(100, 700.0, tasks=10)
    assert rest.per_record_ms == 2.0
    rest.add(100, 300.0, tasks=10)
    assert rest.per_record_ms < 2.0
    rest.add(300, 1_700.0, tasks=10)
    assert rest.per_record_ms == pytest.approx(5.0)


def test_run_time_counts_beside_reports_if_it_is_the_larger_part():
    rest = RecordTime()
    assert math.isnan(rest.beside(10, 100.0))
    rest.add(100, 700.0, tasks=0)
    assert rest.beside(10, 0.0) == 70.0
    assert rest.beside(10, 69.0) == 70.0
    assert rest.beside(10, 71.0) == 0.0


def test_a_slope_outlives_batches_of_one_size():
    rest = RecordTime()
    for records in range(100, 300, 10):
        rest.add(records, 500.0 + 2.0 * records, tasks=0)
    for _ in range(200):
        rest.add(100, 700.0, tasks=0)
    assert rest.per_record_ms == pytest.approx(2.0)
    # Cheaper than the slope: it is the upper bound.
    for _ in range(60):
        rest.add(100, 100.0, tasks=0)
    assert rest.per_record_ms == pytest.approx(1.0)


def filled(interval_s=2.0, *, usual=True, work=True, slots=2):
    """A timeline of batches with 40 records, 50 ms each, and 0.6 s of fixed costs."""
    line = Timeline(10.0, interval_s)
    for i in range(1, 12):
        done = Work(40 * i, 40 * i, 2_000 * i) if work and i % 2 else None
        line.add(Look(2.0 * i, 0.6 + 2.0 / slots, 40, 0, done, slots=slots, usual=usual))
    return line


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_timeline_knows_the_share_of_fixed_costs(slots):
    line = filled(slots=slots)
    assert line.fixed == pytest.approx(0.3)
    assert line.seen(24.0, Running(active=False), 1).fixed == line.fixed


@pytest.mark.parametrize("how", [{"usual": False}, {"work": False}])
def test_without_usual_batches_nothing_is_fixed(how):
    assert filled(**how).fixed == 0.0


def test_batches_without_an_interval_become_longer_instead():
    assert filled(None).fixed == 0.0


@pytest.mark.parametrize(
    "fixed, expected", [(0.0, 0.85), (0.05, 0.85), (0.3, 0.665), (0.8, 0.425), (3.0, 0.425)]
)
def test_fixed_costs_leave_less_time_for_records(fixed, expected):
    none = np.zeros(1)
    seen = Observed(none, none, none, none, pending=0.0, degree=1, fixed=fixed)
    assert seen.usable(0.85) == pytest.approx(expected)


def test_bytes_of_something_else_are_refused():
    line, rest = filled(), RecordTime()
    data = scaling_bytes(line, rest, SavedScaling(3, np.array([2.0])))
    with pytest.raises(PenstockError, match="snapshot"):
        read_scaling(data[:-3], Timeline(10.0, 2.0), RecordTime())


def test_work_goes_on_where_it_was_before_a_restart():
    line, rest = filled(), RecordTime()
    again = Timeline(10.0, 2.0)
    read_scaling(scaling_bytes(line, rest, SavedScaling(3, np.zeros(0))), again, RecordTime())
    # The counters of the new run begin at zero; its first batch was read before the restart.
    again.add(Look(60.0, 1.6, 40, 0, Work(40, 40, 2_000), slots=2, read_s=24.0))
    again.add(Look(62.0, 21.0, 760, 0, Work(800, 800, 40_000), slots=2))
    seen = again.seen(82.0, Running(active=False), 2)
    assert seen.mean_cost_ms == pytest.approx(50.0)
    assert seen.received[-4:] == pytest.approx([200] * 4, rel=0.05)
