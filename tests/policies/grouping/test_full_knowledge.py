"""Full Knowledge: the example of section II, true finish times, true slowdowns."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.costs import Exact
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import FullKnowledge, RoundRobin
from penstock.sim import Stream, Synthetic, simulate

COSTS = Exact(keys=[1, 2], costs_ms=[10_000.0, 1_000.0])


def test_example_of_section_ii():
    stream = Stream.of([1, 2, 1], [10_000.0, 1_000.0, 10_000.0]).every(interval_ms=1_000.0)
    assert simulate(RoundRobin(2), stream).completion_ms.sum() == 29_000
    assert simulate(FullKnowledge(2, COSTS), stream).completion_ms.sum() == 21_000


@pytest.mark.parametrize("slowdown", [(1.0, 1.0, 1.0), (0.5, 1.0, 3.0)])
def test_its_clocks_are_the_true_ones(slowdown):
    stream = Synthetic(records=2_000).stream(3).provisioned(3, 1.02)
    grouping = FullKnowledge(3, stream.exact_costs())
    result = simulate(grouping, stream, slowdowns=[(0, slowdown)])
    finished = np.zeros(3)
    for i, chosen in enumerate(result.instances):
        assert finished[chosen] == finished.min()
        finished[chosen] = stream.arrivals_ms[i] + result.completion_ms[i]


def test_slowdowns_are_told():
    grouping = FullKnowledge(2, COSTS)
    assert grouping.knows_truth
    grouping.observe(Feedback(1, slowdown=20.0))
    assert grouping.route([1, 2, 2, 2], [0.0] * 4).tolist() == [0, 1, 0, 0]
    grouping.observe(Feedback(0))  # says nothing
    assert grouping.route([2]).tolist() == [0]


def test_resize_starts_new_instances_idle():
    grouping = FullKnowledge(2, COSTS)
    grouping.observe(Feedback(1, slowdown=2.0))
    grouping.route([1, 1])
    grouping.resize(3)
    assert grouping.route([2]).tolist() == [2]
    grouping.resize(1)
    assert grouping.route([2, 2]).tolist() == [0, 0]
    grouping.resize(2)
    # The removed instance and its slowdown are forgotten.
    assert grouping.route([1, 1]).tolist() == [1, 1]


def test_messages_of_removed_instances_are_dropped():
    grouping = FullKnowledge(3, COSTS)
    grouping.resize(2)
    before = grouping.snapshot()
    grouping.observe(Feedback(2, slowdown=9.0))
    assert grouping.snapshot() == before


def test_unknown_keys_are_refused():
    with pytest.raises(PenstockError, match="keys must be known to Exact; got 3"):
        FullKnowledge(2, COSTS).route([1, 3])
