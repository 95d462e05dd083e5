"""The loop of an operator that sheds: counts, shares, pins, warnings, and what batches teach."""

import json
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.batches import Batch
from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack, pack_costs, unpack
from penstock.control.snapshots import Snapshot, read_pin
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import LoadAware, MeanCost, Never, Shedder, average

TARGET = average("2 s")


def routed(records, shed=0, batch="1", router=0, **more):
    return RouterReport(TaskId("op", "query", batch, router), records, 1.0, 0.0, shed=shed, **more)


def executed(instance, records=2, batch="1", waited_ms=0.0, waits=None, costs=b""):
    place = TaskId("op", "query", batch, instance)
    waits = records if waits is None else waits
    return ExecutionReport(place, records, records, 5.0, "0", costs, waited_ms, waits)


def measured(policies, instance, batch="1", costs=((1, 10.0), (2, 2.0)), **more):
    tracker = policies.measuring.tracker(instance)
    keys, costs_ms = zip(*costs, strict=True)
    tracker.execute(np.array(keys), np.array(costs_ms), sum(costs_ms))
    return executed(instance, len(keys), batch, costs=pack_costs(tracker.finish()), **more)


@pytest.fixture
def policies():
    return OperatorPolicies(RoundRobin(2), LoadAware(TARGET, instances=2, capacity=16))


@pytest.fixture
def kept():
    return []


@pytest.fixture
def controller(policies, kept):
    return Controller("enrich", "query", policies, journal=Journal(), keep=kept.append)


def in_front(shedder=None):
    policies = OperatorPolicies(RoundRobin(1), shedder or MeanCost(TARGET))
    return Controller("gate", "query", policies, journal=Journal(), in_front=True)


def published(controller, batch, policies):
    """The policies of a router of this batch."""
    router = policies.clone()
    router.restore(controller.snapshot(batch).data)
    return router


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


# Pins: a batch is decided about as before, also after a restart.

SHARES = st.lists(st.floats(0.001, 1), max_size=5).map(tuple)


@given(
    st.text(max_size=20), st.integers(0, 2**48), st.floats(0, 2e9), SHARES, st.binary(max_size=50)
)
def test_a_pin_is_read_as_it_was_written(batch, version, began_s, shares, data):
    snapshot = Snapshot(version, began_s, zlib.compress(data), began_s + 1, shares)
    found, again = read_pin(snapshot.pin(batch))
    assert (found, again) == (batch, snapshot)
    assert again.data == data


def test_headers_are_json(controller):
    snapshot = controller.snapshot("1")
    header = json.loads(json.dumps(snapshot.header()))
    assert "packed" not in header
    assert Snapshot.of(header, snapshot.packed) == snapshot


def test_a_damaged_pin_is_refused(controller, policies):
    pin = controller.snapshot("1").pin("1")
    flipped = bytearray(pin)
    flipped[-1] ^= 1
    none = np.zeros(0, dtype=np.uint8)
    for wrong in (
        b"",
        b"something else",
        pin[:-3],
        bytes(flipped),
        policies.snapshot(),
        codec.encode("penstock-pin", {"packed": none}),
        codec.encode("penstock-pin", {"header": none, "packed": none}),
    ):
        with pytest.raises(PenstockError):
            controller.load_pin(wrong)
    for header in ({}, [], {"batch": "1"}, {"batch": "1", "version": "x", "created_s": 0}):
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        wrong = codec.encode("penstock-pin", {"header": text, "packed": none})
        with pytest.raises(PenstockError, match="not the snapshot of a batch"):
            read_pin(wrong)


def test_it_is_kept_before_routers_know_and_once_for_each_batch(controller, kept):
    first = controller.snapshot("1")
    controller.snapshot("1")
    controller.snapshot("2")
    assert [read_pin(pin)[0] for pin in kept] == ["1", "2"]
    assert read_pin(kept[0])[1] == first


def test_a_batch_that_cannot_be_kept_is_not_decided_about(policies):
    def full(_):
        raise OSError("no space left")

    controller = Controller("enrich", "query", policies, journal=Journal(), keep=full)
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            controller.snapshot("1")


def test_after_a_restart_the_batch_is_decided_about_as_before(controller, policies, kept):
    for instance in (0, 1):
        controller.observe(routed(3, router=instance))
        controller.observe(measured(policies, instance))
    before = controller.snapshot("7")
    saved = controller.save()

    resumed = Controller("enrich", "query", policies, journal=Journal())
    resumed.load_pin(kept[-1])
    resumed.load(saved)
    for instance in (0, 1):
        resumed.observe(measured(policies, instance, "6", costs=((1, 99.0),)))
    again = resumed.snapshot("7")
    assert replace(again, version=0) == replace(before, version=0)
    assert again.data == before.data
    later = resumed.snapshot("8")
    assert later.version != again.version
    assert later.data != again.data


