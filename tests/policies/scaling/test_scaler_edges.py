"""Scalers: edges of windows, and what counts as a backlog or as critical."""

import numpy as np
import pytest

from penstock.policies.scaling import (
    History,
    LastValue,
    Observed,
    Preventive,
    PreventiveAsPublished,
    Threshold,
    Topology,
)

SINK = Topology.linear("sink")


def seen(received, *, degree, cost_ms=100.0, pending=0.0):
    """An operator that has processed all that it received."""
    counts = np.array(received, dtype=np.float64)
    return Observed(
        received=counts,
        processed=counts,
        emitted=counts,
        cost_ms=np.full(counts.size, cost_ms),
        pending=pending,
        degree=degree,
    )


def test_a_backlog_does_not_count_what_is_in_service():
    found = [seen([1], degree=3, pending=pending).backlog for pending in (0, 2, 3, 5)]
    assert found == [0, 0, 0, 2]


@pytest.mark.parametrize("hold", [2, 3, 4])
def test_preventive_keeps_instances_for_as_many_periods_as_it_says(hold):
    scaler = Preventive(LastValue(), hold=hold, slack=0, utilization=1, quantile=0.5)
    # A peak that 8 instances of 100 ms can process in 10 s, then several periods with less.
    for ago in range(2, 7):
        received = np.full(12, 100.0)
        received[-ago] = 800.0
        planned = scaler.plan(SINK, History(10.0, {"sink": seen(received, degree=8)}))
        assert planned.degrees["sink"] == (8 if ago <= hold else 1)


def test_threshold_looks_at_the_cost_of_the_last_period_only():
    costs = Observed(
        received=np.array([400.0, 100.0]),
        processed=np.array([400.0, 100.0]),
        emitted=np.array([400.0, 100.0]),
        cost_ms=np.array([1_000.0, 100.0]),
        pending=0.0,
        degree=4,
    )
    # 100 records of 100 ms keep four instances busy for a quarter of 10 s.
    assert Threshold().plan(SINK, History(10.0, {"sink": costs})).degrees == {"sink": 3}


def test_as_published_an_operator_is_critical_by_its_own_input_only():
    chain = Topology.linear("first", "second", "third")
    operators = {
        # 7,200 records a window are forecast, and 6,000 can be processed.
        "first": seen([1_200] * 6, degree=1, cost_ms=10.0),
        # 600 of its own, 6,000 of a critical parent, and 667 can be processed.
        "second": seen([100] * 6, degree=1, cost_ms=90.0),
        # 600 of its own, and 632 can be processed.
        "third": seen([100] * 6, degree=1, cost_ms=95.0),
    }
    plan = PreventiveAsPublished(grace=0).plan(chain, History(10.0, operators))
    assert plan.degrees == {"first": 2, "second": 8, "third": 1}
