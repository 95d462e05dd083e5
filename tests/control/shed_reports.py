"""Reports of an operator that sheds, and its controller."""

import numpy as np

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack_costs
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import LoadAware, MeanCost, average

TARGET = average("2 s")


def routed(records, shed=0, batch="1", router=0, **more):
    return RouterReport(TaskId("op", "query", batch, router), records, 1.0, 0.0, shed=shed, **more)


def executed(instance, records=2, batch="1", waited_ms=0.0, waits=None, costs=b""):
    place = TaskId("op", "query", batch, instance)
    waits = records if waits is None else waits
    return ExecutionReport(place, records, records, 5.0, "0", costs, waited_ms, waits)


def measured(policies, instance, batch="1", costs=((1, 10.0), (2, 2.0)), **more):
    tracker = policies.measuring.tracker(instance)
    keys, costs_ms = zip(*costs, strict=True)
    tracker.execute(np.array(keys), np.array(costs_ms), sum(costs_ms))
    return executed(instance, len(keys), batch, costs=pack_costs(tracker.finish()), **more)


def in_front(shedder=None):
    policies = OperatorPolicies(RoundRobin(1), shedder or MeanCost(TARGET))
    return Controller("gate", "query", policies, journal=Journal(), in_front=True)


def published(controller, batch, policies):
    """The policies of a router of this batch."""
    router = policies.clone()
    router.restore(controller.snapshot(batch).data)
    return router


def warnings_of(controller):
    return list(controller.stats().warnings)


def two_instances():
    return OperatorPolicies(RoundRobin(2), LoadAware(TARGET, instances=2, capacity=16))


def controller_of(policies, kept):
    """A controller that appends the decisions about each batch to a list."""
    return Controller("enrich", "query", policies, journal=Journal(), keep=kept.append)
