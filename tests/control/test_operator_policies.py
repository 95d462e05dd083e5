"""A grouping and a shedder as one: who measures, what is learnt, what survives."""

import numpy as np
import pytest

from penstock.control import OperatorPolicies
from penstock.errors import PenstockError
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import KeyHash, Proactive, ProactiveAsPublished, RoundRobin
from penstock.policies.shedding import (
    LoadAware,
    LoadAwareAsPublished,
    MeanCost,
    Never,
    average,
)

TARGET = average("2 s")


def las(instances=2, **params):
    return LoadAware(TARGET, instances=instances, **params)


def message(instance, model=None, costs=((1, 10.0), (2, 2.0))):
    table = model or SpaceSaving(capacity=16)
    table.update([key for key, _ in costs], [cost for _, cost in costs])
    return Feedback(instance, table)


@pytest.mark.parametrize(
    "grouping, shedder, name",
    [
        (Proactive(2), None, "posg"),
        (RoundRobin(2), None, "round_robin"),
        (RoundRobin(2), Never(2), "round_robin"),
        (RoundRobin(2), MeanCost(TARGET, instances=2), "round_robin"),
        (RoundRobin(2), las(), "las"),
        (KeyHash(2), las(), "las"),
        (Proactive(2), las(), "posg"),
        (Proactive(2), MeanCost(TARGET, 1.0, 2), "posg"),
        (RoundRobin(1), LoadAwareAsPublished(TARGET), "las_as_published"),
    ],
)
def test_one_of_them_measures_for_all(grouping, shedder, name):
    assert OperatorPolicies(grouping, shedder).measuring.name == name


@pytest.mark.parametrize(
    "grouping, shedder, learns",
    [
        (RoundRobin(2), None, False),
        (RoundRobin(2), Never(2), False),
        (RoundRobin(2), MeanCost(TARGET, 1.0, 2), False),
        (RoundRobin(2), MeanCost(TARGET, instances=2), True),
        (RoundRobin(2), las(), True),
        (Proactive(2), Never(2), True),
    ],
)
def test_one_that_learns_is_enough(grouping, shedder, learns):
    assert OperatorPolicies(grouping, shedder).learns is learns


def test_all_are_in_the_order_of_routing_and_shedding():
    grouping, shedder = RoundRobin(2), las()
    assert OperatorPolicies(grouping).all == (grouping,)
    assert OperatorPolicies(grouping, shedder).all == (grouping, shedder)


@pytest.mark.parametrize(
    "grouping, shedder, message_",
    [
        (
            ProactiveAsPublished(2),
            las(),
            "shed: LoadAware learns from SpaceSaving(capacity=1024, seed=0, spread=False), which "
            "the grouping ProactiveAsPublished does not measure; use another shedder",
        ),
        (
            Proactive(1),
            LoadAwareAsPublished(TARGET),
            "shed: LoadAwareAsPublished learns from CountMin(epsilon=0.05, delta=0.1, seed=0), "
            "which the grouping Proactive does not measure; use another shedder",
        ),
    ],
)
def test_a_pair_that_cannot_learn_from_the_same_is_refused(grouping, shedder, message_):
    with pytest.raises(PenstockError) as caught:
        OperatorPolicies(grouping, shedder)
    assert str(caught.value) == message_


def test_matrices_of_the_same_precision_teach_both():
    both = OperatorPolicies(ProactiveAsPublished(1), LoadAwareAsPublished(TARGET))
    both.observe(message(0, both.measuring.measurements()))
    assert both.shedder.state == "SEND"


def test_matrices_of_different_precision_are_refused_at_once():
    with pytest.raises(PenstockError):
        OperatorPolicies(ProactiveAsPublished(1, epsilon=0.1), LoadAwareAsPublished(TARGET))


