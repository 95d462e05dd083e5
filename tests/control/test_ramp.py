"""The ramp of `benchmarks/scale.py` in virtual time, beside an oracle that knows the load."""

import math

import numpy as np
import pytest
from micro_batches import Cluster, Query, ramp, summary

from penstock.control import Limits, Running, ScalingLoop, Timeline
from penstock.control.saved_scaling import SavedScaling, read_scaling, scaling_bytes
from penstock.policies.scaling import Preventive

FALLEN_S, LENGTH_S = 210.0, 330.0
# Two triggers' worth of records at the top of the ramp.
TWO_TRIGGERS = 2 * 2.0 * 48
WAITING = Running(active=False)


def loop_of(query, scaler, executors=1, timeline=None):
    line = timeline or Timeline(query.period_s, query.interval_s)
    limits = Limits(1, query.most, 1)
    return ScalingLoop(
        "ramp", scaler, limits, timeline=line, executors=executors, lead_s=query.lead_s
    )


def followed(query, scaler, *, seed=0):
    trace = Cluster(query, ramp, seed=seed).run(loop_of(query, scaler), LENGTH_S)
    return summary(query, trace, ramp)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "costs",
    [
        pytest.param({}, id="usual"),
        pytest.param({"lead_s": 10.0}, id="executors come late"),
        pytest.param({"fixed_s": 0.1, "task_s": 0.05}, id="low fixed costs"),
    ],
)
def test_executors_follow_the_ramp_nearly_as_the_oracle_does(costs, seed):
    found = followed(
        Query(period_s=3.0, cold_s=1.0, **costs), Preventive(hold=2, utilization=0.85), seed=seed
    )
    assert found.backlog <= TWO_TRIGGERS
    assert found.above <= 1
    assert found.ratio <= 1.15
    assert found.last_s <= FALLEN_S + 60


@pytest.mark.parametrize("period_s", [3.0, 5.0])
@pytest.mark.parametrize("cold_s", [2.0, 4.0])
def test_a_new_executor_that_starts_slowly_delays_one_batch(cold_s, period_s):
    found = followed(Query(period_s=period_s, cold_s=cold_s), Preventive())
    # One batch at the highest rate is late by the start of a new executor.
    assert found.backlog <= TWO_TRIGGERS + 48 * cold_s
    assert found.ratio <= 1.15
    assert found.last_s <= FALLEN_S + 60


def test_fixed_costs_are_no_costs_of_records():
    query = Query(period_s=5.0, cold_s=1.0)
    loop = loop_of(query, Preventive())
    Cluster(query, ramp).run(loop, 60.0)
    assert loop.timeline.fixed == pytest.approx(0.25, rel=0.1)
    seen = loop.timeline.seen(60.0, WAITING, degree=1)
    assert seen.mean_cost_ms == pytest.approx(1000 * query.cost_s, rel=0.1)


def killed(*, remembers, down_s=20.0):
    """Run to the top of the ramp, kill the driver, and let another one go on.

    Returns the time after the restart at which two triggers' worth of records wait at most.
    """
    query, killed_s = Query(period_s=5.0), 165.0
    cluster = Cluster(query, ramp)
    loop = loop_of(query, Preventive())
    cluster.run(loop, killed_s)
    saved = scaling_bytes(
        loop.timeline, cluster.rest, SavedScaling(loop.executors, np.array([query.lead_s]))
    )
    restart_s = killed_s + down_s
    # The batch that ran begins again, with the records that it had read.
    cluster.arrived += sum(ramp(killed_s + second) for second in range(int(down_s)))
    cluster.read, cluster.ends_s, cluster.due_s = cluster.done, -1.0, restart_s
    cluster.joined, cluster.coming, cluster.aim = [False], [], query.most
    cluster.rest = type(cluster.rest)()
    line, executors = Timeline(query.period_s, query.interval_s), 1
    if remembers:
        known = read_scaling(saved, line, cluster.rest)
        executors = known.executors
        cluster.coming = [restart_s + query.lead_s] * (executors - 1)
    again = loop_of(query, Preventive(), executors, timeline=line)
    before = len(cluster.trace.at_s)
    cluster.run(again, LENGTH_S - restart_s, start_s=restart_s)
    at_s = np.array(cluster.trace.at_s[before:])
    backlog = np.array(cluster.trace.backlog[before:])
    return float(at_s[backlog > TWO_TRIGGERS].max(initial=restart_s) - restart_s)


def test_after_a_restart_the_backlog_is_worked_off_within_a_minute():
    assert killed(remembers=True) <= 60
    assert killed(remembers=True) < killed(remembers=False)


def test_rates_of_before_a_restart_are_those_of_the_forecast():
    query = Query(period_s=5.0)
    cluster, loop = Cluster(query, ramp), loop_of(query, Preventive())
    cluster.run(loop, 100.0)
    data = scaling_bytes(loop.timeline, cluster.rest, SavedScaling(2, np.array([4.0, 5.0])))
    line, rest = Timeline(query.period_s, query.interval_s), type(cluster.rest)()
    known = read_scaling(data, line, rest)
    assert (known.executors, known.leads_s.tolist()) == (2, [4.0, 5.0])
    assert line.fixed == loop.timeline.fixed > 0
    assert rest.per_record_ms == pytest.approx(cluster.rest.per_record_ms, rel=0.05)
    before, after = (one.seen(100.0, WAITING, degree=2) for one in (loop.timeline, line))
    assert after.received.tolist() == pytest.approx(before.received.tolist())
    assert after.mean_cost_ms == pytest.approx(before.mean_cost_ms)
    assert math.isfinite(after.mean_cost_ms)
