"""Figures of a result: waiting times, memory, utilization and queues."""

import numpy as np
import pytest
from engine_inputs import STREAMS, Listener
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.grouping import KeyHash, RoundRobin
from penstock.sim import Stream, replication, simulate

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
