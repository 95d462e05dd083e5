"""POSG word by word: Figure 3 and Listing III.2, with a plain twin."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import ProactiveAsPublished
from penstock.policies.hashing import HashFamily
from penstock.sim import Synthetic, simulate

RECORDS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 64)), min_size=1, max_size=12)


def matrices(records, **params):
    model = CountMin(**params)
    model.update([key for key, _ in records], [float(cost) for _, cost in records])
    return model


def step(grouping, key=1):
    """Route one record: where it goes, and what it carries."""
    routed = grouping.route_until_answer(np.array([key]), np.array([0.0]))
    return int(routed.instances[0]), routed.request


def synchronised(told, deltas, **params):
    """A grouping in RUN: matrices received, all asked, all answered."""
    grouping = ProactiveAsPublished(len(told), **params)
    for instance, records in enumerate(told):
        grouping.observe(Feedback(instance, matrices(records)))
    for _ in told:
        step(grouping)
    for instance, delta in enumerate(deltas):
        grouping.observe(Feedback(instance, epoch=1, delta_ms=float(delta)))
    assert grouping.state == "RUN"
    return grouping


class PlainListing:
    """Listing III.2 with dictionaries of cells; an unseen key costs 0."""

    def __init__(self, told, deltas):
        self.hashes = HashFamily(rows=4, width=55, seed=0)
        self.cells = [{} for _ in told]
        for cells, records in zip(self.cells, told, strict=True):
            for key, cost in records:
                for cell in self.cells_of(key):
                    count, total = cells.get(cell, (0, 0.0))
                    cells[cell] = count + 1, total + cost
        self.clocks = [self.cost(1, op) + delta for op, delta in enumerate(deltas)]

    def cells_of(self, key):
        return list(enumerate(self.hashes.hash([key])[:, 0].tolist()))

    def cost(self, key, op):
        count, total = min(
            (self.cells[op].get(cell, (0, 0.0)) for cell in self.cells_of(key)),
            key=lambda cell: cell[0],
        )
        return total / count if count else 0.0

    def submit(self, key):
        op = self.clocks.index(min(self.clocks))
        self.clocks[op] += self.cost(key, op)
        return op


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(RECORDS, st.integers(-50, 50)), min_size=1, max_size=4),
    st.lists(st.integers(0, 12), max_size=40),
)
def test_run_is_listing_iii_2(told_and_deltas, keys):
    told, deltas = zip(*told_and_deltas, strict=True)
    grouping, twin = synchronised(told, deltas), PlainListing(told, deltas)
    assert grouping.route(keys).tolist() == [twin.submit(key) for key in keys]


def test_round_robin_then_send_all_then_wait_all_then_run():
    grouping = ProactiveAsPublished(3)
    assert [step(grouping) for _ in range(4)] == [(0, None), (1, None), (2, None), (0, None)]
    for instance in (2, 0):
        grouping.observe(Feedback(instance, matrices([(1, 10)])))
    # Still in turn, and nothing is counted, although the cost on 2 is known.
    assert [step(grouping) for _ in range(2)] == [(1, None), (2, None)]
    assert (grouping.state, grouping.running) == ("ROUND ROBIN", False)
    grouping.observe(Feedback(1, matrices([(1, 10)])))
    assert (grouping.state, grouping.running) == ("SEND ALL", False)
    # In turn from 0 on; the estimate includes the record that carries it.
    for expected in range(3):
        instance, request = step(grouping)
        assert (instance, request.instance) == (expected, expected)
        assert (request.epoch, request.estimate_ms) == (1, 10.0)
    assert (grouping.state, grouping.running) == ("WAIT ALL", True)
    assert [step(grouping) for _ in range(3)] == [(0, None), (1, None), (2, None)]
    for instance, delta in enumerate((30.0, 0.0, 5.0)):
        assert (grouping.state, grouping.running) == ("WAIT ALL", True)
        grouping.observe(Feedback(instance, epoch=1, delta_ms=delta))
    assert (grouping.state, grouping.running) == ("RUN", True)
    # 50, 20, 25: differences were applied to what has been given since, too.
    assert [step(grouping)[0] for _ in range(4)] == [1, 2, 1, 2]


def test_new_matrices_synchronise_again_and_old_answers_are_dropped():
    grouping = synchronised([[(1, 10)], [(1, 10)]], [0, 0])
    grouping.observe(Feedback(0, matrices([(1, 30)])))
    assert grouping.state == "SEND ALL"
    first, second = step(grouping)[1], step(grouping)[1]
    assert (first.epoch, first.estimate_ms) == (2, 40.0)
    assert (second.epoch, second.estimate_ms) == (2, 20.0)
    for instance in (0, 1):
        grouping.observe(Feedback(instance, epoch=1, delta_ms=1e9))
    assert grouping.state == "WAIT ALL"
    for instance in (0, 1):
        assert grouping.state == "WAIT ALL"
        grouping.observe(Feedback(instance, epoch=2, delta_ms=0.0))
    assert grouping.state == "RUN"
    assert step(grouping)[0] == 1


def test_unseen_keys_cost_nothing():
    grouping = synchronised([[(1, 10)], [(1, 10)]], [0, 1])
    assert grouping.route([77] * 5).tolist() == [0] * 5
    assert grouping.route([1, 1]).tolist() == [0, 1]


def test_the_time_of_arrival_is_ignored():
    told, deltas = [[(1, 10), (2, 1)], [(1, 10), (2, 1)]], [0, 0]
    keys = [1, 2, 1, 2, 2, 1]
    late = np.arange(6) * 1e6
    np.testing.assert_array_equal(
        synchronised(told, deltas).route(keys), synchronised(told, deltas).route(keys, late)
    )


def test_windows_end_at_records_that_may_be_answered():
    grouping = ProactiveAsPublished(2, window=3)
    keys, now = np.ones(20, dtype=np.int64), np.zeros(20)
    sizes = []
    while keys.size:
        routed = grouping.route_until_answer(keys, now)
        assert routed.request is None
        sizes.append((routed.instances.size, routed.answerable))
        keys, now = keys[routed.instances.size :], now[routed.instances.size :]
    # The third record of 0, then the third of 1, and so on.
    assert sizes == [(5, True), (1, True), (5, True), (1, True), (5, True), (1, True), (2, False)]


def test_resize_starts_anew():
    grouping = synchronised([[(1, 10)], [(1, 10)]], [0, 0])
    grouping.resize(3)
    assert grouping.state == "ROUND ROBIN"
    assert grouping.snapshot() == ProactiveAsPublished(3).snapshot()


def test_messages_of_removed_instances_are_dropped():
    grouping = ProactiveAsPublished(3)
    grouping.resize(2)
    grouping.observe(Feedback(2, matrices([(1, 10)])))
    grouping.observe(Feedback(2, epoch=0, delta_ms=5.0))
    assert grouping.snapshot() == ProactiveAsPublished(2).snapshot()


def test_other_cost_models_are_refused():
    with pytest.raises(PenstockError, match=r"costs must be CountMin; got SpaceSaving\("):
        ProactiveAsPublished(2).observe(Feedback(0, SpaceSaving()))


@pytest.mark.parametrize("params", [{"epsilon": 0.1}, {"delta": 0.01}, {"seed": 1}])
def test_matrices_of_other_parameters_are_refused(params):
    with pytest.raises(PenstockError):
        ProactiveAsPublished(2).observe(Feedback(0, matrices([(1, 10)], **params)))


def test_a_whole_run_visits_the_states_of_figure_3():
    stream = Synthetic(exponent=1.5).stream(0).provisioned(3)
    result = simulate(ProactiveAsPublished(3, tolerance=0.1), stream)
    states = [change.state for change in result.changes if change.who == "scheduler"]
    assert states[:4] == ["ROUND ROBIN", "SEND ALL", "WAIT ALL", "RUN"]
    follows = {"SEND ALL": {"WAIT ALL"}, "WAIT ALL": {"RUN", "SEND ALL"}, "RUN": {"SEND ALL"}}
    assert all(b in follows[a] for a, b in pairwise(states[1:]))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"window": 0}, "window must be >= 1; got 0"),
        ({"tolerance": 0}, "tolerance must be > 0; got 0"),
        ({"epsilon": 1}, "epsilon must be in (0, 1); got 1"),
        ({"delta": 0}, "delta must be in (0, 1); got 0"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        ProactiveAsPublished(2, **params)
    assert str(caught.value) == message
