"""Fewer instances, and more again: what routers are told, what is learnt, counted and kept."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack_costs
from penstock.control.snapshots import Snapshot, read_pin
from penstock.control.utilization import Utilization
from penstock.errors import PenstockError
from penstock.policies.grouping import (
    Consistent,
    Grouping,
    KeyHash,
    Proactive,
    ProactiveAsPublished,
    RoundRobin,
)
from penstock.policies.shedding import LoadAware, MeanCost, Never, average

TARGET = average("2 s")
LEARNING = [
    OperatorPolicies(Proactive(4, capacity=16)),
    OperatorPolicies(ProactiveAsPublished(4)),
    OperatorPolicies(Consistent(4)),
    OperatorPolicies(RoundRobin(4), LoadAware(TARGET, instances=4, capacity=16)),
    OperatorPolicies(Proactive(4, capacity=16), LoadAware(TARGET, instances=4, capacity=16)),
    OperatorPolicies(RoundRobin(4), MeanCost(TARGET, instances=4)),
]


def ids(policies):
    return "+".join(one.name for one in policies.all)


def routed(records, shed=0, batch="1", router=0, **more):
    return RouterReport(TaskId("op", "query", batch, router), records, 1.0, 0.0, shed=shed, **more)


def executed(instance, records=2, batch="1", busy_ms=5.0, executor="0", costs=b""):
    place = TaskId("op", "query", batch, instance)
    return ExecutionReport(place, records, records, busy_ms, executor, costs)


def measured(policies, instance, batch="1", costs=((1, 10.0), (2, 2.0))):
    keys, costs_ms = zip(*costs, strict=True)
    total_ms = float(sum(costs_ms))
    tracker = policies.measuring.tracker(instance)
    if tracker is None:
        return executed(instance, len(keys), batch, total_ms)
    tracker.execute(np.array(keys), np.array(costs_ms), total_ms)
    packed = pack_costs(tracker.finish())
    return executed(instance, len(keys), batch, total_ms, costs=packed)


def begin(policies, keep=None):
    return Controller("enrich", "query", policies, journal=Journal(), keep=keep)


def router_of(policies, snapshot):
    """The policies of a router that was made for all instances."""
    found = policies.clone().sized(snapshot.active_of(policies.grouping.instances))
    found.restore(snapshot.data)
    return found


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


# Reports.


def test_reports_of_removed_instances_count_but_teach_nothing(controller, policies):
    for instance in range(4):
        controller.observe(measured(policies, instance))
    controller.activate(2)
    before = controller.save()
    for instance in (2, 3):
        controller.observe(measured(policies, instance, "2", costs=((1, 500.0), (2, 500.0))))
    assert controller.save() == before
    stats = controller.stats()
    assert stats.processed == stats.emitted == 2 * 6
    assert [one.busy_ms for one in stats.instances] == [12.0, 12.0, 1_012.0, 1_012.0]
    work = controller.work()
    assert (work.processed, work.emitted, work.busy_ms) == (12, 12, 2_048)


def test_it_goes_on_learning_from_those_that_stay(controller, policies):
    for instance in range(4):
        controller.observe(measured(policies, instance))
    controller.activate(2)
    for instance in range(4):
        controller.observe(measured(policies, instance, "2", costs=((3, 7.0),)))
    router = router_of(policies, controller.snapshot("3"))
    np.testing.assert_allclose(router.grouping.expected_ms([3]), [7.0])
    assert controller.stats().state == "RUN"


def test_who_was_never_heard_of_is_not_waited_for_any_more(controller, policies):
    for instance in (0, 1):
        controller.observe(measured(policies, instance))
    assert controller.stats().state != "RUN"
    controller.activate(2)
    controller.observe(measured(policies, 0, "2"))
    assert controller.stats().state == "RUN"


def test_removed_instances_that_come_back_teach_again(controller, policies):
    for instance in range(4):
        controller.observe(measured(policies, instance))
    controller.activate(2)
    controller.activate(4)
    controller.observe(measured(policies, 3, "2", costs=((5, 9.0),)))
    router = router_of(policies, controller.snapshot("3"))
    np.testing.assert_allclose(router.grouping.expected_ms([5]), [9.0])


def test_work_is_what_all_have_done(controller, policies):
    assert controller.work().processed == controller.work().busy_ms == 0
    controller.observe(routed(4))
    controller.observe(executed(0, 3, busy_ms=30.0))
    controller.observe(executed(3, 1, busy_ms=5.0))
    work = controller.work()
    assert (work.processed, work.emitted, work.busy_ms) == (4, 4, 35)


def test_what_routers_have_told_of_a_batch_is_known_before_it_ends(controller):
    assert controller.received("1") == (0, None)
    began_s = controller.snapshot("2").began_s
    controller.observe(routed(40))
    controller.observe(routed(2, router=1))
    controller.observe(routed(2, router=1))  # it was run again
    controller.observe(routed(7, batch="2"))
    assert [controller.received(batch) for batch in "123"] == [(42, None), (7, began_s), (0, None)]
    for batch in range(3, 30):
        controller.observe(routed(1, batch=str(batch)))
    assert controller.received("1") == (0, None)  # too old
    assert controller.received("29") == (1, None)


def test_imbalance_is_that_of_those_that_got_records(controller):
    controller.activate(2)
    controller.snapshot("1")
    controller.observe(routed(2))
    for instance, busy_ms in enumerate((30.0, 10.0)):
        controller.observe(executed(instance, 1, busy_ms=busy_ms))
    assert controller.stats().imbalance == pytest.approx(0.5)


def test_imbalance_of_a_batch_that_began_before(controller):
    controller.snapshot("1")
    controller.activate(2)
    controller.observe(routed(4))
    for instance, busy_ms in enumerate((40.0, 20.0, 10.0, 10.0)):
        controller.observe(executed(instance, 1, busy_ms=busy_ms))
    assert controller.stats().imbalance == pytest.approx(1.0)
    controller.snapshot("2")
    controller.observe(routed(2, batch="2"))
    for instance, busy_ms in enumerate((40.0, 20.0)):
        controller.observe(executed(instance, 1, "2", busy_ms=busy_ms))
    assert controller.stats().imbalance == pytest.approx(1 / 3)


def test_nothing_is_told_of_use_in_batches_with_another_number():
    policies = OperatorPolicies(Consistent(4))
    controller = begin(policies)
    for batch in range(12):
        controller.snapshot(str(batch))
        for instance in range(4):
            controller.observe(executed(instance, 1_000, str(batch), 10.0, str(instance)))
    controller.snapshot("last of four")
    controller.activate(2)
    before = controller.save()
    for instance in range(4):
        controller.observe(executed(instance, 1_000, "last of four", 10.0 + 90 * (instance == 3)))
    assert controller.save() == before


def test_use_of_those_that_stay_is_told_whatever_others_do():
    use = Utilization(4)
    for batch in range(8):
        for instance in range(4):
            # Those that get nothing wander.
            use.ran(instance, str(instance) if instance < 2 else f"{batch}")
    told = use.of_batch(np.array([30.0, 10.0]), records_per_batch=1_000)
    assert [one.utilization for one in told] == pytest.approx([1.2, 0.4])
    assert use.of_batch(np.array([30.0, 10.0, 0.0, 0.0]), records_per_batch=1_000) == []
    assert use.of_batch(np.zeros(2), records_per_batch=1_000) == []
    assert use.of_batch(np.array([30.0, 10.0]), records_per_batch=99) == []


# With a shedder.


def test_a_shedder_follows_and_nothing_is_lost():
    policies = OperatorPolicies(RoundRobin(4), LoadAware(TARGET, instances=4, capacity=16))
    controller = begin(policies)
    for batch, active in enumerate((4, 2, 2, 3, 4, 1), start=1):
        controller.activate(active)
        assert controller.snapshot(str(batch)).active == active
        controller.observe(routed(10, shed=10 - 2 * active, batch=str(batch)))
        for instance in range(4):
            report = measured(policies, instance, str(batch))
            controller.observe(
                report if instance < active else executed(instance, 0, str(batch), 0.0)
            )
    stats = controller.stats()
    assert stats.received == stats.processed + stats.shed == 60
    assert stats.batches == 6
    assert stats.state == "RUN"
    router = router_of(policies, controller.snapshot("7"))
    np.testing.assert_allclose(router.shedder.expected_ms([1, 2]), [10.0, 2.0])
    assert router.shedder.instances == 1


def mean_cost_after(controller, batch="1"):
    """What a batch of 40 records of 1 ms teaches, if four instances share it."""
    controller.observe(routed(40, batch=batch, planned_ms=1.0))
    for instance in range(4):
        controller.observe(executed(instance, 10, batch, 10.0))
    return controller._policies.shedder.expected_ms([1])[0]


@pytest.mark.parametrize("active", [4, 2])
def test_mean_costs_are_right_with_any_number(active):
    controller = begin(OperatorPolicies(RoundRobin(4), MeanCost(TARGET, instances=4)))
    controller.activate(active)
    controller.snapshot("1")
    controller.observe(routed(40, planned_ms=1.0))
    for instance in range(4):
        share = 40 // active if instance < active else 0
        controller.observe(executed(instance, share, "1", float(share)))
    assert controller._policies.shedder.expected_ms([1])[0] == pytest.approx(1.0)


def test_a_batch_under_way_during_a_change_teaches_the_right_mean_cost():
    controller = begin(OperatorPolicies(RoundRobin(4), MeanCost(TARGET, instances=4)))
    controller.snapshot("1")
    controller.activate(2)
    assert mean_cost_after(controller) == pytest.approx(1.0)


def test_a_batch_that_was_routed_without_the_driver_teaches_the_right_mean_cost():
    controller = begin(OperatorPolicies(RoundRobin(4), MeanCost(TARGET, instances=4)))
    controller.activate(2)
    assert mean_cost_after(controller) == pytest.approx(1.0)


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
