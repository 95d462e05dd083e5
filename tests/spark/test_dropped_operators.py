"""Operators that the user has dropped: their costs are saved, and nothing waits for them."""

import gc
import threading
import time

import pytest
from flows import NUMBERED, WAIT_S, drop, numbered, run, saved_files, some_files, source, until
from pyspark.errors import PythonException

import penstock
from penstock.spark.driver import dropped
from penstock.spark.driver.control_plane import ControlPlane

pytestmark = pytest.mark.spark


def balanced(name="same"):
    return penstock.balance(
        lambda record: record, key="entity", schema=NUMBERED, instances=2, name=name
    )


def used(spark):
    """An operator that has run."""
    op = balanced()
    numbered(spark, 20).transform(op).collect()
    return op


def test_the_garbage_collector_may_drop_an_operator_within_any_lock(spark):
    """A finalizer runs wherever memory is collected, also while the same thread holds a lock."""
    plane, done = ControlPlane.of(spark), threading.Event()
    holder = [used(spark)]

    def drop():
        with plane.registry._lock:
            holder.clear()
            gc.collect()
        done.set()

    threading.Thread(target=drop, daemon=True).start()
    assert done.wait(60)


@pytest.fixture
def plane(spark):
    return ControlPlane.of(spark)


def state_of(plane, identity):
    """The controllers of each registration of an operator."""
    return [len(one.controllers) for one in plane.registry.all(identity)]


def test_the_state_of_a_dropped_operator_is_removed_when_it_is_not_used(spark, plane, monkeypatch):
    op = used(spark)
    identity = op.identity
    monkeypatch.setattr(dropped, "_UNUSED_S", 0.0)
    plane._dropped.remove()
    assert state_of(plane, identity) == [1]  # still held by the user
    del op
    gc.collect()
    plane._dropped.remove()
    assert state_of(plane, identity) == [0]


def test_a_frame_works_whose_operator_was_dropped_before_it_ran(spark, plane, monkeypatch):
    op = balanced()
    frame, identity = numbered(spark, 20).transform(op), op.identity
    del op
    gc.collect()
    monkeypatch.setattr(dropped, "_UNUSED_S", 0.0)
    for _ in range(3):  # as a job that runs every hour
        plane._dropped.remove()
        assert state_of(plane, identity) == [0]
        assert frame.count() == 20
        plane.flush()
        (controller,) = plane.controllers(identity)
        assert controller.stats().received == 20
        assert controller.stats().fallbacks == 0


def test_an_operator_stays_while_tasks_of_its_batch_job_run(spark, plane, monkeypatch, tmp_path):
    """Tasks report when they end; until then nobody uses the operator."""
    go = tmp_path / "go"

    def wait(record):
        end_s = time.monotonic() + WAIT_S
        while not go.exists() and time.monotonic() < end_s:
            time.sleep(0.02)
        return record

    op = penstock.balance(wait, key="entity", schema=NUMBERED, instances=2, name="long")
    frame, identity = numbered(spark, 20).transform(op), op.identity
    del op
    gc.collect()
    monkeypatch.setattr(dropped, "_UNUSED_S", 0.0)
    job = threading.Thread(target=frame.collect)
    job.start()
    try:
        until(lambda: state_of(plane, identity) == [1])
        until(lambda: plane.controllers(identity)[0].stats().received == 20)
        (controller,) = plane.controllers(identity)
        plane._dropped.remove()
        assert plane.controllers(identity) == [controller]
    finally:
        go.touch()
        job.join()
    plane.flush()
    assert controller.stats().processed == 20
    plane._dropped.remove()
    assert state_of(plane, identity) == [0]


@pytest.mark.parametrize("ends", ["taken", "failed"])
def test_a_job_that_ends_early_leaves_no_state(spark, plane, monkeypatch, ends):
    """Tasks that Spark stops, or that fail, report nothing."""

    def fail(record):
        raise ValueError(record)

    op = balanced("early") if ends == "taken" else failing(fail)
    frame, identity = numbered(spark, 20).transform(op), op.identity
    del op
    gc.collect()
    if ends == "taken":
        assert len(frame.take(1)) == 1
    else:
        with pytest.raises(PythonException):
            frame.collect()
    until(lambda: state_of(plane, identity) == [1])
    monkeypatch.setattr(dropped, "_UNUSED_S", 0.0)
    until(lambda: not plane._dropped.remove() and state_of(plane, identity) == [0])


