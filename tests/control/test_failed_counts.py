"""Failed records in reports, batches and stats: received = processed + shed + failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.ledger import Failures
from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack, unpack
from penstock.policies.grouping import RoundRobin


def task(partition, batch="0"):
    return TaskId("operator", "query", batch, partition)


def routed(records, shed=0, batch="0"):
    return RouterReport(task(0, batch), records, router_ms=1.0, snapshot_age_ms=0.0, shed=shed)


def executed(partition, records, failed=0, batch="0", **more):
    errors = ("{'key': 1}: ValueError: broken",) if failed else ()
    return ExecutionReport(
        task(partition, batch), records, records, 1.0, "x", failed=failed, errors=errors, **more
    )


def controller(instances=2):
    return Controller("op", "query", OperatorPolicies(RoundRobin(instances)), journal=Journal())


def test_a_report_keeps_its_failures():
    report = executed(1, 5, failed=2)
    assert unpack(pack(report)) == report


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_failed_records_are_counted_once(tasks):
    one = controller(len(tasks))
    received = sum(map(sum, tasks))
    one.observe(routed(received))
    for partition, (records, failed) in enumerate(tasks):
        for _ in range(2):  # a report may arrive twice
            one.observe(executed(partition, records, failed))
    stats = one.stats()
    assert stats.received == stats.processed + stats.shed + stats.failed == received
    assert stats.failed == sum(failed for _, failed in tasks)
    assert one.work().processed == received
    if received:
        assert (stats.last.received, stats.last.failed) == (received, stats.failed)


def test_a_batch_whose_records_all_failed_is_complete():
    one = controller()
    one.observe(routed(3))
    one.observe(executed(0, 0, failed=3))
    assert (one.stats().last.processed, one.stats().last.failed) == (0, 3)


def test_a_batch_that_runs_again_is_counted_again():
    one = controller()
    one.observe(routed(3))
    one.observe(executed(0, 1, failed=2))
    assert one.failing("0", ("use", 0), 2) == Failures(2, 3)
    one.begin_run("another", again=0)
    assert (one.stats().received, one.stats().processed, one.stats().failed) == (0, 0, 0)
    assert one.failing("0", ("use", 1), 1) == Failures(1, 0)


def test_failures_of_all_tasks_of_a_batch_are_added_up():
    one = controller()
    one.observe(routed(50))
    assert one.failing("0", ("use", 0), 2) == Failures(2, 50)
    assert one.failing("0", ("use", 1), 3) == Failures(5, 50)
    assert one.failing("0", ("use", 1), 1) == Failures(3, 50)  # the task has run again
    assert one.failing("0", ("other", 1), 1) == Failures(4, 50)
    assert one.failing("1", ("use", 0), 7) == Failures(7, 0)


def test_failures_are_in_the_journal_and_a_warning():
    one = controller()
    one.observe(routed(7))
    one.observe(executed(0, 5, failed=2))
    entry = next(entry for entry in one.journal.entries() if "failed" in entry)
    assert (entry["failed"], entry["errors"]) == (2, ["{'key': 1}: ValueError: broken"])
    [warning] = one.stats().warnings
    assert "failed on 2 of 7 records of a task in batch 0" in warning


@pytest.mark.parametrize(("stalled_s", "warned"), [(0.9, False), (1.5, True)])
def test_a_blocked_event_loop_is_a_warning(stalled_s, warned):
    one = controller()
    one.observe(executed(0, 1, stalled_s=stalled_s))
    assert any("blocked its event loop for 1.5 s" in one for one in one.stats().warnings) == warned
