"""Runs of queries that tasks name, as the driver knows them; no Spark needed."""

import pytest

from penstock.control.reports import TaskId
from penstock.spark.driver import streams
from penstock.spark.driver.streams import Streams
from penstock.spark.internals import JvmError


class Active:
    """The run of the query that is active; empty if it has ended."""

    def __init__(self):
        self.run, self.asked = "", 0

    def run_of(self, spark, query):
        self.asked += 1
        if self.run is None:
            raise JvmError("gone")
        return self.run


@pytest.fixture
def active(monkeypatch):
    found = Active()
    monkeypatch.setattr(streams.internals, "run_of", found.run_of)
    return found


def resolved(known, run):
    return known.resolved(TaskId("op", "query", "4", 0, run=run)).run


def test_a_run_is_asked_for_once(active):
    known, active.run = Streams(None), "first"
    assert [resolved(known, "first") for _ in range(5)] == ["first"] * 5
    assert active.asked == 1
    assert not known.has_ended("first")


def test_the_last_tasks_of_a_run_keep_it_after_the_next_one_has_begun(active):
    known, active.run = Streams(None), "first"
    resolved(known, "first")
    active.run = "second"
    assert resolved(known, "second") == "second"
    assert resolved(known, "first") == "first"
    assert known.has_ended("first")
    assert known.ended_of("query") == {"first"}
    assert known.ended_of("another") == set()


def test_reports_that_come_after_the_end_of_a_query_are_of_its_last_run(active):
    known, active.run = Streams(None), "first"
    resolved(known, "first")
    active.run = ""
    assert resolved(known, "first") == "first"
    assert resolved(known, "") == "first"
    assert known.run_of("query") == ""
    assert not known.has_ended("first")


def test_a_task_that_does_not_know_its_run_gets_the_active_one(active):
    known, active.run = Streams(None), "first"
    assert resolved(known, "") == "first"
    active.run = "second"
    assert resolved(known, "") == "second"


def test_an_answer_that_is_late_does_not_end_the_newest_run(active):
    known, active.run = Streams(None), "first"
    resolved(known, "first")
    active.run = "second"
    resolved(known, "second")
    active.run = "first"  # what a thread has asked for before the second run began
    assert known.run_of("query") == "second"
    assert not known.has_ended("second")


def test_without_the_jvm_a_task_is_believed(active):
    known, active.run = Streams(None), "first"
    resolved(known, "first")
    active.run = None
    assert resolved(known, "second") == "second"
    assert resolved(known, "") == "first"


def test_what_is_no_report_has_no_task(active):
    for text in ("", "{}", '{"task": 3}', '{"task": {"color": 1}}', "[1, 2]"):
        assert Streams(None).task_of((text, b"")) is None
