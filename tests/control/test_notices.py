"""Finished batches: what callbacks and the log get, without Spark."""

import json
import logging
import math
import threading
from dataclasses import FrozenInstanceError
from functools import partial

import numpy as np
import pytest

from penstock.control import Controller, FinishedBatch, Journal, Notices, OperatorPolicies
from penstock.control.notices import _WAITING, Callbacks
from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack_costs
from penstock.errors import PenstockError
from penstock.policies.grouping import Proactive
from penstock.policies.shedding import LoadAware, RandomDrop, average


def some_batch(number="7", **changed):
    values = {
        "batch": number,
        "received": 10,
        "shed": 2,
        "processed": 8,
        "waiting_ms": math.nan,
        "operator": "enrich",
        "query": "q",
        "query_name": "clicks",
        "state": "RUN",
        "active": 2,
        "imbalance": 0.5,
        "target_ms": None,
        "warnings": ("slow",),
        "finished_s": 12.0,
    }
    return FinishedBatch(**{**values, **changed})


def routed(batch, records, shed=0, fallback="", router=0):
    task = TaskId("op", "query", batch, router)
    return RouterReport(task, records, 1.0, 0.0, fallback, shed=shed)


def executed(grouping, batch, instance, costs):
    tracker = grouping.tracker(instance)
    tracker.execute(np.arange(len(costs)), np.array(costs), sum(costs))
    task = TaskId("op", "query", batch, instance)
    measured = pack_costs(tracker.finish())
    return ExecutionReport(task, len(costs), 2 * len(costs), float(sum(costs)), "0", measured)


@pytest.fixture
def finished():
    return []


@pytest.fixture
def notices():
    made = Notices()
    yield made
    made.close()


def controller_of(finished, shedder=None, in_front=False):
    grouping = Proactive(2, capacity=16)
    return grouping, Controller(
        "enrich",
        "query",
        OperatorPolicies(grouping, shedder),
        journal=Journal(),
        in_front=in_front,
        query_name="clicks",
        on_batch=lambda made: finished.append(made()),
    )


def test_a_batch_is_finished_when_its_last_record_is_executed(finished):
    grouping, controller = controller_of(finished)
    controller.snapshot("1")
    controller.observe(routed("1", 5, fallback="gone"))
    controller.observe(executed(grouping, "1", 0, [10.0, 2.0]))
    assert finished == []
    controller.observe(executed(grouping, "1", 1, [1.0, 1.0, 2.0]))
    controller.observe(executed(grouping, "1", 1, [1.0, 1.0, 2.0]))  # the same task again
    [batch] = finished
    assert (batch.operator, batch.query, batch.query_name) == ("enrich", "query", "clicks")
    assert (batch.batch, batch.received, batch.shed, batch.processed) == ("1", 5, 0, 5)
    assert (batch.emitted, batch.busy_ms, batch.records) == (10, (12.0, 4.0), (2, 3))
    assert (batch.state, batch.active, batch.fallbacks) == ("RUN", 2, 1)
    assert batch.imbalance == pytest.approx(0.5)
    assert batch.duration_ms >= 0
    assert "spark.penstock.port" in batch.warnings[0]
    assert math.isnan(batch.waiting_ms)
    last = controller.stats().last
    assert (last.duration_ms, last.busy_ms) == (batch.duration_ms, batch.busy_ms)
    with pytest.raises(FrozenInstanceError):
        batch.processed = 0


def test_a_batch_begins_with_the_request_of_its_first_router(finished, monkeypatch):
    grouping, controller = controller_of(finished)
    clock = iter(range(100, 200))
    monkeypatch.setattr("time.time", lambda: float(next(clock)))
    controller.snapshot("1")
    controller.observe(routed("1", 1))
    controller.observe(executed(grouping, "1", 0, [5.0]))
    [batch] = finished
    asked_s = controller._pins.asked_s("1")
    assert asked_s < batch.finished_s
    assert batch.duration_ms == 1000 * (batch.finished_s - asked_s)


def test_without_a_request_the_time_of_the_router_counts(finished, monkeypatch):
    grouping, controller = controller_of(finished)
    monkeypatch.setattr("time.time", lambda: 100.0)
    controller.observe(routed("1", 1))
    controller.observe(executed(grouping, "1", 0, [5.0]))
    assert finished[0].duration_ms == pytest.approx(1.0)


