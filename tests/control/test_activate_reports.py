"""Fewer instances, and more again: what reports count, and what they teach."""

import numpy as np
import pytest
from active_instances import TARGET, begin, executed, measured, routed, router_of

from penstock.control import OperatorPolicies
from penstock.control.utilization import Utilization
from penstock.policies.grouping import Consistent, Proactive, RoundRobin
from penstock.policies.shedding import LoadAware, MeanCost


@pytest.fixture
def policies():
    return OperatorPolicies(Proactive(4, capacity=16))


@pytest.fixture
def controller(policies):
    return begin(policies)


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
