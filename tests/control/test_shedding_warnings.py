"""Warnings of an operator that sheds: times of arrival, targets, and how many are kept."""

import numpy as np
import pytest
from shed_reports import controller_of, executed, routed, two_instances, warnings_of

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import Shedder


@pytest.fixture
def controller():
    return controller_of(two_instances(), [])


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
