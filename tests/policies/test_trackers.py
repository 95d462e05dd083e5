"""What lives at an instance: Figure 2 of the POSG paper, and answers on demand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.trackers import WhenAsked, WhenStable, relative_change

NAN = np.nan


def stable(window=2, tolerance=0.05):
    return WhenStable(0, CountMin(seed=1), window, tolerance)


def execute(tracker, costs, request=None, keys=None):
    costs = np.array(costs, dtype=np.float64)
    keys = np.ones(costs.size, dtype=np.int64) if keys is None else np.array(keys, dtype=np.int64)
    return tracker.execute(keys, costs, finished_ms=0.0, request=request)


# Figure 2.


def test_start_lasts_for_one_window():
    tracker = stable()
    assert tracker.state == "START"
    assert execute(tracker, [10]) == []
    assert tracker.state == "START"
    assert execute(tracker, [10]) == []
    assert tracker.state == "STABILIZING"  # 2.A


def test_stable_matrices_are_sent_and_reset():
    tracker = stable()
    execute(tracker, [10, 10])
    assert execute(tracker, [10]) == []
    (message,) = execute(tracker, [10])
    assert tracker.state == "START"  # 2.C
    assert (message.instance, message.delta_ms) == (0, None)
    assert message.costs.estimate([1]).tolist() == [10.0]
    assert message.costs.frequency.sum(axis=1).tolist() == [4.0] * 4
    assert tracker.model.frequency.sum() == 0
    execute(tracker, [7, 7])
    assert message.costs.estimate([1]).tolist() == [10.0]


def test_unstable_matrices_give_a_new_snapshot():
    tracker = stable()
    execute(tracker, [10, 10])
    assert execute(tracker, [20, 20]) == []  # mean 15: eta = 0.5
    assert tracker.state == "STABILIZING"  # 2.B
    (message,) = execute(tracker, [15, 15])  # mean 15 against the new snapshot: eta = 0
    assert message.costs.frequency.sum(axis=1).tolist() == [6.0] * 4


@pytest.mark.parametrize("cost, sent", [(11.0, 1), (11.001, 0), (9.0, 1), (8.999, 0)])
def test_the_tolerance_itself_is_stable(cost, sent):
    tracker = stable(tolerance=0.05)
    execute(tracker, [10, 10])
    assert len(execute(tracker, [cost, cost])) == sent  # means 10 and (10 + cost) / 2


def test_start_begins_again_after_sending():
    tracker = stable(window=1)
    states = []
    for _ in range(6):
        execute(tracker, [10])
        states.append(str(tracker.state))
    assert states == ["STABILIZING", "START"] * 3


def test_keys_that_appear_later_do_not_hold_it_up():
    tracker = stable(window=1)
    execute(tracker, [10], keys=[1])
    assert len(execute(tracker, [10], keys=[2])) == 1


# Equation 1.


@pytest.mark.parametrize(
    "before, now, eta",
    [
        ([[10.0, 20.0]], [[10.0, 20.0]], 0.0),
        ([[10.0, 20.0]], [[13.0, 17.0]], 6 / 30),
        ([[10.0, 20.0], [30.0, NAN]], [[10.0, 20.0], [24.0, 99.0]], 6 / 60),
        ([[10.0, NAN]], [[10.0, NAN]], 0.0),
        ([[NAN, NAN]], [[1.0, NAN]], 0.0),
        ([[0.0, 0.0]], [[0.0, 0.0]], 0.0),
    ],
)
def test_relative_change_by_hand(before, now, eta):
    assert relative_change(np.array(before), np.array(now)) == pytest.approx(eta)


def test_matrices_of_zero_costs_are_stable():
    tracker = stable()
    execute(tracker, [0, 0])
    assert len(execute(tracker, [0, 0])) == 1


# Answers.


def test_answers_are_about_cumulated_time_and_survive_the_reset():
    tracker = stable()
    request = SyncRequest(instance=0, epoch=4, estimate_ms=25.0)
    execute(tracker, [10, 10, 10])
    matrices, answer = execute(tracker, [10], request)
    assert matrices.costs is not None
    assert answer == Feedback(0, epoch=4, delta_ms=15.0)
    assert execute(tracker, [3], request) == [Feedback(0, epoch=4, delta_ms=18.0)]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 64)), max_size=60),
    st.lists(st.integers(0, 60), max_size=6),
    st.integers(1, 7),
    st.sampled_from([0.05, 0.3]),
)
def test_batches_are_records_one_by_one(records, cuts, window, tolerance):
    keys, costs = ([r[i] for r in records] for i in range(2))
    batch, single = (WhenStable(3, CountMin(), window, tolerance) for _ in range(2))
    edges = sorted({0, len(records), *(c for c in cuts if c < len(records))})
    together = [
        m
        for start, stop in pairwise(edges)
        for m in execute(batch, costs[start:stop], keys=keys[start:stop])
    ]
    one_by_one = [
        m for k, c in zip(keys, costs, strict=True) for m in execute(single, [c], keys=[k])
    ]
    assert [m.costs.snapshot() for m in together] == [m.costs.snapshot() for m in one_by_one]
    assert batch.state == single.state
    assert batch.model.snapshot() == single.model.snapshot()
    asked = SyncRequest(3, epoch=1, estimate_ms=0.0)
    (answer,) = execute(batch, [], asked)
    assert answer.delta_ms == sum(costs)
    assert [answer] == execute(single, [], asked)


@pytest.mark.parametrize(
    "params, message",
    [
        ((-1, 2, 0.1), "instance must be >= 0; got -1"),
        ((0, 0, 0.1), "window must be >= 1; got 0"),
        ((0, 2, 0), "tolerance must be > 0; got 0"),
    ],
)
def test_bad_parameters(params, message):
    instance, window, tolerance = params
    with pytest.raises(PenstockError) as caught:
        WhenStable(instance, CountMin(), window, tolerance)
    assert str(caught.value) == message


# WhenAsked.


def test_when_asked_measures_until_it_is_asked():
    tracker = WhenAsked(2, SpaceSaving(capacity=8))
    assert tracker.state == "MEASURING"
    assert tracker.execute(np.array([1, 1]), np.array([4.0, 4.0]), 8.0) == []
    request = SyncRequest(2, epoch=0, estimate_ms=20.0)
    (answer,) = tracker.execute(np.array([2]), np.array([6.0]), 14.0, request)
    assert (answer.instance, answer.epoch, answer.delta_ms) == (2, 0, -6.0)
    assert answer.costs.estimate([1, 2]).tolist() == [4.0, 6.0]
    assert answer.costs.records == 3


def test_when_asked_tells_everything_once():
    tracker = WhenAsked(0, SpaceSaving(capacity=8))
    request = SyncRequest(0, epoch=0, estimate_ms=0.0)
    (first,) = tracker.execute(np.array([1]), np.array([4.0]), 4.0, request)
    (second,) = tracker.execute(np.array([2]), np.array([6.0]), 10.0, request)
    assert first.costs.keys().tolist() == [1]
    assert second.costs.keys().tolist() == [2]


def test_size_of_messages():
    costs = SpaceSaving(capacity=8)
    costs.update([1, 2], [1.0, 1.0])
    assert Feedback(0).message_bytes == 8
    assert Feedback(0, delta_ms=1.0).message_bytes == 16
    assert Feedback(0, costs, delta_ms=1.0).message_bytes == 16 + costs.message_bytes
    assert Feedback(0, CountMin()).message_bytes == 8 + 2 * 4 * 55 * 8


def test_an_empty_table_is_a_message_too():
    assert Feedback(0, SpaceSaving()).message_bytes == 8 + SpaceSaving().message_bytes
