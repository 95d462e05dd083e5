"""Shedders in the engine: what is executed, what is shed, and how long the rest waits."""

import numpy as np
import pytest
from engine_inputs import STREAMS
from every_shedder import FOR_SEVERAL, KINDS, LIMIT_MS, Odd, overloaded, shedders
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.grouping import KeyHash, Proactive, RoundRobin
from penstock.policies.shedding import (
    FullKnowledge,
    LoadAware,
    LoadAwareAsPublished,
    Never,
    average,
    each_record,
)
from penstock.sim import Stream, Synthetic, simulate


def plain_waits(stream, instances, k):
    """First in, first out, one record at a time; a shed one waits for nothing."""
    free, waits = [min(0.0, float(stream.arrivals_ms[0]))] * k, []
    for arrival, cost, chosen in zip(stream.arrivals_ms, stream.costs_ms, instances, strict=True):
        start = arrival if chosen < 0 else max(free[chosen], arrival)
        waits.append(start - arrival)
        if chosen >= 0:
            free[chosen] = start + cost
    return waits


@pytest.mark.parametrize("name, k", KINDS)
def test_received_is_executed_and_shed(name, k):
    stream = overloaded(k)
    result = simulate(RoundRobin(k), stream, shedder=shedders(stream, k)[name])
    shed = result.instances == -1
    assert (~shed == result.kept).all()
    assert result.kept.sum() + shed.sum() == len(stream)
    assert result.dropped_ratio() == pytest.approx(shed.mean())
    assert set(result.instances[~shed]) == set(range(k))
    assert not result.completion_ms[shed].any()
    assert not result.executed_ms[shed].any()
    np.testing.assert_array_equal(result.executed_ms[~shed], stream.costs_ms[~shed])
    assert result.load_ms.sum() == pytest.approx(stream.costs_ms[~shed].sum())
    if name == "never":
        assert not shed.any()
    else:
        assert 0.05 < shed.mean() < 0.7


@pytest.mark.parametrize("name, k", KINDS)
def test_the_same_twice(name, k):
    stream = overloaded(k, records=2_000)
    shedder = shedders(stream, k)[name]
    first, second = (
        simulate(RoundRobin(k), stream, shedder=shedder.clone(), delay_ms=2.0) for _ in range(2)
    )
    np.testing.assert_array_equal(first.instances, second.instances)
    np.testing.assert_array_equal(first.completion_ms, second.completion_ms)
    assert first.changes == second.changes


@settings(deadline=None, max_examples=25)
@given(STREAMS, st.sampled_from([0.0, 30.0]))
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", FOR_SEVERAL)
def test_the_kept_records_wait_as_in_a_plain_queue(name, k, stream, delay_ms):
    shedder = shedders(stream, k)[name]
    result = simulate(RoundRobin(k), stream, shedder=shedder, delay_ms=delay_ms)
    waits = result.completion_ms - result.executed_ms
    np.testing.assert_allclose(waits, plain_waits(stream, result.instances, k), atol=1e-9)
    kept = result.instances[result.kept]
    np.testing.assert_array_equal(kept, np.arange(kept.size) % k)  # in turn, without gaps


@settings(deadline=None, max_examples=25)
@given(STREAMS, st.sampled_from([0.0, 3.0, 50.0]))
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("make", [RoundRobin, KeyHash, lambda k: Proactive(k, 5, 2)])
def test_who_never_sheds_might_as_well_not_be_there(make, k, stream, delay_ms):
    alone = simulate(make(k), stream, delay_ms=delay_ms)
    result = simulate(make(k), stream, delay_ms=delay_ms, shedder=Never(k))
    np.testing.assert_array_equal(result.instances, alone.instances)
    np.testing.assert_array_equal(result.completion_ms, alone.completion_ms)
    assert (result.messages, result.message_bytes) == (alone.messages, alone.message_bytes)
    assert [c for c in result.changes if c.who != "shedder"] == list(alone.changes)


