"""Groupings whose instances have several servers: clocks are those of queues."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.policies.grouping import Factoring, Proactive


def on_servers(costs_ms, instances, servers):
    """Makespan of longest first on all servers: an independent computation with a heap."""
    free = [0.0] * (instances * servers)
    for cost_ms in sorted(costs_ms, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + cost_ms)
    return max(free)


def of_tasks(costs_ms, found, instances, servers):
    """Makespan of the tasks whose servers take the longest records first."""
    loads = []
    for instance in range(instances):
        own = [cost for cost, task in zip(costs_ms, found, strict=True) if task == instance]
        loads.append(on_servers(own, 1, servers))
    return max(loads)


def taught(kind, costs_ms, **params):
    """A grouping that knows the cost of each key."""
    grouping = kind(**params)
    for instance in range(grouping.instances):
        tracker = grouping.tracker(instance)
        keys = np.arange(len(costs_ms))
        messages = tracker.execute(keys, np.array(costs_ms), float(sum(costs_ms)))
        for message in [*messages, *tracker.finish()]:
            grouping.observe(message)
    grouping.begin(0)
    return grouping


@given(
    st.lists(st.integers(1, 100), min_size=20, max_size=60),
    st.integers(1, 4),
    st.integers(2, 8),
)
def test_clocks_are_those_of_queues_with_several_servers(costs, instances, servers):
    """Costs are multiples of the longest one's 65,536th part, so sorting by steps is exact."""
    costs_ms = [float(cost) for cost in costs]
    grouping = taught(Proactive, costs_ms, instances=instances, servers=servers)
    found = grouping.route_together(np.arange(len(costs)))
    assert found.min() >= 0
    assert found.max() < instances
    ours = of_tasks(costs_ms, found, instances, servers)
    best = on_servers(costs_ms, instances, servers)
    assert ours <= best + 1e-6


@given(st.integers(1, 4), st.integers(1, 8), st.integers(0, 300))
def test_factoring_has_as_many_tasks_with_any_number_of_servers(instances, servers, records):
    costs_ms = [10.0] * 50 + [200.0] * 5
    grouping = taught(Factoring, costs_ms, instances=instances, servers=servers)
    found = grouping.route_together(np.arange(records) % 55)
    assert found.dtype == np.int32
    assert ((found >= 0) & (found < grouping.tasks)).all()
