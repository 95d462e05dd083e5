"""Several sources, each with a copy of the grouping, and utilization reported in time slots."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import (
    BoundedHash,
    Consistent,
    FullKnowledge,
    Grouping,
    KeyHash,
    PartialKey,
    Proactive,
    ProactiveAsPublished,
    RandomChoices,
    RoundRobin,
    TwoChoices,
)
from penstock.sim import Stream, Synthetic, replication, simulate

MAKERS = {
    "round_robin": RoundRobin,
    "key_hash": KeyHash,
    "pkg": lambda k: PartialKey(k, half_life=5),
    "potc": lambda k: TwoChoices(k, half_life=5),
    "porc": lambda k: RandomChoices(k, half_life=5),
    "bounded_hash": lambda k: BoundedHash(k, half_life=5),
    "cg": lambda k: Consistent(k, 4, half_life=5),
}
SILENT = sorted(set(MAKERS) - {"cg"})  # they receive no signals

RECORD = st.tuples(st.integers(0, 12), st.integers(0, 3))
STREAMS = st.lists(RECORD, min_size=1, max_size=150).map(
    lambda records: Stream.of(
        [k for k, _ in records], [1.0 + 7 * k % 32 for k, _ in records]
    ).arriving(np.cumsum([4.0 * gap for _, gap in records]))
)


def same(one, other):
    np.testing.assert_array_equal(one.instances, other.instances)
    np.testing.assert_array_equal(one.completion_ms, other.completion_ms)
    np.testing.assert_array_equal(one.load_ms, other.load_ms)


# Sources.


@pytest.mark.parametrize("name", MAKERS)
def test_one_source_without_slots_is_what_it_was(name):
    stream = Synthetic(records=1_000).stream(1).provisioned(3)
    grouping = MAKERS[name](3)
    same(
        simulate(grouping.clone(), stream, sources=1, slot_ms=None),
        simulate(grouping.clone(), stream),
    )


@settings(deadline=None, max_examples=25)
@given(STREAMS, st.integers(1, 4), st.sampled_from([1.0, 40.0, 1e9]))
@pytest.mark.parametrize("name", SILENT)
def test_slots_change_nothing_for_who_does_not_listen(name, stream, k, slot_ms):
    slow = [(0, np.arange(1.0, k + 1)), (50, np.ones(k))]
    make = MAKERS[name]
    result = simulate(make(k), stream, slowdowns=slow, slot_ms=slot_ms)
    same(result, simulate(make(k), stream, slowdowns=slow))
    assert result.moves == 0


@settings(deadline=None, max_examples=25)
@given(STREAMS, st.integers(1, 4), st.integers(1, 5), st.sampled_from([None, 40.0]))
@pytest.mark.parametrize("name", SILENT)
def test_every_source_routes_its_records_with_a_copy(name, stream, k, sources, slot_ms):
    result = simulate(MAKERS[name](k), stream, sources=sources, slot_ms=slot_ms)
    for number in range(sources):
        copy = MAKERS[name](k)
        copy.begin(number)
        own = copy.route(stream.keys[number::sources])
        np.testing.assert_array_equal(result.instances[number::sources], own)


def test_without_slots_consistent_grouping_is_heard_of_nobody():
    stream = Synthetic(records=2_000).stream(0).provisioned(3, 1.1)
    result = simulate(Consistent(3, 4), stream, sources=3)
    for number in range(3):
        copy = Consistent(3, 4)
        copy.begin(number)
        own = copy.route(stream.keys[number::3])
        np.testing.assert_array_equal(result.instances[number::3], own)
    assert (result.messages, result.moves) == (0, 0)


SLOW = np.array([0.9, 1.0, 1.1, 1.3])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("sources, slot_ms", [(1, 100.0), (3, None), (7, 100.0)])
def test_every_record_is_executed_once(name, sources, slot_ms):
    stream = Synthetic(records=3_000, exponent=1.2).stream(4).provisioned(4, 1.2)
    result = simulate(
        MAKERS[name](4), stream, slowdowns=[(0, SLOW)], sources=sources, slot_ms=slot_ms
    )
    executed = stream.costs_ms * SLOW[result.instances]
    np.testing.assert_allclose(result.executed_ms, executed)
    np.testing.assert_allclose(
        result.load_ms, np.bincount(result.instances, weights=executed, minlength=4)
    )
    for instance in range(4):  # first in, first out, one at a time, whoever sent it
        own = result.instances == instance
        finished = (stream.arrivals_ms + result.completion_ms)[own]
        assert (np.diff(finished) >= executed[own][1:] * (1 - 1e-9)).all()


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_twice(name):
    stream = Synthetic(records=2_000).stream(2).provisioned(3, 1.1)
    arguments = {"slowdowns": [(0, [0.5, 1.0, 2.0])], "sources": 2, "slot_ms": 500.0}
    first, second = (simulate(MAKERS[name](3), stream, **arguments) for _ in range(2))
    same(first, second)
    assert (first.messages, first.moves) == (second.messages, second.moves)


def test_more_sources_than_records():
    stream = Stream.of([1, 2], [1.0, 1.0]).every(1.0)
    assert simulate(RoundRobin(3), stream, sources=9, slot_ms=0.5).instances.tolist() == [0, 1]


@pytest.mark.parametrize("name", MAKERS)
def test_empty_stream(name):
    result = simulate(MAKERS[name](3), Stream.of([], []), sources=2, slot_ms=1.0)
    assert result.load_ms.tolist() == [0.0, 0.0, 0.0]
    assert (result.messages, result.changes, result.memory) == (0, (), 0.0)


# Signals.


class Listener(Grouping):
    """Routes by key; notes each signal: (source, records routed so far, instance, utilization)."""

    def __init__(self, instances, diary):
        super().__init__(instances)
        self.diary = diary
        self.source = self.routed = 0

    def begin(self, router):
        self.source = router

    def route(self, keys, now_ms=None):
        self.routed += len(keys)
        return np.asarray(keys % self.instances, dtype=np.int32)

    def observe(self, feedback):
        self.diary.append((self.source, self.routed, feedback.instance, feedback.utilization))


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


# What a user may expect.


def test_every_source_starts_with_what_was_learnt():
    cg = Consistent(2, 10, stride=0)
    for instance, utilization in ((1, 0.4), (0, 2.0)) * 5:
        cg.observe(Feedback(instance, utilization=utilization))
    assert cg.shares.tolist() == [5, 15]
    result = simulate(cg, Stream.of(np.arange(2_000), np.ones(2_000)).every(1.0), sources=2)
    for number in range(2):
        counts = np.bincount(result.instances[number::2])
        np.testing.assert_allclose(counts, [250, 750], rtol=0.05)


def test_slots_do_not_hide_the_truth_from_full_knowledge():
    stream = Stream.of([1] * 100, [1.0] * 100).every(1.0)
    slow = [(0, [1.0, 10.0])]
    plain, slotted = (
        simulate(FullKnowledge(2, stream.exact_costs()), stream, slowdowns=slow, slot_ms=slot_ms)
        for slot_ms in (None, 1e9)
    )
    same(plain, slotted)


def test_it_does_not_matter_when_a_trace_begins():
    stream = Stream.of([0] * 300, [0.5] * 300).every(1.0)
    diaries = [], []
    found = [
        simulate(Listener(1, diary), stream.arriving(stream.arrivals_ms + start), slot_ms=50.0)
        for diary, start in zip(diaries, (0.0, 10_000.0), strict=True)
    ]
    assert diaries[0] == diaries[1]
    np.testing.assert_allclose(*(result.utilization(3) for result in found))


class Short(Grouping):
    """Forgets to route all but the first record."""

    def route(self, keys, now_ms=None):
        return np.zeros(1, dtype=np.int32)


def test_fewer_instances_than_records_are_refused():
    with pytest.raises(PenstockError, match=r"Short.route .* for each of 5 records"):
        simulate(Short(2), Stream.of([1] * 10, [1.0] * 10).every(1.0), sources=2)


# Queueing theory.


@pytest.mark.parametrize("utilisation", [0.3, 0.7])
def test_waiting_in_m_d_1(utilisation):
    records, cost = 200_000, 10.0
    gaps = np.random.default_rng(7).exponential(cost / utilisation, size=records)
    stream = Stream.of(np.zeros(records, dtype=np.int64), np.full(records, cost))
    stream = stream.arriving(np.cumsum(gaps))
    result = simulate(KeyHash(1), stream, sources=3, slot_ms=10_000.0)
    expected = utilisation * cost / (2 * (1 - utilisation))
    assert result.mean_completion_ms() - cost == pytest.approx(expected, rel=0.03)


# Figures of a result.


def test_memory_by_hand():
    stream = Stream.of([1, 1, 2, 2, 3], [1.0] * 5)
    result = simulate(RoundRobin(2), stream)
    # Keys 1 and 2 are in two places, key 3 in one.
    assert result.memory == pytest.approx(5 / 3)
    assert simulate(KeyHash(2), stream).memory == 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3)), min_size=1, max_size=60))
def test_replication_counts_pairs(pairs):
    keys, places = np.array(pairs).T
    expected = len(set(pairs)) / len({key for key, _ in pairs})
    assert replication(keys, places.astype(np.int32), 4) == pytest.approx(expected)


def test_utilization_and_queues_by_hand():
    stream = Stream.of([1] * 5, [3.0] * 5).every(1.0)  # done at 3, 6, 9, 12, 15
    result = simulate(RoundRobin(1), stream)
    assert result.utilization(2).tolist() == [[3.0], [4.5]]  # 2 and 3 records in 2 ms
    assert result.queues(2).tolist() == [[3], [4]]
    assert result.queues(4).tolist() == [[2], [3], [3], [4]]


def test_utilization_and_queues_of_two_instances_by_hand():
    stream = Stream.of([0, 1, 0, 0, 1], [1.0, 5.0, 1.0, 4.0, 1.0]).every(1.0)
    result = simulate(Listener(2, []), stream)
    # 0: done at 1, 3, 7; 1: done at 6, 7.
    assert result.utilization(2).tolist() == [[0.5, 2.5], [2.5, 0.5]]
    assert result.queues(2).tolist() == [[1, 1], [1, 2]]


@settings(deadline=None, max_examples=60)
@given(STREAMS, st.integers(1, 4), st.integers(1, 9))
def test_utilization_conserves_work(stream, k, slots):
    lasts_ms = stream.arrivals_ms[-1] - stream.arrivals_ms[0]
    if not lasts_ms:
        return
    result = simulate(RoundRobin(k), stream)
    length_ms = lasts_ms / slots
    work = result.utilization(slots) * length_ms
    assert work.shape == (slots, k)
    np.testing.assert_allclose(work.sum(axis=0), result.load_ms)


@settings(deadline=None, max_examples=60)
@given(STREAMS, st.integers(1, 4), st.integers(1, 9))
def test_queues_are_counted_record_by_record(stream, k, slots):
    result = simulate(KeyHash(k), stream)
    finished = stream.arrivals_ms + result.completion_ms
    ends = np.linspace(stream.arrivals_ms[0], stream.arrivals_ms[-1], slots + 1)[1:]
    for end, queues in zip(ends, result.queues(slots), strict=True):
        waiting = (stream.arrivals_ms <= end) & (finished > end)
        expected = np.bincount(result.instances[waiting], minlength=k)
        np.testing.assert_array_equal(queues, expected)


def test_what_does_not_arrive_over_time_has_no_utilization():
    for stream in (Stream.of([], []), Stream.of([1, 2], [1.0, 1.0])):
        with pytest.raises(PenstockError, match="utilization needs records that arrive over time"):
            simulate(RoundRobin(2), stream).utilization(3)
    assert simulate(RoundRobin(2), Stream.of([], [])).queues(3).tolist() == [[0, 0]] * 3


# What is refused.


@pytest.mark.parametrize("make", [Proactive, ProactiveAsPublished])
@pytest.mark.parametrize("arguments", [{"sources": 2}, {"slot_ms": 5.0}])
def test_groupings_with_trackers_are_refused(make, arguments):
    with pytest.raises(PenstockError) as caught:
        simulate(make(2), Stream.of([1], [1.0]), **arguments)
    assert str(caught.value) == (
        f"sources must be 1 and slot_ms None for {make.__name__}: "
        "its instances answer one scheduler"
    )


class Outside(Grouping):
    """Knows an instance too many."""

    def route(self, keys, now_ms=None):
        return np.full(len(keys), self.instances, dtype=np.int32)


def test_instances_that_do_not_exist_are_refused():
    with pytest.raises(PenstockError, match=r"Outside.route .* from 0 to 1; got 2"):
        simulate(Outside(2), Stream.of([1], [1.0]), sources=2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"sources": 0}, "sources must be >= 1; got 0"),
        ({"sources": 1.5}, "sources must be a whole number; got 1.5"),
        ({"slot_ms": 0}, "slot_ms must be > 0; got 0"),
        ({"slot_ms": float("nan")}, "slot_ms must be finite; got nan"),
        ({"slot_ms": 5.0, "delay_ms": -1}, "delay_ms must be >= 0; got -1"),
        ({"slot_ms": 5.0, "slowdowns": [(0, [1.0, 0.0])]}, "slowdowns must be > 0; got 0"),
        ({"sources": 2, "slowdowns": [(0, [1.0, -2.0])]}, "slowdowns must be > 0; got -2"),
        ({"sources": 2, "slowdowns": [(0, [np.nan, 1.0])]}, "slowdowns must be finite; got nan"),
        ({"sources": 2, "slowdowns": [(0, [np.inf, 1.0])]}, "slowdowns must be finite; got inf"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(PenstockError) as caught:
        simulate(RoundRobin(2), Stream.of([1], [1.0]), **arguments)
    assert str(caught.value) == message