@settings(deadline=None, max_examples=25)
@given(STREAMS)
def test_full_knowledge_of_one_instance_plans_what_comes(stream):
    shedder = FullKnowledge(average(LIMIT_MS), stream.exact_costs())
    result = simulate(RoundRobin(1), stream, shedder=shedder)
    waited = (result.completion_ms - result.executed_ms).sum()
    assert shedder.planned_ms == pytest.approx(waited)
    assert result.mean_waiting_ms() <= LIMIT_MS * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keep", ["any", "cheap"])
def test_full_knowledge_sits_on_its_target(keep, seed):
    stream = overloaded(1, records=32_768, seed=seed)
    shedder = FullKnowledge(average(LIMIT_MS), stream.exact_costs(), keep)
    result = simulate(RoundRobin(1), stream, shedder=shedder)
    assert result.mean_waiting_ms() == pytest.approx(LIMIT_MS, rel=0.005)


def test_full_knowledge_holds_every_single_record():
    stream = overloaded(1)
    shedder = FullKnowledge(each_record(LIMIT_MS), stream.exact_costs())
    result = simulate(RoundRobin(1), stream, shedder=shedder)
    assert (result.completion_ms - result.executed_ms).max() <= LIMIT_MS * (1 + 1e-9)
    assert result.dropped_ratio() > 0.1


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", ["mean_cost", "las", "las_cheap_first", "full_knowledge"])
def test_nothing_is_shed_with_slack(name, k):
    stream = Synthetic(records=6_000, min_cost_ms=0.1, max_cost_ms=6.4).stream(2).every(6.4)
    result = simulate(RoundRobin(k), stream, shedder=shedders(stream, k)[name])
    assert result.dropped_ratio() == 0


def test_full_knowledge_is_told_of_slowdowns():
    stream = overloaded(1, records=20_000)
    shedder = FullKnowledge(average(LIMIT_MS), stream.exact_costs())
    result = simulate(RoundRobin(1), stream, shedder=shedder, slowdowns=[(10_000, [2.0])])
    assert result.mean_waiting_ms() == pytest.approx(LIMIT_MS, rel=0.01)
    assert result.dropped_ratio(10_000) > result.dropped_ratio(0, 10_000) + 0.2


def test_parts_of_a_result_are_those_of_the_kept_records():
    stream = Stream.of([1, 2, 3, 4], [5.0] * 4).every(1.0)
    result = simulate(RoundRobin(1), stream, shedder=Odd())
    assert result.instances.tolist() == [0, -1, 0, -1]
    assert result.completion_ms.tolist() == [5.0, 0.0, 8.0, 0.0]
    assert result.mean_completion_ms() == 6.5
    assert result.mean_waiting_ms() == 1.5
    assert result.mean_waiting_ms(2, 3) == 3.0
    assert np.isnan(result.mean_waiting_ms(1, 2))
    assert result.dropped_ratio(0, 1) == 0
    assert result.dropped_ratio(1) == pytest.approx(2 / 3)
    assert np.isnan(result.dropped_ratio(4))
    assert result.memory == 1
    assert result.utilization(1).tolist() == [[10 / 3]]
    assert result.queues(1).tolist() == [[2]]


def test_an_empty_stream_has_nothing_to_shed():
    result = simulate(RoundRobin(2), Stream.of([], []), shedder=LoadAware(average(1), instances=2))
    assert result.instances.shape == (0,)
    assert result.changes == ()


# Together with a grouping that learns.