def failing(function):
    return penstock.balance(function, key="entity", schema=NUMBERED, instances=2, name="fails")


def test_a_job_of_an_rdd_keeps_its_operator_for_longer(spark, plane, monkeypatch):
    op = balanced("rdd")
    frame, identity = numbered(spark, 20).transform(op), op.identity
    del op
    gc.collect()
    assert frame.rdd.count() == 20
    monkeypatch.setattr(dropped, "_UNUSED_S", 0.0)
    plane._dropped.remove()
    assert state_of(plane, identity) == [1]
    monkeypatch.setattr(dropped, "_UNKNOWN_S", 0.0)
    plane._dropped.remove()
    assert state_of(plane, identity) == [0]


def test_a_stream_that_waits_for_data_keeps_its_operator(spark, plane, monkeypatch, tmp_path):
    op = balanced("waits")
    (tmp_path / "in").mkdir()
    frame, identity = source(spark, tmp_path / "in").transform(op), op.identity
    del op
    gc.collect()
    monkeypatch.setattr(dropped, "_OF_JOBS", 0)
    plane._dropped.remove()
    assert state_of(plane, identity) == [0]
    drop(tmp_path / "in", *some_files(1))
    run(frame, tmp_path)
    plane.flush()
    (controller,) = plane.controllers(identity)
    assert controller.stats().received == 20
    monkeypatch.setattr(dropped, "_UNUSED_S", 0.0)
    monkeypatch.setattr(dropped, "_OF_STREAMS", 0)
    plane._dropped.remove()  # the stream has ended
    assert state_of(plane, identity) == []


def test_tasks_of_a_closed_operator_leave_the_driver_to_others(spark, plane, caplog):
    closed, other = balanced("closed"), balanced("other")
    frame = numbered(spark, 20).transform(closed)
    plane.unregister(closed.identity)
    for _ in range(2):
        assert frame.count() == 20  # without the driver
    assert caplog.text.count("its tasks still run: they neither balance nor shed") == 1
    assert numbered(spark, 20).transform(other).count() == 20
    assert other.stats().fallbacks == 0


def test_of_many_frames_that_never_ran_the_newest_are_kept(spark, plane, monkeypatch):
    ops = [balanced() for _ in range(3)]
    identities = [op.identity for op in ops]
    for op in ops:
        numbered(spark, 20).transform(op)
    del ops, op
    gc.collect()
    monkeypatch.setattr(dropped, "_OF_JOBS", 1)
    plane._dropped.remove()
    assert [state_of(plane, identity) for identity in identities] == [[], [], [0]]


def test_an_operator_made_in_each_batch_leaves_nothing_behind(spark, plane, tmp_path, monkeypatch):
    identities = []

    def write(batch, _):
        op = balanced("again")
        batch.transform(op).collect()
        identities.append(op.identity)

    monkeypatch.setattr(dropped, "_REPLACED_S", 0.0)
    drop(tmp_path / "in", *some_files(4))
    query = (
        source(spark, tmp_path / "in")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        gc.collect()
        plane._dropped.remove()
        assert [state_of(plane, identity) for identity in identities] == [[], [], [], [1]]
    finally:
        query.stop()
    # The newest state is saved, and no older one after it.
    plane.flush()
    (newest,) = plane.controllers(identities[-1])
    plane._files.save_all(plane._known())
    assert plane._files._idle.wait(WAIT_S)  # another thread may be writing the file
    (*_, saved) = saved_files(tmp_path / "checkpoint", "again")
    assert saved.read_bytes() == newest.save()


def test_an_operator_that_is_applied_again_gets_no_further_finalizer(spark, plane, monkeypatch):
    op, found = used(spark), []
    monkeypatch.setattr(ControlPlane, "forget", lambda _, identity: found.append(identity))
    for _ in range(3):
        numbered(spark, 20).transform(op)
    del op
    gc.collect()
    assert found == []  # the first finalizer has the true method
