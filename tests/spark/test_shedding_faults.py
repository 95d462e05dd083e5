"""Drivers and the control channel die while records are shed: each is kept once."""

import json
import time

import pytest
from flows import TIMED, bag, drop, run, saved_files, sunk, timed_files, unwanted
from jobs_of import finished, kill, started, until
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from test_aggregate_faults import committed

import penstock
from penstock.spark.spill import ADDED

pytestmark = pytest.mark.spark

STUCK = 55


def given(spark, place):
    return bag(spark.read.schema(TIMED).json(str(place / "in")).collect())


def spilled(spark, place):
    """What is in the spill folder, without what was added to it."""
    return bag(spark.read.parquet(str(place / "spill")).drop(*ADDED, "penstock_batch").collect())


def spilled_in(place, batch):
    return sorted((place / "spill" / f"penstock_batch={batch}").glob("[!.]*.parquet"))


def stats_of(place):
    return json.loads((place / "stats.json").read_text())


def stuck_in_the_second_batch(place):
    """Whether a batch has kept what it has shed, and is stuck with what it has not."""
    return (place / "stuck").exists() and spilled_in(place, 1)


@pytest.mark.apart
def test_a_killed_driver_keeps_each_record_once(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(6))  # two of them in each batch
    with started("shed", tmp_path, STUCK, "local[2]") as process:
        until(lambda: stuck_in_the_second_batch(tmp_path), process, "shed", tmp_path)
        assert committed(tmp_path / "checkpoint") == 1
        kill(process)
    [file] = spilled_in(tmp_path, 1)
    before = bag(spark.read.parquet(str(file)).collect())
    (tmp_path / "go").touch()
    finished("shed", tmp_path, STUCK, "local[2]")
    assert spilled(spark, tmp_path) + bag(sunk(spark, tmp_path)) == given(spark, tmp_path)
    # Other records would be shed now: it was decided about them before.
    [file] = spilled_in(tmp_path, 1)
    assert bag(spark.read.parquet(str(file)).collect()) == before
    stats = stats_of(tmp_path)
    assert (stats["received"], stats["fallbacks"]) == (80, 0)
    assert stats["shed"] + stats["processed"] == 80


@pytest.mark.apart
def test_without_the_control_channel_nothing_is_shed(spark, tmp_path):
    files = timed_files(5)  # 5 records of e1 in each
    drop(tmp_path / "in", *files[:2])
    drop(tmp_path / "later", *files[2:], start=2)
    finished("deaf", tmp_path, "shed")
    rows = sunk(spark, tmp_path)
    assert spilled(spark, tmp_path) + bag(rows) == given(spark, tmp_path)
    stats = stats_of(tmp_path)
    before, after = stats["before"], stats["after"]
    assert (before["received"], before["shed"], before["processed"]) == (40, 10, 30)
    assert (after["received"], after["shed"], after["processed"]) == (100, 10, 90)
    assert (before["fallbacks"], after["fallbacks"]) == (0, 3)
    assert "the driver" in after["fallback_reason"]
    assert sorted(row.n for row in rows if row.entity == "e1") == list(range(41, 100, 4))


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
