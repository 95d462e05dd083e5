"""Micro-batches whose tasks execute several records at a time."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checks import yield_checks
from penstock.errors import PenstockError
from penstock.policies.grouping import Factoring, Proactive, RoundRobin
from penstock.sim import HeavyTailed, Overheads, Stream, Worker, simulate, simulate_batches

FREE = Overheads(task_ms=0.0)


def makespan(costs_ms, servers):
    """List scheduling of records in their order, with a heap."""
    free = [0.0] * servers
    for cost_ms in costs_ms:
        heapq.heappush(free, heapq.heappop(free) + cost_ms)
    return max(free)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 3), st.integers(1, 5))
def test_a_batch_takes_as_long_as_its_longest_task(costs, instances, servers):
    stream = Stream.of(range(len(costs)), [float(cost) for cost in costs])
    found = simulate_batches(
        RoundRobin(instances),
        stream,
        records=len(costs),
        workers=[Worker(slots=instances)],
        servers=servers,
        overheads=FREE,
    )
    expected = max(makespan(costs[i::instances], servers) for i in range(instances))
    assert found.duration_ms[0] == pytest.approx(expected)
    assert found.ideal_ms[0] <= found.duration_ms[0] + 1e-9


@pytest.mark.parametrize("kind", [Factoring, Proactive])
def test_a_grouping_that_knows_the_servers_is_not_slower(kind):
    stream = HeavyTailed(records=8_000).stream(seed=3)

    def to_ideal(known):
        result = simulate_batches(
            kind(instances=4, servers=known),
            stream,
            records=400,
            workers=[Worker(slots=2), Worker(slots=2)],
            routers=2,
            servers=8,
        )
        return result.to_ideal(skip=5)

    assert to_ideal(8) <= to_ideal(1) * 1.02


@pytest.mark.parametrize("kind", [Factoring, Proactive])
def test_groupings_with_servers_conform(kind):
    for _, check in yield_checks(kind(instances=3, servers=2)):
        check()


def test_one_server_changes_nothing():
    keys = np.random.default_rng(1).integers(0, 9, 200)
    for kind in (Factoring, Proactive):
        one, plain = kind(instances=3, servers=1), kind(instances=3)
        assert one == plain
        assert (one.route_together(keys) == plain.route_together(keys)).all()


def test_mistakes_are_refused():
    stream = Stream.of([1], [1.0])
    with pytest.raises(PenstockError, match="servers must be >= 1; got 0"):
        simulate_batches(RoundRobin(1), stream, records=1, workers=[Worker()], servers=0)
    with pytest.raises(PenstockError, match="servers must be >= 1; got 0"):
        Factoring(2, servers=0)
    with pytest.raises(PenstockError, match=r"grouping must have servers=1.*simulate_batches"):
        simulate(Proactive(1, servers=2), stream)


@pytest.mark.parametrize("kind", [Factoring, Proactive])
def test_the_servers_of_a_task_take_the_longest_records_first(kind):
    """Long records come last in the stream; a queue in its order would wait for them."""
    costs_ms = [10.0] * 80 + [100.0]
    keys = [0] * 80 + [1]
    stream = Stream.of(keys * 6, costs_ms * 6)
    found = simulate_batches(
        kind(instances=1, servers=4),
        stream,
        records=len(keys),
        workers=[Worker()],
        servers=4,
        overheads=FREE,
    )
    assert found.duration_ms[0] == pytest.approx(makespan(costs_ms, 4))
    longest_first = makespan(sorted(costs_ms, reverse=True), 4)
    assert found.duration_ms[-1] == pytest.approx(longest_first)
    assert longest_first < makespan(costs_ms, 4)
