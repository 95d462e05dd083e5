"""Utilization reported in time slots: when signals come, and what is learnt from them."""

import numpy as np
import pytest
from engine_inputs import Listener

from penstock.policies.grouping import Consistent
from penstock.sim import Stream, simulate


def acknowledged(result, stream, sources, slot_ms):
    """Time at which each source receives each slot: with its first record done after the slot."""
    finished = stream.arrivals_ms + result.completion_ms
    ends = np.arange(1, 1 + int(stream.arrivals_ms[-1] // slot_ms)) * slot_ms
    heard = {}
    for number in range(sources):
        for instance in range(result.load_ms.size):
            own = np.flatnonzero(result.instances == instance)
            own = own[own % sources == number]
            heard[number, instance] = [
                float(finished[own[finished[own] > end][0]])
                for end in ends
                if (finished[own] > end).any()
            ]
    return heard


@pytest.mark.parametrize("sources", [1, 2, 3])
@pytest.mark.parametrize("delay_ms", [0.0, 3.0, 30.0])
def test_signals_come_with_acknowledgements_and_not_before(sources, delay_ms):
    # Two instances; keys 0, 0, 0, 1, 1, 1, 0, ... so that each source uses both.
    keys = np.arange(600) // 3 % 2
    stream = Stream.of(keys, np.where(keys == 1, 1.6, 0.4)).every(1.0)
    diary = []
    result = simulate(Listener(2, diary), stream, sources=sources, slot_ms=100.0, delay_ms=delay_ms)
    expected = acknowledged(result, stream, sources, 100.0)
    # While acknowledgements are awaited, records go in steps.
    step_ms = 4 * sources * 2 * 1.0
    for (number, instance), times in expected.items():
        own = [entry for entry in diary if entry[0] == number and entry[2] == instance]
        assert [utilization for *_, utilization in own] == pytest.approx(
            [0.8 if instance else 0.2] * len(own), abs=0.02
        )
        heard_at = [stream.arrivals_ms[number + sources * routed] for _, routed, *_ in own]
        # A signal after the last record was routed is not received.
        due = [time + delay_ms for time in times]
        assert len(own) == sum(time + step_ms < 600 for time in due) == 5
        for heard_ms, due_ms in zip(heard_at, due, strict=True):
            assert due_ms <= heard_ms <= due_ms + step_ms + sources


def test_a_slot_is_over_before_its_utilization_is_told():
    stream = Stream.of([0] * 100, [0.5] * 100).every(1.0)
    diary = []
    simulate(Listener(1, diary), stream, slot_ms=30.0)
    # Records 30, 60 and 90 are the first ones of their slots; they are done half a ms later.
    told = [routed for _, routed, *_ in diary]
    assert len(told) == 3
    for routed, first in zip(told, (30, 60, 90), strict=True):
        assert first + 1 <= routed <= first + 4


def test_utilization_is_the_work_given_in_the_slot_over_its_length():
    # Slot 1: 2 records of 1 ms at 0; slot 2: 5 of 4 ms, slowed down twice from record 4 on.
    arrivals = [0.0, 1.0, 10.0, 11.0, 12.0, 13.0, 14.0, 20.0, 200.0]
    costs = [1.0, 1.0, 4.0, 4.0, 4.0, 4.0, 4.0, 1.0, 1.0]
    stream = Stream.of([0] * 9, costs).arriving(arrivals)
    diary = []
    slow = [(4, [2.0])]
    simulate(Listener(1, diary), stream, slot_ms=10.0, slowdowns=slow)
    told = [utilization for *_, utilization in diary]
    assert told[:2] == [0.2, 3.2]  # more than it can do: it has a queue


def test_who_is_at_a_long_record_is_heard_late():
    # When the slot ends, instance 1 is at a record until 158, and instance 0 is not.
    costs = np.full(600, 0.1)
    costs[98] = 60.0
    stream = Stream.of([1, 0] * 300, costs).every(1.0)
    diary = []
    result = simulate(Listener(2, diary), stream, slot_ms=100.0)
    expected = acknowledged(result, stream, 1, 100.0)
    assert expected[0, 0][0] == pytest.approx(101.1)
    assert expected[0, 1][0] == pytest.approx(158)
    first = {instance: routed for _, routed, instance, _ in reversed(diary)}
    assert 102 <= first[0] <= 102 + 8
    assert 158 <= first[1] <= 158 + 8


def test_messages_are_counted():
    keys = np.arange(600) // 3 % 2
    stream = Stream.of(keys, np.full(600, 0.5)).every(1.0)
    diary = []
    result = simulate(Listener(2, diary), stream, sources=2, slot_ms=100.0)
    assert result.messages == len(diary) == 5 * 2 * 2
    assert result.message_bytes == 8 * result.messages


def test_an_idle_instance_without_records_says_nothing():
    stream = Stream.of([0] * 300, [0.5] * 300).every(1.0)
    diary = []
    simulate(Listener(2, diary), stream, slot_ms=100.0)
    assert {instance for _, _, instance, _ in diary} == {0}


def test_consistent_grouping_learns_capacities_from_its_signals():
    stream = Stream.of(np.random.default_rng(0).zipf(1.2, size=40_000), np.ones(40_000))
    stream = stream.every(1 / (0.8 * 2))
    cg = Consistent(2, 50)
    result = simulate(cg, stream, slowdowns=[(0, [0.625, 2.5])], slot_ms=250.0, sources=2)
    # Capacities of 1.6 and 0.4: shares of 80% and 20%.
    assert cg.shares.tolist() == pytest.approx([80, 20], abs=4)
    late = result.utilization(2)[1]
    assert late.max() < cg.busy
    assert late.min() > 0.65
    assert result.moves == pytest.approx(30, abs=8)


def test_it_does_not_matter_when_a_trace_begins():
    stream = Stream.of([0] * 300, [0.5] * 300).every(1.0)
    diaries = [], []
    found = [
        simulate(Listener(1, diary), stream.arriving(stream.arrivals_ms + start), slot_ms=50.0)
        for diary, start in zip(diaries, (0.0, 10_000.0), strict=True)
    ]
    assert diaries[0] == diaries[1]
    np.testing.assert_allclose(*(result.utilization(3) for result in found))
