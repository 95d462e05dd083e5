"""Reports of several runs that execute the same batch: those of the newest run count."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from shed_reports import executed, in_front, routed, two_instances

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.policies.grouping import RoundRobin

BEFORE = [routed(10, router=0), routed(20, router=1), executed(0, 9), executed(1, 21)]
AFTER = [routed(12, router=0), routed(18, router=1), executed(0, 17), executed(1, 13)]


def of_run(report, run):
    return replace(report, task=replace(report.task, run=run))


def counts(controller):
    stats = controller.stats()
    return stats.batches, stats.received, stats.processed


def controller():
    return Controller("op", "query", OperatorPolicies(RoundRobin(2)), journal=Journal())


@given(st.permutations(range(8)), st.integers(0, 4))
def test_reports_of_two_runs_in_any_order_count_for_the_newer_one(order, unreported):
    """The earlier run was stopped, so some of its reports never came."""
    reports = [(of_run(one, "first"), True) for one in BEFORE]
    reports += [(of_run(one, "second"), False) for one in AFTER]
    one = controller()
    for number in order:
        report, ended = reports[number]
        if number >= unreported:
            one.observe(report, ended=ended)
    assert counts(one) == (1, 30, 30)
    assert [instance.records for instance in one.stats().instances] == [17, 13]


def test_late_reports_of_a_batch_that_is_not_repeated_count():
    one = controller()
    one.begin_run("second", again=2)
    for report in BEFORE:
        one.observe(of_run(report, "first"), ended=True)
    assert counts(one) == (1, 30, 30)


def test_a_batch_in_front_is_counted_for_the_newer_run():
    one = in_front()
    one.observe(of_run(routed(8, 2), "first"))
    one.observe(of_run(routed(24, 6), "second"))
    one.observe(of_run(routed(8, 2, router=1), "first"), ended=True)
    assert (one.stats().received, one.stats().shed) == (24, 6)


def test_shed_records_of_a_run_that_was_repeated_are_not_counted():
    one = Controller("op", "query", two_instances(), journal=Journal())
    one.observe(of_run(routed(10, 4), "first"))
    one.observe(of_run(executed(0, 6), "first"))
    assert (one.stats().received, one.stats().shed) == (10, 4)
    one.observe(of_run(routed(10, 1), "second"))
    one.observe(of_run(executed(0, 5), "second"))
    one.observe(of_run(executed(1, 4), "second"))
    assert (one.stats().received, one.stats().shed, one.stats().processed) == (10, 1, 9)
