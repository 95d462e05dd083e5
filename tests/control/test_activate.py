"""Fewer instances, and more again: what routers are told, and what is kept."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from active_instances import LEARNING, TARGET, begin, ids, measured, router_of

from penstock.control import OperatorPolicies
from penstock.control.snapshots import Snapshot, read_pin
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping, KeyHash, Proactive, RoundRobin
from penstock.policies.shedding import LoadAware, MeanCost, Never


@pytest.fixture
def policies():
    return OperatorPolicies(Proactive(4, capacity=16))


@pytest.fixture
def controller(policies):
    return begin(policies)


# Which instances get records.


def test_all_are_active_at_first(controller):
    assert controller.active == controller.instances == 4
    assert controller.snapshot("1").active == 4
    assert controller.stats().active == 4


@pytest.mark.parametrize("policies", LEARNING, ids=ids)
@pytest.mark.parametrize("active", [1, 2, 3])
@pytest.mark.parametrize("learnt", [False, True])
def test_routers_are_told_how_many_get_records(policies, active, learnt):
    controller = begin(policies)
    if learnt:
        for instance in range(4):
            controller.observe(measured(policies, instance))
    controller.activate(active)
    snapshot = controller.snapshot("2")
    assert snapshot.active == controller.active == controller.stats().active == active
    assert controller.instances == len(controller.stats().instances) == 4
    router = router_of(policies, snapshot)
    assert [one.instances for one in router.all] == [active] * len(router.all)
    keys = np.arange(200)
    router.grouping.begin(3)
    assert set(router.grouping.route_together(keys)) == set(range(active))


@pytest.mark.parametrize("policies", LEARNING, ids=ids)
def test_instances_come_back(policies):
    controller = begin(policies)
    for instance in range(4):
        controller.observe(measured(policies, instance))
    for active in (1, 3, 2, 4):
        controller.activate(active)
        router = router_of(policies, controller.snapshot(f"with {active}"))
        router.grouping.begin(0)
        assert set(router.grouping.route_together(np.arange(200))) == set(range(active))


@pytest.mark.parametrize(
    "instances, expected", [(0, 1), (-3, 1), (1, 1), (4, 4), (5, 4), (1_000, 4)]
)
def test_there_is_one_at_least_and_there_are_no_more_than_tasks(controller, instances, expected):
    controller.activate(instances)
    assert controller.active == controller.snapshot("1").active == expected


def test_costs_stay_learnt(controller, policies):
    for instance in range(4):
        controller.observe(measured(policies, instance))
    for active in (2, 4):
        controller.activate(active)
        router = router_of(policies, controller.snapshot(f"with {active}"))
        np.testing.assert_allclose(router.grouping.expected_ms([1, 2]), [10.0, 2.0])


def test_a_batch_keeps_the_number_it_began_with(controller, policies):
    for instance in range(4):
        controller.observe(measured(policies, instance, "0"))
    before = controller.snapshot("1")
    controller.activate(2)
    assert controller.snapshot("1") == before
    assert controller.snapshot("1").active == 4
    after = controller.snapshot("2")
    assert after.active == 2
    assert after.version != before.version
    controller.activate(4)
    assert [controller.snapshot(batch).active for batch in "123"] == [4, 2, 4]
    versions = {controller.snapshot(batch).version for batch in "123"}
    assert len(versions) == 3


def test_the_same_number_is_no_news(controller):
    version, entries = controller.snapshot("1").version, len(controller.journal.entries())
    controller.unsaved = False
    controller.activate(4)
    controller.activate(99)
    assert len(controller.journal.entries()) == entries
    assert controller.snapshot("2").version == version
    assert not controller.unsaved


def test_another_number_is_in_the_journal_and_to_be_saved(controller):
    controller.activate(2)
    entry = controller.journal.entries()[-1]
    assert (entry["kind"], entry["operator"]) == ("plan", "enrich")
    assert entry["reason"] == "4 -> 2 active instances"
    assert controller.unsaved
    controller.snapshot("1")
    assert controller.journal.entries()[-1]["reason"].startswith("2 instances")


@pytest.mark.parametrize(
    "policies",
    [
        OperatorPolicies(RoundRobin(4)),
        OperatorPolicies(KeyHash(4)),
        OperatorPolicies(RoundRobin(4), Never(4)),
        OperatorPolicies(RoundRobin(4), MeanCost(TARGET, 1.0, 4)),
    ],
    ids=ids,
)
def test_what_does_not_learn_goes_on_with_all(policies):
    controller = begin(policies)
    entries = len(controller.journal.entries())
    controller.activate(2)
    assert controller.active == controller.snapshot("1").active == 4
    assert len(controller.journal.entries()) == entries + 1  # of the batch
    assert set(router_of(policies, controller.snapshot("1")).grouping.route(np.arange(200))) == set(
        range(4)
    )


def test_every_grouping_can_be_asked():
    for cls in Grouping.registered().values():
        if "costs" in inspect.signature(cls).parameters:
            continue  # the yardstick
        policies = OperatorPolicies(cls(instances=4))
        controller = begin(policies)
        controller.activate(3)
        assert controller.active == (3 if policies.learns else 4)
        router = router_of(policies, controller.snapshot("1"))
        router.grouping.begin(0)
        chosen = router.grouping.route_together(np.arange(500))
        assert set(range(controller.active)) <= set(chosen.tolist())
        assert chosen.max() < router.grouping.tasks == router.grouping.clone().tasks
        assert router.grouping.tasks >= router.grouping.instances == controller.active


def test_policies_are_those_of_the_user_no_more(policies, controller):
    controller.activate(2)
    assert policies.grouping.instances == 4
    assert policies.sized(4) is policies
    assert policies.sized(2) == OperatorPolicies(Proactive(2, capacity=16))
    assert policies.sized(2).sized(4) == policies
    with pytest.raises(PenstockError):
        policies.sized(0)


# What is kept.


@pytest.mark.parametrize("policies", LEARNING, ids=ids)
@pytest.mark.parametrize("saved_with", [1, 2, 4])
@pytest.mark.parametrize("loaded_with", [1, 3, 4])
def test_what_was_learnt_survives_with_any_active_number(policies, saved_with, loaded_with):
    controller = begin(policies)
    for instance in range(4):
        controller.observe(measured(policies, instance))
    controller.activate(saved_with)
    resumed = begin(policies)
    resumed.activate(loaded_with)
    resumed.load(controller.save())
    assert resumed.active == resumed.snapshot("1").active == loaded_with
    router = router_of(policies, resumed.snapshot("1"))
    learner = router.measuring
    if isinstance(learner, Proactive | LoadAware):
        np.testing.assert_allclose(learner.expected_ms([1, 2]), [10.0, 2.0])
    router.grouping.begin(0)
    assert set(router.grouping.route_together(np.arange(200))) == set(range(loaded_with))


@pytest.mark.parametrize("instances", [1, 2, 6])
def test_what_some_have_learnt_is_taken_over_by_another_operator(controller, policies, instances):
    for instance in range(4):
        controller.observe(measured(policies, instance))
    controller.activate(3)
    resumed = begin(policies.clone(instances))
    resumed.load(controller.save())
    assert resumed.active == resumed.instances == instances
    router = router_of(policies.clone(instances), resumed.snapshot("1"))
    np.testing.assert_allclose(router.grouping.expected_ms([1, 2]), [10.0, 2.0])


@pytest.mark.parametrize("policies", LEARNING, ids=ids)
def test_after_a_restart_a_batch_goes_to_as_many_as_before(policies):
    kept = []
    controller = begin(policies, kept.append)
    for instance in range(4):
        controller.observe(measured(policies, instance, "0"))
    controller.activate(2)
    before = controller.snapshot("7")
    assert read_pin(kept[-1])[1].active == 2

    resumed = begin(policies)
    resumed.load_pin(kept[-1])
    resumed.load(controller.save())
    again = resumed.snapshot("7")
    assert replace(again, version=0) == replace(before, version=0)
    assert router_of(policies, again).grouping.instances == 2
    assert resumed.snapshot("8").active == 4


def test_a_pin_of_before_there_were_active_instances_is_of_all(controller, policies):
    snapshot = controller.snapshot("1")
    header = snapshot.header()
    del header["active"]
    old = Snapshot.of(header, snapshot.packed)
    assert old.active is None
    resumed = begin(policies)
    resumed.load_pin(old.pin("1"))
    assert router_of(policies, resumed.snapshot("1")).grouping.instances == 4
    with pytest.raises(PenstockError):
        begin(policies.clone(3)).load_pin(old.pin("1"))


def test_a_pin_for_more_instances_than_there_are_is_refused(policies):
    kept = []
    begin(policies, kept.append).snapshot("7")
    fewer = begin(policies.clone(2))
    with pytest.raises(PenstockError, match="for 4 instances, and there are 2"):
        fewer.load_pin(kept[0])
    assert fewer.snapshot("7").active == 2


def test_a_pin_for_fewer_instances_than_there_are_is_kept(policies):
    kept = []
    controller = begin(policies, kept.append)
    controller.activate(2)
    controller.snapshot("7")
    more = begin(policies.clone(6))
    more.load_pin(kept[0])
    assert [more.snapshot(batch).active for batch in "78"] == [2, 6]