@pytest.mark.parametrize("delay_ms", [0.0, 15.0])
def test_with_a_learning_grouping_both_hear_their_answers(delay_ms):
    stream = overloaded(3, records=20_000)
    grouping, shedder = Proactive(3), LoadAware(average(LIMIT_MS), instances=3)
    result = simulate(grouping, stream, shedder=shedder, delay_ms=delay_ms)
    assert (grouping.state, shedder.state) == ("RUN", "RUN")
    who = {change.who for change in result.changes if change.state == "RUN"}
    assert who == {"scheduler", "shedder"}
    assert {"instance 0", "instance 0 (shedder)"} <= {change.who for change in result.changes}
    known = np.unique(stream.keys, return_counts=True)
    frequent = known[0][known[1] > 100]
    exact = stream.exact_costs().estimate(frequent)
    for policy in (grouping, shedder):
        np.testing.assert_allclose(policy.expected_ms(frequent), exact, rtol=1e-6)
    assert result.mean_waiting_ms() == pytest.approx(LIMIT_MS, rel=0.03)
    waits = result.completion_ms - result.executed_ms
    np.testing.assert_allclose(waits, plain_waits(stream, result.instances, 3), atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_las_hears_every_instance_that_is_taken_in_turn(k):
    stream = overloaded(k, records=10_000)
    shedder = LoadAware(average(LIMIT_MS), instances=k)
    result = simulate(RoundRobin(k), stream, shedder=shedder)
    assert shedder.state == "RUN"
    assert 0.24 < result.dropped_ratio() < 0.3
    assert result.mean_waiting_ms() == pytest.approx(LIMIT_MS, rel=0.08)


def test_las_does_not_wait_for_an_instance_without_records():
    stream = Stream.of([1] * 5_000, [2.0] * 5_000).every(1.0)
    shedder = LoadAware(average(LIMIT_MS), instances=3)
    result = simulate(KeyHash(3), stream, shedder=shedder)
    assert set(result.instances[result.kept]) != {0, 1, 2}
    assert shedder.state == "RUN"
    assert result.dropped_ratio() > 0.1


def test_state_changes_are_those_of_the_shedder():
    stream = overloaded(1, records=3_000)
    changes = simulate(RoundRobin(1), stream, shedder=LoadAware(average(LIMIT_MS))).changes
    assert [c.state for c in changes if c.who == "shedder"] == ["NOP", "RUN"]
    published = LoadAwareAsPublished(average(LIMIT_MS), window=64, tolerance=0.5)
    changes = simulate(RoundRobin(1), stream, shedder=published).changes
    states = [c.state for c in changes if c.who == "shedder"]
    assert states[:2] == ["NOP", "SEND"]
    assert set(states) == {"NOP", "SEND", "RUN"}


# Records that must not be shed.


@pytest.mark.parametrize("name, k", [kind for kind in KINDS if kind[0] != "own"])
def test_the_protected_are_all_executed(name, k):
    stream = overloaded(k)
    spared = np.random.default_rng(5).random(len(stream)) < 0.2
    shedder = shedders(stream, k)[name]
    result = simulate(RoundRobin(k), stream, shedder=shedder, protected=spared)
    assert result.kept[spared].all()
    if name != "never":
        assert not result.kept[~spared].all()


def test_protected_is_one_for_each_record():
    stream = Stream.of([1, 2], [1.0, 1.0])
    with pytest.raises(PenstockError) as caught:
        simulate(RoundRobin(1), stream, shedder=Never(), protected=[True])
    assert str(caught.value) == "protected must have shape (2,); got (1,)"


# What does not fit.


def test_instances_must_be_those_of_the_grouping():
    with pytest.raises(PenstockError) as caught:
        simulate(RoundRobin(3), Stream.of([1], [1.0]), shedder=Never(2))
    assert str(caught.value) == "shedder: instances must be that of the grouping (3); got 2"


@pytest.mark.parametrize("more", [{"sources": 2}, {"slot_ms": 10.0}])
def test_one_source_only(more):
    with pytest.raises(PenstockError) as caught:
        simulate(RoundRobin(1), Stream.of([1], [1.0]), shedder=Never(), **more)
    given = {"sources": 1, "slot_ms": None, **more}
    assert str(caught.value) == (
        "sources must be 1 and slot_ms None with a shedder; "
        f"got sources = {given['sources']}, slot_ms = {given['slot_ms']}. Leave them out"
    )