def test_tables_of_different_size_and_seed_teach_both():
    both = OperatorPolicies(Proactive(2, capacity=8, seed=3), las(capacity=100))
    for instance in (0, 1):
        both.observe(message(instance, both.measuring.measurements()))
    for one in both.all:
        np.testing.assert_allclose(one.expected_ms([1, 2]), [10.0, 2.0])


def test_clones_have_learnt_nothing():
    both = OperatorPolicies(Proactive(2, capacity=16), las(capacity=16))
    for instance in (0, 1):
        both.observe(message(instance))
    clone = both.clone()
    assert clone == OperatorPolicies(Proactive(2, capacity=16), las(capacity=16))
    assert (both.shedder.state, clone.shedder.state) == ("RUN", "NOP")
    more = both.clone(instances=5)
    assert [one.instances for one in more.all] == [5, 5]
    assert [one.instances for one in both.all] == [2, 2]
    assert OperatorPolicies(RoundRobin(2)).clone(instances=3) == OperatorPolicies(RoundRobin(3))


def test_what_a_policy_does_not_measure_it_is_not_told():
    both = OperatorPolicies(RoundRobin(2), las())
    both.observe(message(0))
    both.observe(message(1, costs=((1, 10.0),)))
    assert both.shedder.state == "RUN"
    beside = OperatorPolicies(Proactive(2), MeanCost(TARGET, instances=2))
    beside.observe(message(0, beside.measuring.measurements()))
    assert beside.shedder.state == "NOP"
    beside.observe(Feedback(0, records=10, busy_ms=20.0))
    assert beside.shedder.state == "RUN"


@pytest.mark.parametrize(
    "make",
    [
        lambda: OperatorPolicies(Proactive(2, capacity=16)),
        lambda: OperatorPolicies(Proactive(2, capacity=16), las(capacity=16)),
        lambda: OperatorPolicies(KeyHash(2), las(capacity=16)),
        lambda: OperatorPolicies(RoundRobin(2), MeanCost(TARGET, instances=2)),
    ],
)
def test_a_snapshot_brings_all_back(make):
    learnt = make()
    for instance in (0, 1):
        learnt.observe(message(instance, learnt.measuring.measurements()))
        learnt.observe(Feedback(instance, waited_ms=9.0, records=3, planned_ms=6.0, busy_ms=30.0))
    other = make()
    other.restore(learnt.snapshot())
    assert other.snapshot() == learnt.snapshot()
    assert [one.state for one in other.all] == [one.state for one in learnt.all]
    one, again = learnt.all[-1], other.all[-1]
    assert one.expected_ms([1]) > 0
    np.testing.assert_array_equal(one.expected_ms([1, 2, 3]), again.expected_ms([1, 2, 3]))


def test_snapshots_of_others_are_refused():
    alone, both = (
        OperatorPolicies(Proactive(2, capacity=16)),
        OperatorPolicies(Proactive(2, capacity=16), las()),
    )
    for policies, wrong in (
        (alone, both.snapshot()),
        (both, alone.snapshot()),
        (both, OperatorPolicies(RoundRobin(2), las()).snapshot()),
        (both, OperatorPolicies(Proactive(2, capacity=16), Never(2)).snapshot()),
        (both, both.snapshot()[:-1]),
        (both, b""),
    ):
        with pytest.raises(PenstockError):
            policies.restore(wrong)


def test_resize_reaches_all():
    both = OperatorPolicies(Proactive(2, capacity=16), las(capacity=16))
    for instance in (0, 1):
        both.observe(message(instance))
    both.resize(3)
    assert [one.instances for one in both.all] == [3, 3]
    for one in both.all:
        np.testing.assert_allclose(one.expected_ms([1, 2]), [10.0, 2.0])
    assert CountMin not in {type(one.measurements()) for one in both.all}


def test_warming_up_teaches_nothing():
    both = OperatorPolicies(Proactive(2, capacity=16), las(capacity=16))
    before = both.snapshot()
    both.warm_up()
    assert both.snapshot() == before
