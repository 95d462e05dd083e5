"""A query that runs is attached to: watched, scaled, and never harmed."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from flows import NUMBERED, WAIT_S, bag, drop, numbered, some_files, source, sunk, until

import penstock
from penstock.control import Timeline, fixed_costs
from penstock.control.fixed_costs import RecordTime
from penstock.control.saved_scaling import SavedScaling
from penstock.control.timeline import Look, Work
from penstock.errors import PenstockError
from penstock.spark import internals
from penstock.spark.driver.attachment import Attachment
from penstock.spark.driver.query_sensor import QuerySensor, offsets_behind
from penstock.spark.driver.scaling_memory import ScalingMemory

pytestmark = pytest.mark.spark


def more():
    """A scaler that always wants one more instance."""

    class More(penstock.scaling.Scaler):
        def wanted(self, topology, history):
            return {
                name: (history.operators[name].degree + 1, "more is better")
                for name in topology.parents
            }

    return More(max_executors=4)


def broken():
    """A scaler that fails."""

    class Broken(penstock.scaling.Scaler):
        def wanted(self, topology, history):
            raise ZeroDivisionError("this scaler is broken")

    return Broken()


def same():
    def same(record):
        return record

    return same


@pytest.fixture
def begin(spark, tmp_path):
    """Start queries that go on until the test ends."""
    begun = []

    def start(frame, name, trigger="0 seconds"):
        begun.append(
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(processingTime=trigger)
            .queryName(name)
            .start(str(tmp_path / name))
        )
        return begun[-1]

    yield start
    for query in begun:
        query.stop()


@pytest.fixture
def files(spark, tmp_path):
    drop(tmp_path / "in", *some_files(3))
    return source(spark, tmp_path / "in")


def test_a_local_master_cannot_scale(begin, files):
    query = begin(files, "local_only")
    with pytest.raises(PenstockError, match=r"master 'local\[2\]'.*cluster.*dry_run=True"):
        penstock.attach(query, scale=penstock.scaling.Preventive())
    assert query.isActive


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"scale": "preventive"},
            r"scale must be a scaler, such as penstock.*'preventive'",
        ),
        (
            {"scale": penstock.scaling.Preventive},
            r"scale must be a scaler, such as penstock.scaling.Preventive\(",
        ),
        ({"period": "0 s"}, "period must be .*; got"),
        ({"period": "ten"}, "period must be a duration.*got 'ten'"),
        (
            {"period": "5 s"},
            r"period must be at least .*trigger interval \(20 s\); got 5",
        ),
        ({"journal": "/dev/null/x"}, "journal must be a file that can be written"),
    ],
)
def test_mistakes_are_told(begin, files, wrong, message):
    query = begin(files, "mistaken", trigger="20 seconds")
    given = {"scale": penstock.scaling.Preventive(), "dry_run": True, "period": "20 s"}
    with pytest.raises(PenstockError, match=message):
        penstock.attach(query, **{**given, **wrong})
    assert query.isActive
    assert Attachment.of(query) is None


def test_what_is_no_query_is_refused(files):
    with pytest.raises(PenstockError, match="query must be a streaming query of a classic"):
        penstock.attach(files, scale=penstock.scaling.Preventive())


def test_a_query_that_has_ended_is_refused(begin, files):
    query = begin(files, "ended")
    query.stop()
    with pytest.raises(PenstockError, match="query ended has ended; start it again, then attach"):
        penstock.attach(query, scale=penstock.scaling.Preventive(), dry_run=True)


def test_a_query_that_has_failed_is_refused_with_its_failure(begin, files):
    query = begin(files.selectExpr("raise_error('out of paint')"), "failed")
    until(lambda: not query.isActive)
    with pytest.raises(PenstockError, match=r"query failed has failed .*start it again"):
        penstock.attach(query, scale=penstock.scaling.Preventive(), dry_run=True)


def test_a_query_is_attached_once(begin, files):
    query = begin(files, "twice")
    attached = penstock.attach(query, scale=penstock.scaling.Preventive(), dry_run=True)
    with pytest.raises(PenstockError, match=r"twice is attached already; penstock.detach\(query\)"):
        penstock.attach(query, scale=penstock.scaling.Preventive(), dry_run=True)
    penstock.detach(query)
    assert not attached.running
    with pytest.raises(PenstockError, match="query twice is not attached"):
        penstock.detach(query)
    penstock.attach(query, scale=penstock.scaling.Preventive(), dry_run=True).detach()


def test_a_dry_run_watches_and_writes_down(begin, spark, tmp_path):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=4, name="watched")
    drop(tmp_path / "in", *some_files(3))
    query = begin(source(spark, tmp_path / "in").transform(op), "dry")
    journal = tmp_path / "scale.jsonl"
    attached = penstock.attach(query, scale=more(), dry_run=True, period="300 ms", journal=journal)
    assert attached.stats().reason == "no plan yet"
    number = 3
    while attached.stats().wanted is None:
        drop(tmp_path / "in", *some_files(1, start=number), start=number)
        number += 1
        query.processAllAvailable()
    stats = attached.stats()
    assert (stats.executors, stats.dry_run, stats.failures) == (1, True, 0)
    attached.detach()
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    plans = [one for one in entries if one["kind"] == "plan"]
    assert plans
    assert all(one["dry_run"] for one in plans)
    assert "dry: more is better, 2 -> 3" in plans[0]["reason"]
    assert op.stats().active == 4
    assert bag(sunk(spark, tmp_path, "dry")) == bag(
        numbered(spark, 20 * number, entities=4).selectExpr("entity", "n").collect()
    )


def test_a_loop_that_fails_harms_nobody(begin, spark, tmp_path, files, caplog):
    query = begin(files, "unharmed")
    attached = penstock.attach(query, scale=broken(), dry_run=True, period="200 ms")
    number = 3
    while not attached.stats().failures > 1:
        drop(tmp_path / "in", *some_files(1, start=number), start=number)
        number += 1
        query.processAllAvailable()
    stats = attached.stats()
    assert (stats.running, query.isActive) == (True, True)
    assert stats.failure == "ZeroDivisionError: this scaler is broken"
    told = [one.message for one in caplog.records if "this scaler is broken" in one.message]
    assert told == [
        "unharmed: the loop has failed, executors and key groups stay unchanged "
        "(ZeroDivisionError: this scaler is broken)"
    ]
    attached.detach()
    assert len(sunk(spark, tmp_path, "unharmed")) == 20 * number


def test_what_fails_because_spark_has_ended_is_no_failure(begin, files, monkeypatch, caplog):
    attached = penstock.attach(begin(files, "stopped"), scale=more(), dry_run=True, period="1 hour")
    monkeypatch.setattr(internals, "is_stopped", lambda _: True)
    assert attached._try(lambda: 1 / 0) is None
    assert (attached.stats().failures, caplog.messages) == (0, [])


def test_the_loop_ends_with_its_query(begin, files):
    query = begin(files, "over")
    attached = penstock.attach(
        query, scale=penstock.scaling.Preventive(), dry_run=True, period="200 ms"
    )
    query.stop()
    assert not attached.running
    until(attached.journal.entries)
    assert attached.journal.entries()[-1]["reason"] == "the query has ended"
    penstock.detach(query)  # what has ended needs no error


def test_files_that_are_not_read_yet_are_pending(begin, spark, files):
    query = begin(files, "unread", trigger="1 hour")
    sensor = QuerySensor(spark, query)
    seen = []
    until(lambda: seen.extend(sensor.looks()) or seen)
    # One file a batch: two of three have been listed and not read.
    assert [(look.rows, look.behind) for look in seen] == [(20, 40)]


def test_the_sensor_counts_rows_and_the_time_of_tasks(begin, spark, tmp_path, files, monkeypatch):
    # Otherwise such small tasks are fixed costs, until batches differ in size.
    monkeypatch.setattr(fixed_costs, "_TASK_MS", 0.0)
    query = begin(files, "sensed")
    sensor = QuerySensor(spark, query)
    query.processAllAvailable()
    first = sensor.looks()
    assert sum(look.rows for look in first) == 60
    assert all(look.taken_s > 0 for look in first)
    for number in (3, 4, 5):
        drop(tmp_path / "in", *some_files(1, start=number), start=number)
        query.processAllAvailable()
        looks = sensor.looks()
    # Of the first batches only rows are known: executors have just begun.
    assert first[-1].work is None
    assert looks[-1].work is not None
    assert looks[-1].work.processed % 20 == 0
    assert looks[-1].work.busy_ms > 0
    newest = max(internals.jobs_after(spark, str(query.runId), -1))
    stages = internals.job_done(spark, newest).stages
    run = [internals.run_time(spark, stage) for stage in stages]
    assert sum(one.ms for one in run) > 0
    assert sum(one.tasks for one in run) >= len(stages)
    assert sensor.running(active=True).rows == 0


def test_a_batch_was_read_when_its_offsets_were_logged(begin, spark, files):
    query = begin(files, "read", trigger="1 hour")
    sensor = QuerySensor(spark, query)
    seen = []
    until(lambda: seen.extend(sensor.looks()) or seen)
    # Offsets are logged within the batch.
    assert 0 <= seen[0].read_s - seen[0].began_s <= seen[0].taken_s


def test_what_scaling_has_learnt_is_kept_next_to_the_checkpoint(begin, spark, files, caplog):
    query = begin(files, "kept")
    line = Timeline(10.0, 2.0)
    for i in range(5):
        line.add(Look(2.0 * i, 1.5, 20, 0, Work(20 * i, 20 * i, 1_000 * i), slots=1))
    memory = ScalingMemory(spark, str(query.id), "kept")
    assert memory.load(Timeline(10.0, 2.0), RecordTime()) is None
    for executors in (1, 2, 3):
        memory.save(line, RecordTime(), SavedScaling(executors, np.array([4.0])))

    def loaded():
        again = Timeline(10.0, 2.0)
        known = ScalingMemory(spark, str(query.id), "kept").load(again, RecordTime())
        return known.executors, again.fixed

    assert loaded() == (3, pytest.approx(line.fixed))
    # A damaged file is named, and the one before it is used.
    folder = Path(internals.checkpoint_of(spark, str(query.id)).removeprefix("file:")) / "penstock"
    newest = folder / "@query.scaling.3"
    newest.write_bytes(newest.read_bytes()[:-9])
    (folder / ".@query.scaling.3.crc").unlink(missing_ok=True)
    assert loaded() == (2, pytest.approx(line.fixed))
    assert "rates and costs are learnt again" in caplog.text


def test_python_starts_on_executors_that_are_there(spark):
    internals.start_python(spark, ["driver", "gone"], ("json", "no_such_module"))
    internals.start_python(spark, ["gone"], ("json",))
    assert "driver" in internals.executors_at_work(spark)


def test_executors_may_go_between_two_batches_only(spark, tmp_path):
    drop(tmp_path / "in", *some_files(1))
    held = threading.Event()
    stream = source(spark, tmp_path / "in").writeStream.foreachBatch(lambda *_: held.wait(WAIT_S))
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        until(lambda: internals.is_busy(spark, str(query.id)))
        sensor = QuerySensor(spark, query)
        assert not sensor.wait_for_pause(0.2)
        held.set()
        assert sensor.wait_for_pause(WAIT_S)
    finally:
        held.set()
        query.stop()


def test_active_instances_are_followed_by_the_routers(begin, spark, tmp_path):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=4, name="shrunk")
    drop(tmp_path / "in", *some_files(1, 40))
    query = begin(source(spark, tmp_path / "in").transform(op), "active")
    query.processAllAvailable()
    before = np.array([one.records for one in op.stats().instances])
    (controller,) = QuerySensor(spark, query).controllers()
    controller.activate(2)
    drop(tmp_path / "in", *some_files(1, 40, start=1), start=1)
    query.processAllAvailable()
    stats = op.stats()
    got = np.array([one.records for one in stats.instances]) - before
    assert (stats.active, stats.received, stats.processed) == (2, 80, 80)
    assert got[2:].sum() == 0
    assert got[:2].sum() == 40
    controller.activate(4)
    drop(tmp_path / "in", *some_files(2, 40, start=2), start=2)
    query.processAllAvailable()
    assert op.stats().processed == 160
    assert len(sunk(spark, tmp_path, "active")) == 160


def test_a_local_application_is_its_driver(spark):
    assert not internals.can_scale(spark)
    assert internals.executors(spark) == ["driver"]
    assert internals.slots_per_executor(spark) == 2


def test_kafka_tells_by_how_much_it_is_behind():
    source = {
        "description": "KafkaV2[Subscribe[orders]]",
        "startOffset": {"orders": {"0": 10, "1": 10}},
        "endOffset": {"orders": {"0": 20, "1": 15}},
        "latestOffset": {"orders": {"0": 50, "1": 15, "2": 4}},
    }
    assert offsets_behind(source) == 34
    assert offsets_behind({**source, "latestOffset": None}) == 0
    assert offsets_behind({"latestOffset": 7, "endOffset": 3}) == 0
    assert offsets_behind({"latestOffset": {"logOffset": 7}, "endOffset": {"logOffset": 3}}) == 0
