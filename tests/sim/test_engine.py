"""The engine of virtual time: an event-by-event twin, queueing theory, and users' groupings."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import (
    FullKnowledge,
    KeyHash,
    Proactive,
    ProactiveAsPublished,
    RoundRobin,
)
from penstock.sim import Stream, Synthetic, simulate

MAKERS = {
    "round_robin": lambda k, stream: RoundRobin(k),
    "key_hash": lambda k, stream: KeyHash(k),
    "posg": lambda k, stream: Proactive(k, window=6, first_window=2, capacity=8, half_life=60),
    "posg_as_published": lambda k, stream: ProactiveAsPublished(k, window=5, tolerance=0.6),
    "full_knowledge": lambda k, stream: FullKnowledge(k, stream.exact_costs()),
}


def plain_simulate(grouping, stream, slowdowns=(), delay_ms=0.0):
    """One record at a time: deliver what is due, route, execute, let the instance speak."""
    k = grouping.instances
    trackers = [grouping.tracker(i) for i in range(k)]
    slowdown, free = [1.0] * k, [0.0] * k
    mailbox, sent = [], 0
    instances, completions, loads = [], [], [0.0] * k
    for i, (key, cost, now) in enumerate(
        zip(stream.keys, stream.costs_ms, stream.arrivals_ms, strict=True)
    ):
        for message in sorted(m for m in mailbox if m[0] <= now):
            mailbox.remove(message)
            grouping.observe(message[2])
        for record, factors in slowdowns:
            if record == i:
                slowdown = factors
                if grouping.knows_truth:
                    for instance, factor in enumerate(factors):
                        grouping.observe(Feedback(instance, slowdown=factor))
        routed = grouping.route_until_answer(np.array([key]), np.array([now]))
        chosen = int(routed.instances[0])
        executed = cost * slowdown[chosen]
        free[chosen] = max(free[chosen], now) + executed
        loads[chosen] += executed
        instances.append(chosen)
        completions.append(free[chosen] - now)
        if trackers[chosen] is None:
            continue
        spoken = trackers[chosen].execute(
            np.array([key]), np.array([executed]), free[chosen], routed.request
        )
        assert routed.answerable or not spoken
        for feedback in spoken:
            mailbox.append((free[chosen] + delay_ms, sent, feedback))
            sent += 1
    return instances, completions, loads, sent


RECORD = st.tuples(st.integers(0, 12), st.integers(0, 3))
STREAMS = st.lists(RECORD, max_size=150).map(
    lambda records: Stream.of(
        [k for k, _ in records], [1.0 + 7 * k % 32 for k, _ in records]
    ).arriving(np.cumsum([4.0 * gap for _, gap in records]))
)
FACTORS = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=4, max_size=4)
# Whole numbers and powers of two: sums are exact, in whatever order they are made.
SLOWDOWNS = st.lists(st.tuples(st.integers(0, 160), FACTORS), max_size=3, unique_by=lambda s: s[0])


@settings(deadline=None, max_examples=40)
@given(STREAMS, st.integers(1, 4), SLOWDOWNS, st.sampled_from([0.0, 3.0, 50.0]))
@pytest.mark.parametrize("name", MAKERS)
def test_is_the_plain_twin(name, stream, k, slowdowns, delay_ms):
    if not len(stream):
        return
    schedule = [(record, factors[:k]) for record, factors in slowdowns]
    result = simulate(MAKERS[name](k, stream), stream, slowdowns=schedule, delay_ms=delay_ms)
    instances, completions, loads, sent = plain_simulate(
        MAKERS[name](k, stream), stream, schedule, delay_ms
    )
    assert result.instances.tolist() == instances
    assert result.completion_ms.tolist() == completions
    assert result.load_ms.tolist() == loads
    assert result.messages == sent


@pytest.mark.parametrize("name", MAKERS)
def test_is_the_plain_twin_on_a_longer_stream(name):
    stream = Synthetic(records=3_000, distinct=64, exponent=1.5).stream(2).provisioned(3, 1.01)
    schedule = [(0, [0.5, 1.0, 2.0]), (1_500, [2.0, 1.0, 0.5])]
    result = simulate(MAKERS[name](3, stream), stream, slowdowns=schedule, delay_ms=20.0)
    instances, completions, loads, sent = plain_simulate(
        MAKERS[name](3, stream), stream, schedule, 20.0
    )
    assert result.instances.tolist() == instances
    np.testing.assert_allclose(result.completion_ms, completions, rtol=1e-12)
    np.testing.assert_allclose(result.load_ms, loads, rtol=1e-12)
    assert result.messages == sent
    if name.startswith("posg"):
        assert sent > 20


# Queueing theory.


@pytest.mark.parametrize("utilisation", [0.3, 0.5, 0.7])
def test_waiting_in_m_d_1(utilisation):
    records, cost = 200_000, 10.0
    gaps = np.random.default_rng(7).exponential(cost / utilisation, size=records)
    stream = Stream.of(np.zeros(records, dtype=np.int64), np.full(records, cost))
    result = simulate(RoundRobin(1), stream.arriving(np.cumsum(gaps)))
    expected = utilisation * cost / (2 * (1 - utilisation))
    assert result.mean_completion_ms() - cost == pytest.approx(expected, rel=0.03)


def test_no_waiting_in_d_d_1():
    stream = Stream.of([1] * 1000, [10.0] * 1000)
    assert set(simulate(RoundRobin(1), stream.every(10.0)).completion_ms) == {10.0}
    assert set(simulate(RoundRobin(4), stream.every(2.5)).completion_ms) == {10.0}
    # Too fast by 1 ms: every record waits 1 ms longer than the one before.
    late = simulate(RoundRobin(1), stream.every(9.0)).completion_ms
    np.testing.assert_array_equal(late, 10.0 + np.arange(1000))


# What holds for every grouping.


@pytest.fixture(scope="module")
def stream():
    return Synthetic(records=5_000, exponent=1.2).stream(4).provisioned(4, 1.02)


SLOW = np.array([0.9, 1.0, 1.1, 1.3])


@pytest.mark.parametrize("name", MAKERS)
def test_every_record_is_executed_once(name, stream):
    result = simulate(MAKERS[name](4, stream), stream, slowdowns=[(0, SLOW)])
    executed = stream.costs_ms * SLOW[result.instances]
    by_instance = np.bincount(result.instances, weights=executed, minlength=4)
    np.testing.assert_allclose(result.load_ms, by_instance)
    assert result.load_ms.sum() == pytest.approx(executed.sum())
    assert (result.completion_ms >= executed * (1 - 1e-9)).all()
    assert result.imbalance == pytest.approx(result.load_ms.max() / result.load_ms.mean() - 1)
    for instance in range(4):  # first in, first out, one at a time
        own = result.instances == instance
        finished = (stream.arrivals_ms + result.completion_ms)[own]
        assert (np.diff(finished) >= executed[own][1:] * (1 - 1e-9)).all()


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_twice(name, stream):
    grouping = MAKERS[name](4, stream)
    first, second = (simulate(grouping.clone(), stream, delay_ms=5.0) for _ in range(2))
    np.testing.assert_array_equal(first.completion_ms, second.completion_ms)
    np.testing.assert_array_equal(first.instances, second.instances)
    assert first.changes == second.changes
    assert (first.messages, first.message_bytes) == (second.messages, second.message_bytes)


@pytest.mark.parametrize("name", MAKERS)
def test_one_instance_leaves_no_choice(name, stream):
    one = simulate(MAKERS[name](1, stream), stream)
    np.testing.assert_array_equal(one.completion_ms, simulate(RoundRobin(1), stream).completion_ms)


@pytest.mark.parametrize("name", MAKERS)
def test_empty_stream(name):
    stream = Stream.of([1], [1.0])
    nothing = Stream.of([], [])
    result = simulate(MAKERS[name](3, stream), nothing)
    assert result.completion_ms.shape == (0,)
    assert result.load_ms.tolist() == [0.0, 0.0, 0.0]
    assert (result.messages, result.changes, result.imbalance) == (0, (), 0.0)


def test_figures_of_an_empty_stream():
    result = simulate(RoundRobin(3), Stream.of([], []))
    assert result.messages_per_100 == 0
    assert math.isnan(result.mean_completion_ms())
    assert math.isnan(result.mean_waiting_ms())
    assert math.isnan(result.dropped_ratio())


# Slowdowns and states.


def test_slowdowns_take_effect_at_their_record():
    stream = Stream.of([1] * 8, [4.0] * 8).every(100.0)
    slowdowns = [(5, [0.5]), (3, [2.0])]  # in any order
    result = simulate(RoundRobin(1), stream, slowdowns=slowdowns)
    assert result.completion_ms.tolist() == [4.0] * 3 + [8.0] * 2 + [2.0] * 3
    later = simulate(RoundRobin(1), stream, slowdowns=[(0, [3.0]), (99, [7.0])])
    assert set(later.completion_ms) == {12.0}


def test_states_are_recorded_when_they_change():
    stream = Synthetic(records=2_000).stream(0).provisioned(2)
    result = simulate(Proactive(2), stream)
    start, running = (
        [c for c in result.changes if c.record == 0],
        [c for c in result.changes if c.record > 0],
    )
    assert {(c.who, c.state) for c in start} == {
        ("scheduler", "ROUND ROBIN"),
        ("instance 0", "MEASURING"),
        ("instance 1", "MEASURING"),
    }
    (change,) = running
    assert (change.who, change.state) == ("scheduler", "RUN")
    assert change.time_ms == stream.arrivals_ms[change.record]


def test_delay_delays_learning():
    stream = Synthetic(records=4_000).stream(0).provisioned(3)
    began = [
        next(c for c in simulate(Proactive(3), stream, delay_ms=d).changes if c.state == "RUN")
        for d in (0.0, 100.0, 5_000.0)
    ]
    interval = stream.arrivals_ms[1]  # a message counts from the next arrival on
    assert began[1].time_ms - began[0].time_ms == pytest.approx(100, abs=interval)
    assert began[2].time_ms - began[0].time_ms == pytest.approx(5_000, abs=interval)
    assert simulate(Proactive(3), stream, delay_ms=1e9).changes[-1].state == "MEASURING"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"delay_ms": -1}, "delay_ms must be >= 0; got -1"),
        ({"slowdowns": [(0, [1.0])]}, "slowdowns must have shape (2,); got (1,)"),
        ({"slowdowns": [(0, [1.0, 0.0])]}, "slowdowns must be > 0; got 0"),
        ({"slowdowns": [(-1, [1.0, 1.0])]}, "slowdowns: record must be >= 0; got -1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(PenstockError) as caught:
        simulate(RoundRobin(2), Stream.of([1], [1.0]), **arguments)
    assert str(caught.value) == message
