"""Batches fail and are repeated while records are shed: each record is kept once."""

import time
from pathlib import Path

import pytest
from accounts import given, spilled
from flows import TIMED, bag, drop, run, saved_files, sunk, timed_files, unwanted
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException

import penstock
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.executor.snapshots import shared_folder

pytestmark = pytest.mark.spark

STUCK = 55


def attempt(spark, place, shed, instances, fails=False):
    """Run two files a batch through an operator that fails in the second one, if it is to.

    It does when what was shed has been kept.
    """

    kept = place / "spill" / "penstock_batch=1"

    def work(record):
        if fails and record["n"] == STUCK:
            while len(list(kept.glob("[!.]*"))) < fails:
                time.sleep(0.02)
            raise ValueError("cannot do it")
        return record

    op = penstock.balance(
        work,
        key="entity",
        schema=TIMED,
        instances=instances,
        name="careful",
        shed=shed,
        arrival="ts",
        spill=str(place / "spill"),
    )
    stream = spark.readStream.schema(TIMED).option("maxFilesPerTrigger", 2)
    run(stream.json(str(place / "in")).transform(op), place)
    return op


def test_a_batch_whose_decisions_are_damaged_is_decided_about_anew(spark, tmp_path, caplog):
    drop(tmp_path / "in", *timed_files(4))
    with pytest.raises(StreamingQueryException, match="cannot do it"):
        attempt(spark, tmp_path, unwanted(spark, "e1", "e2"), 2, fails=1)
    for pin in saved_files(tmp_path / "out-checkpoint", "careful", "batch"):
        pin.write_bytes(b"garbage")
    op = attempt(spark, tmp_path, unwanted(spark, "e1"), 2)
    assert "careful.batch.1 cannot be used" in caplog.text
    assert spilled(spark, tmp_path) + bag(sunk(spark, tmp_path)) == given(spark, tmp_path)
    assert (op.stats().received, op.stats().shed, op.stats().fallbacks) == (40, 10, 0)


@pytest.mark.parametrize(("before", "files", "after"), [(2, 1, 3), (16, 2, 2)])
def test_another_number_of_instances_after_a_failure_keeps_each_record_once(
    spark, tmp_path, before, files, after
):
    drop(tmp_path / "in", *timed_files(4))
    shedder = unwanted(spark, "e1", "e2")
    with pytest.raises(StreamingQueryException, match="cannot do it"):
        attempt(spark, tmp_path, shedder, before, fails=files)
    attempt(spark, tmp_path, shedder, after)
    assert spilled(spark, tmp_path) + bag(sunk(spark, tmp_path)) == given(spark, tmp_path)


def test_a_restart_in_the_same_process_leaves_no_stale_files(spark, tmp_path):
    """The failed attempt of a batch has more partitions than the second one."""
    drop(tmp_path / "in", *timed_files(8, records=10))
    fails = tmp_path / "fails"
    fails.touch()
    shedder = unwanted(spark, "e1", "e2")
    gate = penstock.shed(shedder, arrival="ts", key="entity", spill=str(tmp_path / "spill"))

    def check(batches):
        yield from batches
        if fails.exists() and TaskContext.get().partitionId() == 6:
            raise ValueError("cannot do it")

    def attempt(partition_bytes):
        spark.conf.set("spark.sql.files.maxPartitionBytes", partition_bytes)
        try:
            stream = spark.readStream.schema(TIMED).json(str(tmp_path / "in"))
            run(stream.transform(gate).mapInArrow(check, stream.schema), tmp_path)
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")

    with pytest.raises(StreamingQueryException, match="cannot do it"):
        attempt("1000")
    stale = {file.name for file in (tmp_path / "spill").glob("*/[!._]*.parquet")}
    assert len(stale) > 2
    fails.unlink()
    attempt("100000000")
    files = {file.name for file in (tmp_path / "spill").glob("*/[!._]*.parquet")}
    assert len(files) <= 2
    assert spilled(spark, tmp_path) + bag(sunk(spark, tmp_path)) == given(spark, tmp_path)
    stats = gate.stats()
    assert (stats.batches, stats.received, stats.shed) == (1, 80, 40)


def test_a_restart_without_the_control_channel_leaves_no_stale_files(spark, tmp_path, monkeypatch):
    """Reports of tasks tell the driver of the new run: nothing is shed in it."""
    drop(tmp_path / "in", *timed_files(2))
    folder = str(tmp_path / "spill")
    fails = tmp_path / "fails"
    fails.touch()

    def work(record):
        if fails.exists() and record["n"] == 32:
            while not list(Path(folder).glob("*/[!._]*.parquet")):
                time.sleep(0.02)
            raise ValueError("cannot do it")
        return record

    op = penstock.balance(
        work,
        key="entity",
        schema=TIMED,
        instances=2,
        shed=unwanted(spark, "e1", "e2"),
        arrival="ts",
        spill=folder,
    )
    frame = spark.readStream.schema(TIMED).json(str(tmp_path / "in")).transform(op)
    with pytest.raises(StreamingQueryException, match="cannot do it"):
        run(frame, tmp_path)
    assert list((tmp_path / "spill").glob("*/[!._]*.parquet"))
    fails.unlink()

    def refuses(request):
        raise ConnectionError("closed")

    plane = ControlPlane.running(spark)
    with monkeypatch.context() as patched:
        patched.setattr(plane.server, "_handler", refuses)
        run(frame, tmp_path)
    address = plane.server.address
    spark.range(1).rdd.foreach(
        lambda _: (shared_folder(address) / "silent").unlink(missing_ok=True)
    )
    stats = op.stats()
    op.close()
    assert not list((tmp_path / "spill").glob("*/[!._]*.parquet"))
    assert bag(sunk(spark, tmp_path)) == given(spark, tmp_path)
    assert (stats.received, stats.processed, stats.shed) == (40, 40, 0)
    assert stats.fallbacks > 0