def test_a_pin_is_not_kept_once_more(policies, controller, kept):
    controller.snapshot("7")
    more = []
    resumed = Controller("enrich", "query", policies, journal=Journal(), keep=more.append)
    resumed.load_pin(kept[0])
    resumed.snapshot("7")
    assert more == []


def test_resumed_policies_have_learnt_and_nothing_waits(controller, policies):
    for instance in (0, 1):
        controller.observe(routed(2, router=instance, planned_ms=1e6))
        controller.observe(measured(policies, instance, waited_ms=1e6))
    resumed = Controller("enrich", "query", policies, journal=Journal())
    resumed.load(controller.save())
    shedder = published(resumed, "1", policies).shedder
    assert shedder.state == "RUN"
    np.testing.assert_allclose(shedder.expected_ms([1, 2]), [10.0, 2.0])
    assert shedder.admit([1], [0.0], [1_500.0])[0]


def test_two_pins_of_different_contents_have_different_versions(controller, policies, kept):
    controller.snapshot("1")
    for instance in (0, 1):
        controller.observe(measured(policies, instance))
    controller.snapshot("2")
    resumed = Controller("enrich", "query", policies, journal=Journal())
    for pin in kept:
        resumed.load_pin(pin)
    first, second = resumed.snapshot("1"), resumed.snapshot("2")
    assert first.data != second.data
    assert first.version != second.version


# Warnings.


def warnings_of(controller):
    return list(controller.stats().warnings)


def test_what_has_no_time_of_arrival_is_said(controller):
    controller.observe(routed(2_000, undated=1_500))
    assert warnings_of(controller) == [
        "1,500 records of batch 1 have no time of arrival; they count as just arrived"
    ]


def test_what_arrives_in_the_future_is_said(controller):
    controller.observe(routed(20, early=3))
    (warning,) = warnings_of(controller)
    assert warning.startswith("3 records of batch 1 arrive in the future")
    assert "clocks of the source and of the driver differ" in warning


def complete(controller, offered, shed, waited_ms=0.0, batch="1", **more):
    controller.observe(routed(offered, shed, batch, **more))
    kept = offered - shed
    controller.observe(executed(0, kept, batch, waited_ms=waited_ms))
    controller.observe(executed(1, 0, batch))


@pytest.mark.parametrize(
    "protected, waited_ms, said", [(10, 20_010.0, True), (10, 20_000.0, False), (9, 1e6, False)]
)
def test_a_target_that_cannot_hold_as_all_are_protected_is_said(
    controller, protected, waited_ms, said
):
    complete(controller, 10, 0, waited_ms, protected=protected)
    expected = (
        "all records of batch 1 are protected; the target (waiting time, on average over the "
        "stream, at most 2000 ms) cannot hold as nothing may be shed"
    )
    assert warnings_of(controller) == [expected] * said


def test_a_batch_of_which_all_is_shed_is_said(controller):
    complete(controller, 1_234, 1_234)
    (warning,) = warnings_of(controller)
    assert warning.startswith("all 1,234 records of batch 1 were shed: they had waited too long")
    assert "at most 2000 ms" in warning


def test_an_ordinary_batch_gives_no_warning(controller):
    complete(controller, 10, 3, 100.0, protected=2)
    complete(controller, 0, 0, batch="2")
    assert warnings_of(controller) == []


class Half(Shedder):
    """One of the user's own, without a target."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.asarray(keys) % 2 == 0


def test_without_a_target_nothing_is_said_of_it():
    controller = Controller(
        "op", "query", OperatorPolicies(RoundRobin(2), Half(2)), journal=Journal()
    )
    complete(controller, 10, 10)
    assert warnings_of(controller) == []


def test_warnings_are_logged_once_for_each_kind_and_the_newest_is_kept(controller, caplog):
    for batch in ("1", "2", "3"):
        controller.observe(routed(10, batch=batch, undated=5))
    controller.observe(routed(10, batch="4", early=1))
    controller.observe(routed(10, batch="5", undated=6))
    assert len([r for r in caplog.records if r.name == "penstock"]) == 2
    assert [warning.split(" have")[0] for warning in warnings_of(controller)][-1] == (
        "6 records of batch 5"
    )
    assert len(warnings_of(controller)) == 2
    written = [e for e in controller.journal.entries() if e["kind"] == "warning"]
    assert len(written) == 5


def test_warnings_do_not_grow_for_ever(controller):
    for kind in range(100):
        controller.warn(str(kind), f"number {kind}")
    assert warnings_of(controller) == [f"number {kind}" for kind in range(80, 100)]


# In front of operators that report nothing.


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
