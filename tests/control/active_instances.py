"""Operators whose active instances change: their policies, reports, controllers and routers."""

import numpy as np

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack_costs
from penstock.policies.grouping import Consistent, Proactive, ProactiveAsPublished, RoundRobin
from penstock.policies.shedding import LoadAware, MeanCost, average

TARGET = average("2 s")
LEARNING = [
    OperatorPolicies(Proactive(4, capacity=16)),
    OperatorPolicies(ProactiveAsPublished(4)),
    OperatorPolicies(Consistent(4)),
    OperatorPolicies(RoundRobin(4), LoadAware(TARGET, instances=4, capacity=16)),
    OperatorPolicies(Proactive(4, capacity=16), LoadAware(TARGET, instances=4, capacity=16)),
    OperatorPolicies(RoundRobin(4), MeanCost(TARGET, instances=4)),
]


def ids(policies):
    return "+".join(one.name for one in policies.all)


def routed(records, shed=0, batch="1", router=0, **more):
    return RouterReport(TaskId("op", "query", batch, router), records, 1.0, 0.0, shed=shed, **more)


def executed(instance, records=2, batch="1", busy_ms=5.0, executor="0", costs=b""):
    place = TaskId("op", "query", batch, instance)
    return ExecutionReport(place, records, records, busy_ms, executor, costs)


def measured(policies, instance, batch="1", costs=((1, 10.0), (2, 2.0))):
    keys, costs_ms = zip(*costs, strict=True)
    total_ms = float(sum(costs_ms))
    tracker = policies.measuring.tracker(instance)
    if tracker is None:
        return executed(instance, len(keys), batch, total_ms)
    tracker.execute(np.array(keys), np.array(costs_ms), total_ms)
    packed = pack_costs(tracker.finish())
    return executed(instance, len(keys), batch, total_ms, costs=packed)


def begin(policies, keep=None):
    return Controller("enrich", "query", policies, journal=Journal(), keep=keep)


def router_of(policies, snapshot):
    """The policies of a router that was made for all instances."""
    found = policies.clone().sized(snapshot.active_of(policies.grouping.instances))
    found.restore(snapshot.data)
    return found
