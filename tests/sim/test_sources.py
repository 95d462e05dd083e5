"""Several sources, each with a copy of the grouping: every record once, and what is refused."""

import numpy as np
import pytest
from engine_inputs import STREAMS
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
from penstock.sim import Stream, Synthetic, simulate

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


class Short(Grouping):
    """Forgets to route all but the first record."""

    def route(self, keys, now_ms=None):
        return np.zeros(1, dtype=np.int32)


def test_fewer_instances_than_records_are_refused():
    with pytest.raises(PenstockError, match=r"Short.route .* for each of 5 records"):
        simulate(Short(2), Stream.of([1] * 10, [1.0] * 10).every(1.0), sources=2)


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
