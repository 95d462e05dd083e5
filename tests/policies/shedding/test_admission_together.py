"""Records that are all there at once: cheap ones first, and nobody starves."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.policies.shedding import average, each_record, sliding_average
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.finish_clock import COUNT, WAITED, Offer

TARGETS = [average("2 s"), sliding_average("2 s", 100), each_record("2 s")]


def together(admission, costs, ages, protected=None):
    """Decide about records of these ages at time 0."""
    costs, ages = np.asarray(costs, dtype=float), np.asarray(ages, dtype=float)
    spared = np.zeros(0, dtype=bool) if protected is None else np.asarray(protected)
    admission.begin(0.0, 1.0)
    offered = Offer(costs_ms=costs, arrival_ms=-ages, now_ms=np.zeros(costs.size), protected=spared)
    return admission.admit_together(offered)


@pytest.mark.parametrize("target", TARGETS)
def test_one_old_record_does_not_shut_the_others_out(target):
    ages = np.zeros(100)
    ages[0] = 10_000
    assert together(Admission(target, cheap=True), np.full(100, 1.0), ages)[1:].all()


@pytest.mark.parametrize("target", TARGETS)
def test_a_debt_does_not_starve_fresh_records(target):
    admission = Admission(target, cheap=True)
    admission.memory.sums[[WAITED, COUNT]] = 1e6, 10
    assert together(admission, np.full(50, 1.0), np.zeros(50)).all()


def test_expensive_ones_go_first():
    costs = np.array([100.0, 1.0] * 50)
    out = together(Admission(average("500 ms"), cheap=True), costs, np.zeros(100))
    assert out[1::2].all()
    assert 0 < out[0::2].sum() < 50


def test_nothing_goes_if_all_fit():
    assert together(Admission(average("2 s"), cheap=True), np.full(100, 30.0), np.zeros(100)).all()


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(TARGETS),
    st.lists(st.tuples(st.floats(0.1, 500), st.floats(0, 4_000)), min_size=1, max_size=60),
)
@example(average("2 s"), [(2.0, 1999.0), (1.0, 2000.0)])
def test_cheap_first_keeps_the_target_and_protected_records(target, records):
    costs, ages = np.array(records).T
    protected = costs.astype(int) % 5 == 0
    admission = Admission(target, cheap=True)
    out = together(admission, costs, ages, protected)
    assert out[protected].all()
    free = together(Admission(target, cheap=True), costs, ages)
    if target.records == 0 and free.any():
        clock, waits = 0.0, []
        for cost, age in zip(costs[free], ages[free], strict=True):
            waits.append(clock + age)
            clock += cost
        above_half = [wait for wait in waits if wait > target.limit_ms / 2]
        assert np.mean(waits) <= target.limit_ms + 1e-6 or len(above_half) < len(waits)