def test_a_batch_that_is_shed_as_a_whole_is_finished_by_the_next_one(finished):
    grouping, controller = controller_of(finished, RandomDrop(0.5, instances=2))
    controller.observe(routed("1", 4, shed=4))
    assert finished == []
    controller.observe(routed("2", 3, shed=1))
    assert [(one.batch, one.received, one.shed, one.processed) for one in finished] == [
        ("1", 4, 4, 0)
    ]
    controller.observe(executed(grouping, "2", 0, [1.0, 1.0]))
    assert [one.batch for one in finished] == ["1", "2"]
    assert all(one.received == one.processed + one.shed for one in finished)


def test_a_target_is_part_of_stats_and_batches(finished):
    grouping, controller = controller_of(finished, LoadAware(average("2 s"), instances=2))
    controller.observe(routed("1", 1))
    controller.observe(executed(grouping, "1", 0, [5.0]))
    assert finished[0].target_ms == controller.stats().target_ms == 2000.0


def test_a_shedder_in_front_takes_the_duration_from_the_query(finished):
    _, controller = controller_of(finished, RandomDrop(0.5, instances=2), in_front=True)
    controller.observe(routed("1", 4, shed=1))
    assert finished == []
    controller.finished("1", 750.0)
    [batch] = finished
    assert (batch.received, batch.shed, batch.processed) == (4, 1, 3)
    assert batch.duration_ms == pytest.approx(750.0, abs=0.01)


def test_callbacks_get_the_batches_in_order(notices):
    found, callbacks = [], Callbacks("enrich")
    callbacks.add(found.append)
    callbacks.add(lambda batch: found.append(batch.batch))
    for number in ("1", "2"):
        notices.publish(callbacks, partial(some_batch, number))
    assert notices.drain()
    assert found == [some_batch("1"), "1", some_batch("2"), "2"]


@pytest.mark.parametrize("error", [ValueError("no room"), SystemExit(1)], ids=["error", "exit"])
def test_a_callback_that_fails_is_logged_once_and_called_again(notices, caplog, error):
    calls, found, callbacks = [], [], Callbacks("enrich")

    def failing(batch):
        calls.append(batch.batch)
        raise error

    callbacks.add(failing)
    callbacks.add(lambda batch: found.append(batch.batch))
    for number in ("1", "2", "3"):
        notices.publish(callbacks, partial(some_batch, number))
    assert notices.drain()
    assert calls == found == ["1", "2", "3"]
    [logged] = [one for one in caplog.records if "callback" in one.message]
    assert "enrich: a callback of on_batch has failed in batch 1" in logged.message


def test_a_slow_callback_delays_nobody_and_drops_the_newest(notices, caplog):
    go, found, callbacks = threading.Event(), [], Callbacks("enrich")

    def slow(batch):
        go.wait(30)
        found.append(batch.batch)

    callbacks.add(slow)
    for number in range(_WAITING + 5):
        notices.publish(callbacks, partial(some_batch, str(number)))
    assert not notices.drain(0.01)
    go.set()
    assert notices.drain()
    assert found[:_WAITING] == [str(number) for number in range(_WAITING)]
    assert _WAITING <= len(found) <= _WAITING + 1
    assert sum("too slow" in one.message for one in caplog.records) == 1


@pytest.mark.parametrize(
    "wrong", [None, 3, "print", lambda: None, lambda a, b: None], ids=list("abcde")
)
def test_a_callback_must_take_one_argument(wrong):
    with pytest.raises(PenstockError, match="on_batch needs a function of one argument; got"):
        Callbacks("enrich").add(wrong)


def test_functions_without_a_signature_and_with_defaults_are_taken():
    callbacks = Callbacks("enrich")
    for function in (print, dict, [].append, lambda batch, more=1: None, lambda *batches: None):
        callbacks.add(function)


def test_the_log_of_batches_is_off_and_can_be_switched_on(notices, caplog):
    notices.publish(Callbacks("enrich"), some_batch)
    assert notices._thread is None
    with caplog.at_level(logging.INFO, "penstock.batches"):
        notices.publish(Callbacks("enrich"), some_batch)
        assert notices.drain()
    [line] = [one for one in caplog.records if one.name == "penstock.batches"]
    found = json.loads(line.getMessage())
    assert found["operator"] == "enrich"
    assert found["waiting_ms"] is None  # unknown
    assert found["warnings"] == ["slow"]
    assert found.keys() == vars(some_batch()).keys()


def test_after_the_end_nothing_is_delivered(notices):
    found, callbacks = [], Callbacks("enrich")
    callbacks.add(found.append)
    notices.publish(callbacks, partial(some_batch, "1"))
    notices.close()
    assert [one.batch for one in found] == ["1"]
    assert not notices._thread.is_alive()
    notices.publish(callbacks, partial(some_batch, "2"))
    assert len(found) == 1
