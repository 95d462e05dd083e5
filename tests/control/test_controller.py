"""The loop without Spark: reports in, snapshots out."""

import json

import numpy as np
import pytest

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import (
    ExecutionReport,
    RouterReport,
    TaskId,
    pack,
    pack_costs,
    unpack,
)
from penstock.errors import PenstockError
from penstock.policies.grouping import Proactive, ProactiveAsPublished


def executed(grouping, instance, batch="1", keys=(1, 2), costs=(10.0, 2.0)):
    tracker = grouping.tracker(instance)
    tracker.execute(np.array(keys), np.array(costs), sum(costs))
    place = TaskId("op", "query", batch, instance)
    packed = pack_costs(tracker.finish())
    return ExecutionReport(place, len(keys), len(keys), float(sum(costs)), "0", packed)


@pytest.fixture
def grouping():
    return Proactive(instances=2, capacity=16)


@pytest.fixture
def controller(grouping):
    return Controller("enrich", "query", OperatorPolicies(grouping), journal=Journal())


def test_reports_travel_as_text_and_bytes(grouping):
    for report in (
        RouterReport(TaskId("op", "", "stage 3", 1), 7, 1.5, 20.0, "no answer"),
        executed(grouping, 1),
    ):
        text, costs = pack(report)
        assert isinstance(text, str)
        assert isinstance(costs, bytes)
        assert unpack((text, costs)) == report


@pytest.mark.parametrize("wrong", [("{}", b""), ("nonsense", b""), ('{"kind": "router"}', b""), 3])
def test_what_is_no_report_is_refused(wrong):
    with pytest.raises(PenstockError, match="not a report"):
        unpack(wrong)


def test_it_learns_and_publishes(controller, grouping):
    before = controller.snapshot("1")
    for instance in (0, 1):
        controller.observe(executed(grouping, instance))
    after = controller.snapshot("2")
    assert after.version > before.version
    router = grouping.clone()
    router.restore(after.data)
    np.testing.assert_allclose(router.expected_ms([1, 2]), [10.0, 2.0])


def test_a_batch_keeps_its_snapshot(controller, grouping):
    first = controller.snapshot("1")
    controller.observe(executed(grouping, 0))
    assert controller.snapshot("1") == first
    assert controller.snapshot("2") != first


def test_a_batch_has_begun_when_a_router_asks_or_a_task_reports(controller, grouping):
    assert controller.begun == set()
    controller.snapshot("1")
    controller.observe(executed(grouping, 0, batch="2"))
    assert controller.begun == {"1", "2"}


def test_a_report_that_comes_twice_counts_once(controller, grouping):
    for _ in range(3):
        controller.observe(executed(grouping, 0))
        controller.observe(RouterReport(TaskId("op", "query", "1", 0), 2, 1.0, 0.0))
    stats = controller.stats()
    assert (stats.received, stats.processed, stats.batches) == (2, 2, 1)
    controller.observe(executed(grouping, 0, batch="2"))
    assert controller.stats().processed == 4


def test_stats_and_journal_tell_what_happened(controller, grouping):
    controller.snapshot("1")
    controller.observe(RouterReport(TaskId("op", "query", "1", 0), 4, 1.0, float("nan"), "gone"))
    controller.observe(executed(grouping, 0, costs=(10.0, 2.0)))
    controller.observe(executed(grouping, 1, costs=(1.0, 3.0)))
    stats = controller.stats()
    assert stats.fallbacks == 1
    assert stats.fallback_reason == "gone"
    assert [one.busy_ms for one in stats.instances] == [12.0, 4.0]
    assert stats.imbalance == pytest.approx(0.5)
    # Instance 1 was expected to cost what instance 0 had measured.
    assert stats.instances[1].expected_ms == pytest.approx(12.0)
    kinds = [entry["kind"] for entry in controller.journal.entries()]
    assert kinds == ["plan", "observation", "warning", "observation", "observation"]
    assert "spark.penstock.port" in stats.warnings[0]
    assert "2 instances" in controller.journal.entries()[0]["reason"]
    json.dumps(controller.journal.entries())


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_costs_survive_also_with_other_instances(controller, grouping, instances):
    for instance in (0, 1):
        controller.observe(executed(grouping, instance))
    saved = controller.save()
    resumed = Controller(
        "enrich", "query", OperatorPolicies(grouping.clone(instances=instances)), journal=Journal()
    )
    resumed.load(saved)
    router = grouping.clone(instances=instances)
    router.restore(resumed.snapshot("1").data)
    np.testing.assert_allclose(router.expected_ms([1, 2]), [10.0, 2.0])


def test_a_foreign_or_truncated_file_is_refused_and_nothing_is_lost(controller, grouping):
    controller.observe(executed(grouping, 0))
    saved = controller.save()
    published = Controller(
        "enrich", "query", OperatorPolicies(ProactiveAsPublished(2)), journal=Journal()
    )
    for target, wrong in (
        (controller, b"something else"),
        (controller, saved[: len(saved) // 2]),
        (controller, grouping.snapshot()),
        (published, saved),
    ):
        before = target.save()
        with pytest.raises(PenstockError):
            target.load(wrong)
        assert target.save() == before


def test_memory_does_not_grow_with_batches(controller, grouping):
    for batch in range(300):
        controller.snapshot(str(batch))
        controller.observe(executed(grouping, 0, batch=str(batch)))
    assert len(controller._pins) <= 8
    assert len(controller._ledger._seen) <= 64
    assert len(controller._ledger._batches) <= 8


def test_the_journal_is_rotated(tmp_path):
    journal = Journal(tmp_path / "deep" / "journal.jsonl", max_bytes=1_000, files=2)
    for number in range(100):
        journal.write("plan", number=number)
    files = sorted(file.name for file in (tmp_path / "deep").iterdir())
    assert files == ["journal.jsonl", "journal.jsonl.1", "journal.jsonl.2"]
    assert all(file.stat().st_size <= 1_000 for file in (tmp_path / "deep").iterdir())
    newest = (tmp_path / "deep" / "journal.jsonl").read_text().splitlines()
    assert json.loads(newest[-1])["number"] == 99
    assert journal.entries()[-1]["number"] == 99
