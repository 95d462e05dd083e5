"""Shedding in front of operators that report nothing: finished batches count and teach."""

import math

import pytest
from shed_reports import TARGET, in_front, published, routed, warnings_of

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, RouterReport, TaskId
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import LoadAware, MeanCost


def test_a_finished_batch_teaches_the_mean_cost():
    controller = in_front()
    policies = OperatorPolicies(RoundRobin(1), MeanCost(TARGET))
    assert published(controller, "1", policies).shedder.state == "NOP"
    controller.observe(routed(100, 0, planned_ms=0.0))
    controller.finished("1", 500.0)
    shedder = published(controller, "2", policies).shedder
    assert shedder.state == "RUN"
    assert shedder.expected_ms([1]).tolist() == [5.0]
    controller.observe(routed(200, 100, "2", planned_ms=1.0))
    controller.finished("2", 1_500.0)
    learnt = published(controller, "3", policies).shedder.expected_ms([1])[0]
    assert learnt == pytest.approx((0.7 * 500 + 1_500) / (0.7 * 100 + 100))


def test_what_never_became_complete_is_in_no_count():
    policies = OperatorPolicies(RoundRobin(1), LoadAware(TARGET))
    controller = Controller("enrich", "query", policies, journal=Journal())
    controller.observe(RouterReport(TaskId("op", "query", "lost", 0), 50, 1.0, 0.0))
    for batch in range(20):
        place = TaskId("op", "query", str(batch), 0)
        controller.observe(RouterReport(place, 8, 1.0, 0.0, shed=3))
        controller.observe(ExecutionReport(place, 5, 5, 1.0, "0", waited_ms=1.0, waits=5))
    stats = controller.stats()
    assert (stats.received, stats.shed, stats.processed) == (160, 60, 100)


def test_a_finished_batch_is_counted():
    controller = in_front()
    controller.observe(routed(60, 10))
    controller.observe(routed(40, 20, router=1))
    assert controller.stats().last is None
    controller.finished("1", 500.0)
    stats = controller.stats()
    assert (stats.received, stats.shed, stats.processed, stats.batches) == (100, 30, 70, 1)
    assert (stats.last.received, stats.last.shed, stats.last.processed) == (100, 30, 70)
    assert math.isnan(stats.last.waiting_ms)
    assert [one.busy_ms for one in stats.instances] == [500.0]
    assert stats.instances[0].mean_cost_ms == pytest.approx(500 / 70)


def test_a_batch_is_finished_once_and_only_if_it_was_routed():
    controller = in_front()
    controller.finished("unknown", 500.0)
    assert controller.stats().batches == 0
    controller.observe(routed(10))
    for _ in range(3):
        controller.finished("1", 500.0)
    assert controller.stats().batches == 1
    assert controller.stats().instances[0].busy_ms == 500.0


def test_a_finished_batch_without_records_teaches_nothing():
    controller = in_front()
    controller.observe(routed(10, 10))
    version = controller.snapshot("1").version
    controller.finished("1", 500.0)
    assert controller.snapshot("2").version == version
    assert controller.stats().processed == 0
    assert "were shed" in warnings_of(controller)[0]


def test_shares_in_front_follow_the_routers():
    controller = in_front()
    controller.observe(routed(30, router=0))
    controller.observe(routed(10, router=2))
    controller.finished("1", 500.0)
    shares = controller.snapshot("2").shares
    # A twentieth of the mean of 40 / 3 records is added to each router.
    more = 40 / 3 / 20
    assert shares == pytest.approx(((30 + more) / 42, more / 42, (10 + more) / 42))
