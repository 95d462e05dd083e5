"""The loop of an operator that sheds: counts, shares, batches, and what they teach."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shed_reports import (
    controller_of,
    executed,
    in_front,
    measured,
    published,
    routed,
    two_instances,
)

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.batches import Batch
from penstock.control.reports import pack, pack_costs, unpack
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import Never


@pytest.fixture
def policies():
    return two_instances()


@pytest.fixture
def controller(policies):
    return controller_of(policies, [])


# Counts.


def test_received_is_processed_and_shed(controller):
    for batch, (offered, shed) in enumerate([(10, 4), (6, 0), (5, 5)], start=1):
        kept = offered - shed
        controller.observe(routed(offered, shed, str(batch)))
        for instance, records in enumerate((kept // 2, kept - kept // 2)):
            if records:
                controller.observe(executed(instance, records, str(batch)))
    stats = controller.stats()
    assert (stats.received, stats.shed, stats.processed, stats.batches) == (21, 9, 12, 3)
    assert stats.received == stats.processed + stats.shed
    assert (stats.last.batch, stats.last.received, stats.last.shed, stats.last.processed) == (
        "3",
        5,
        5,
        0,
    )


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=4),
        min_size=1,
        max_size=12,
    )
)
def test_nothing_is_lost_whoever_routes(batches):
    policies = OperatorPolicies(RoundRobin(2), Never(2))
    controller = Controller("op", "query", policies, journal=Journal())
    for batch, routers in enumerate(batches):
        kept = sum(records for records, _ in routers)
        for router, (records, shed) in enumerate(routers):
            controller.observe(routed(records + shed, shed, str(batch), router))
        for instance, records in enumerate((kept // 2, kept - kept // 2)):
            if records:  # an instance without records reports nothing
                controller.observe(executed(instance, records, str(batch)))
    stats = controller.stats()
    assert stats.received == stats.processed + stats.shed
    assert stats.received == sum(sum(one) for routers in batches for one in routers)
    if stats.last is not None:
        assert stats.last.received == stats.last.processed + stats.last.shed


def test_reports_with_all_their_fields_travel(policies):
    full = {"planned_ms": 7.5, "protected": 3, "undated": 2, "early": 1}
    for report in (routed(10, 4, **full), measured(policies, 1, waited_ms=3.5)):
        assert unpack(pack(report)) == report


def test_waiting_times_are_means_over_measured_records(controller):
    assert math.isnan(controller.stats().waiting_ms)
    controller.observe(routed(6))
    controller.observe(executed(0, 4, waited_ms=40.0))
    controller.observe(executed(1, 2, waited_ms=0.0, waits=1))
    stats = controller.stats()
    assert stats.waiting_ms == stats.last.waiting_ms == 8.0
    controller.observe(routed(2, batch="2"))
    controller.observe(executed(0, 1, "2", waited_ms=2.0))
    assert controller.stats().last.batch == "1"  # the newer one is not complete
    controller.observe(executed(1, 1, "2", waited_ms=4.0))
    assert controller.stats().last.waiting_ms == 3.0
    assert controller.stats().waiting_ms == pytest.approx(46.0 / 7)


def test_the_state_is_that_of_the_shedder(controller, policies):
    assert controller.stats().state == "NOP"
    for instance in (0, 1):
        controller.observe(measured(policies, instance))
    assert controller.stats().state == "RUN"
    router = published(controller, "2", policies)
    np.testing.assert_allclose(router.shedder.expected_ms([1, 2]), [10.0, 2.0])


def test_an_instance_without_records_does_not_keep_the_others_from_shedding(controller, policies):
    for number in range(20):
        batch = str(number)
        controller.observe(routed(2, batch=batch))
        controller.observe(measured(policies, 0, batch))
        nothing = pack_costs(policies.measuring.tracker(1).finish())
        controller.observe(executed(1, 0, batch, costs=nothing))
    assert controller.stats().batches == 20
    assert controller.stats().state == "RUN"


def test_the_journal_tells_of_complete_batches(controller):
    controller.observe(routed(6, 2))
    controller.observe(executed(0, 3, waited_ms=30.0))
    assert not [e for e in controller.journal.entries() if "shed" in e]
    controller.observe(executed(1, 1, waited_ms=10.0))
    found = [e for e in controller.journal.entries() if "shed" in e]
    assert [(e["received"], e["shed"], e["processed"], e["waiting_ms"]) for e in found] == [
        (6, 2, 4, 10.0)
    ]
    json.dumps(controller.journal.entries())


def test_a_batch_that_nobody_measured_has_no_waiting_time_in_the_journal(controller):
    controller.observe(routed(2))
    for instance in (0, 1):
        controller.observe(executed(instance, 1, waits=0))
    assert [e["waiting_ms"] for e in controller.journal.entries() if "shed" in e] == [None]


def test_waiting_times_teach_the_shedder(controller, policies):
    for instance in (0, 1):
        controller.observe(measured(policies, instance, "1"))
    before = published(controller, "2", policies).shedder
    controller.observe(routed(4, batch="2", planned_ms=4.0))
    for instance in (0, 1):
        controller.observe(measured(policies, instance, "2", waited_ms=2_000.0 * 10))
    after = published(controller, "3", policies).shedder
    keys, times = np.full(2_000, 1), np.zeros(2_000)
    for shedder in (before, after):
        shedder.begin(0.0)
    assert after.admit(keys, times).sum() < before.admit(keys, times).sum()


# How routers share the capacity.


def shares_after(controller, *batches):
    for number, by_router in enumerate(batches):
        for router, records in enumerate(by_router):
            controller.observe(routed(records, batch=str(number), router=router))
        if any(by_router):
            controller.observe(executed(0, sum(by_router), str(number)))
    return controller.snapshot("next").shares


def test_at_first_nothing_is_known_of_routers(controller):
    snapshot = controller.snapshot("1")
    assert snapshot.shares == ()
    assert snapshot.share(0) == 1
    assert snapshot.share(3) == 1


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.lists(st.integers(0, 1_000), min_size=1, max_size=6).filter(any),
        min_size=1,
        max_size=6,
    )
)
def test_shares_are_one_in_total_and_nobody_gets_none(batches):
    policies = OperatorPolicies(RoundRobin(2), Never(2))
    shares = shares_after(Controller("op", "query", policies, journal=Journal()), *batches)
    assert len(shares) == len(batches[-1])
    assert sum(shares) == pytest.approx(1)
    assert all(share > 0 for share in shares)


def test_shares_follow_the_routers(controller):
    even = shares_after(controller, [50, 50])
    assert even == pytest.approx((0.5, 0.5))


def test_shares_follow_a_change_by_and_by(policies):
    skewed = [[50, 50], *[[90, 10]] * 5]
    found = [
        shares_after(Controller("op", "query", policies, journal=Journal()), *skewed[:n])[0]
        for n in range(1, 7)
    ]
    assert found == sorted(found)
    assert found[1] == pytest.approx((0.5 + (90 + 5) / 110) / 2, abs=0.01)
    assert found[-1] == pytest.approx((90 + 2.5) / 105, abs=0.02)


def test_another_number_of_routers_begins_anew(controller):
    shares = shares_after(controller, [90, 10], [10, 10, 10])
    assert shares == pytest.approx((1 / 3,) * 3)
    assert controller.snapshot("next").share(3) == 0.25  # one that nobody knew of


def test_a_batch_without_records_changes_no_shares(controller):
    assert shares_after(controller, [30, 10], [0, 0]) == pytest.approx((31 / 42, 11 / 42))


# Batches.


def test_a_batch_is_complete_when_all_its_records_are_accounted_for():
    batch = Batch(3)
    assert not batch.complete
    batch.add_router(routed(6, 2))
    assert not batch.settled
    batch.add_instance(executed(1, 3, waited_ms=6.0))
    assert not batch.complete
    batch.add_instance(executed(0, 1, waited_ms=2.0))  # instance 2 has no records
    assert batch.complete
    assert (batch.stats("9").batch, batch.processed, batch.waiting_ms) == ("9", 4, 2.0)


def test_a_batch_of_which_all_is_shed_is_settled_but_routers_may_report():
    batch = Batch(2)
    batch.add_router(routed(6, 6))
    assert (batch.settled, batch.complete) == (True, False)
    batch.add_router(routed(5, 1, router=1))
    assert (batch.settled, batch.complete) == (False, False)
    batch.add_instance(executed(0, 4))
    assert (batch.settled, batch.complete) == (True, True)


def test_memory_does_not_grow_with_batches(controller, policies):
    for number in range(200):
        batch = str(number)
        controller.snapshot(batch)
        controller.observe(routed(3, 1, batch, undated=1))
        for instance in (0, 1):
            controller.observe(measured(policies, instance, batch))
    assert len(controller._pins) <= 8
    assert len(controller._ledger._batches) <= 8
    assert len(controller.stats().warnings) <= 20


# Runs of a query.


@pytest.mark.parametrize("front", [False, True], ids=["operator", "in front"])
def test_a_batch_that_runs_again_is_counted_again(controller, front):
    one = in_front() if front else controller
    one.observe(routed(10, 4, "1"))
    if front:
        one.finished("1", 500.0)
    else:
        one.observe(executed(0, 6, "1"))
    for router in range(3):  # of the batch that fails
        one.observe(routed(8, 2, "2", router=router))
    one.begin_run("second", again=2)
    one.observe(routed(24, 6, "2"))
    if front:
        one.finished("2", 500.0)
    else:
        one.observe(executed(1, 18, "2"))
    stats = one.stats()
    assert (stats.batches, stats.received, stats.shed, stats.processed) == (2, 34, 10, 24)
    assert sum(instance.records for instance in stats.instances) == 24
    assert one.run == "second"


def test_a_run_that_repeats_nothing_changes_no_count(controller):
    controller.observe(routed(10, 4, "1"))
    controller.observe(executed(0, 6, "1"))
    before = controller.stats()
    controller.begin_run("second", again=None)
    controller.begin_run("third", again=2)
    assert controller.stats() == before
