"""Observations of operators, and the plans of scalers for them."""

import numpy as np

from penstock.policies.scaling import (
    Fixed,
    History,
    Observed,
    Preventive,
    PreventiveAsPublished,
    RateBased,
    Threshold,
    Topology,
)

NAN = float("nan")
ONE = Topology.linear("sink")
CHAIN = Topology.linear("parse", "sink")
ALL = [Fixed(), Threshold(), RateBased(), Preventive(), PreventiveAsPublished()]


def observed(received, degree=4, *, processed=None, selectivity=1.0, cost_ms=100.0, **more):
    """An operator that has processed all that it received, unless `processed` is given."""
    received = np.array(received, dtype=np.float64)
    done = received if processed is None else np.array(processed, dtype=np.float64)
    cost = np.broadcast_to(np.array(cost_ms, dtype=np.float64), received.shape)
    given = {"pending": 0.0, **more}
    return Observed(
        received=received,
        processed=done,
        emitted=selectivity * done,
        cost_ms=cost,
        degree=degree,
        **given,
    )


def plan(scaler, topology=ONE, **operators):
    """A plan from periods of 10 s."""
    return scaler.plan(topology, History(10.0, operators))


def degree(scaler, received, now=4, **more):
    """What a single operator gets."""
    return plan(scaler, sink=observed(received, now, **more)).degrees["sink"]


def line(start, slope, periods=6):
    return start + slope * np.arange(periods)


def closed_loop(scaler, received, now):
    """Degrees over time, if plans take effect at once and everything is done."""
    found = [now]
    for periods in range(1, len(received) + 1):
        found.append(degree(scaler, received[:periods], found[-1]))
    return np.array(found)
