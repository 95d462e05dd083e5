"""Policies whose costs follow sizes: routing, shedding, snapshots, and both simulators."""

import numpy as np
import pytest

from penstock.control import OperatorPolicies
from penstock.errors import PenstockError
from penstock.policies.costs import BySize, SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Factoring, Proactive
from penstock.policies.shedding import LoadAware, each_record
from penstock.sim import BySizes, Overheads, Worker, simulate, simulate_batches


def taught(policy, instances=2):
    """A policy that knows that a unit of size costs a millisecond."""
    measuring = policy.measuring if isinstance(policy, OperatorPolicies) else policy
    for instance in range(instances):
        measured = measuring.measurements()
        sizes = np.arange(40.0)
        measured.update(np.zeros(40, dtype=np.int64), 1 + sizes, sizes)
        policy.observe(Feedback(instance, measured))
    return policy


@pytest.mark.parametrize("kind", [Proactive, Factoring])
def test_records_that_arrive_together_are_balanced_by_size(kind):
    grouping = taught(kind(2, sized=True))
    assert isinstance(grouping.measurements(), BySize)
    grouping.begin(0)
    keys, sizes = np.zeros(4, dtype=np.int64), np.array([3.0, 1.0, 1.0, 1.0]) * 1_000
    tasks = grouping.route_together(keys, sizes)
    assert (tasks == tasks[0]).tolist() == [True, False, False, False]


def test_single_records_are_balanced_by_size():
    grouping = taught(Proactive(2, sized=True))
    keys, sizes = np.zeros(4, dtype=np.int64), np.array([300.0, 100.0, 90.0, 50.0])
    assert grouping.route(keys, np.zeros(4), sizes).tolist() == [0, 1, 1, 1]


def test_large_records_are_shed_first_by_size():
    shedder = taught(LoadAware(each_record("50 ms"), keep="cheap", sized=True), instances=1)
    shedder.begin(0.0)
    keys, now = np.zeros(4, dtype=np.int64), np.zeros(4)
    admitted = shedder.admit_together(keys, now, now, sizes=np.array([500.0, 10.0, 9.0, 8.0]))
    assert admitted[1:].all()
    assert np.allclose(shedder.expected_ms([0, 0], [10.0, 99.0]), [11, 100], rtol=1e-4)


@pytest.mark.parametrize("kind", [Proactive, Factoring])
def test_snapshots_have_lines_and_old_ones_are_refused(kind):
    learnt, fresh = taught(kind(2, sized=True)), kind(2, sized=True)
    fresh.restore(learnt.snapshot())
    assert np.allclose(fresh.expected_ms([0], [500.0]), [501.0], rtol=1e-4)
    with pytest.raises(PenstockError, match=r"does not fit.*line.*other parameters"):
        fresh.restore(taught_without_sizes(kind(2)).snapshot())
    without = kind(2)
    without.restore(learnt.snapshot())
    assert without.expected_ms([0]) == pytest.approx([20.5], rel=0.01)


def taught_without_sizes(policy):
    measured = policy.measurements()
    assert type(measured) is SpaceSaving
    measured.update([0], [3.0])
    policy.observe(Feedback(0, measured))
    return policy


def test_a_sized_grouping_and_a_shedder_without_sizes_learn_from_the_same_messages():
    both = OperatorPolicies(Proactive(2, sized=True), LoadAware(each_record("50 ms"), instances=2))
    taught(both)
    assert both.shedder.expected_ms([0]) == pytest.approx([20.5], rel=0.01)
    other = OperatorPolicies(Proactive(2, sized=True), LoadAware(each_record("50 ms"), instances=2))
    other.restore(both.snapshot())
    assert np.allclose(other.grouping.expected_ms([0], [99.0]), [100.0], rtol=1e-4)


def test_micro_batches_by_size_are_shorter():
    stream = BySizes(records=12_000).stream(seed=1)
    durations = [
        simulate_batches(
            Factoring(8, tail=0, capacity=256, sized=sized),
            stream,
            records=200,
            workers=[Worker()] * 8,
            overheads=Overheads(task_ms=5.0),
        ).to_ideal(skip=30)
        for sized in (False, True)
    ]
    assert durations[1] < 0.93 * durations[0]


def test_records_one_by_one_are_done_earlier_by_size():
    stream = BySizes(records=10_000, shape=2.2).stream(seed=2).provisioned(4, 1.05)
    means = [
        simulate(Proactive(4, sized=sized), stream).completion_ms.mean() for sized in (False, True)
    ]
    assert means[1] < means[0]
    shedder = LoadAware(each_record("100 ms"), instances=4, sized=True)
    result = simulate(Proactive(4, sized=True), stream, shedder=shedder)
    assert result.completion_ms.size
