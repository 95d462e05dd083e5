"""Shed records come back once, when their operator has time for them."""

import time
from collections import Counter

import pytest
from flows import TIMED, WAIT_S, bag, drop, numbered, run, source, sunk, timed_files, unwanted
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf
from spilled import balanced, files_of, three_batches

import penstock
from penstock.control import BatchStats, OperatorStats
from penstock.spark import internals
from penstock.spark.driver import releaser as releasing
from penstock.spark.driver.releaser import Releaser

pytestmark = pytest.mark.spark

COLUMNS = ["entity", "n", "ts", "priority"]
SHED = list(range(1, 60, 4))


def numbers(rows):
    return sorted(row.n for row in rows)


def given(spark, folder):
    return bag(spark.read.schema(TIMED).json(str(folder)).collect())


@pytest.fixture
def folder(spark, tmp_path):
    return three_batches(spark, tmp_path)


@pytest.mark.parametrize("form", ["{}/", "file://{}/"])
def test_what_was_shed_comes_back_once(spark, tmp_path, folder, form):
    frame = penstock.replay(spark, form.format(folder))
    assert frame.isStreaming
    assert frame.columns == COLUMNS
    run(frame, tmp_path, "late")
    found = bag(sunk(spark, tmp_path, "late")) + bag(sunk(spark, tmp_path, "live"))
    assert found == given(spark, tmp_path / "in")


def test_a_replay_goes_on_after_a_restart_and_cleans_up(spark, tmp_path, folder):
    run(penstock.replay(spark, str(folder)), tmp_path, "late")
    assert numbers(sunk(spark, tmp_path, "late")) == SHED
    drop(tmp_path / "in", *timed_files(1, start=3), start=3)
    op = balanced(unwanted(spark, "e1"), spill=str(folder))
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path, "live")
    run(penstock.replay(spark, str(folder)), tmp_path, "late")
    found = bag(sunk(spark, tmp_path, "late")) + bag(sunk(spark, tmp_path, "live"))
    assert found == given(spark, tmp_path / "in")
    assert len(sunk(spark, tmp_path, "late")) == 20
    # Spark deletes files in the background, after the batch that follows them.
    ready = folder.with_name("spill-replay")
    end = time.monotonic() + WAIT_S
    while files_of(ready) > 1:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_records_of_a_batch_that_will_run_again_are_not_replayed(spark, tmp_path, caplog):
    drop(tmp_path / "in", *timed_files(3))
    folder, results, fails = tmp_path / "spill", {}, [True]
    op = balanced(unwanted(spark, "e1"), spill=str(folder))

    def write(batch, number):
        results[number] = numbers(batch.collect())
        if number == 2 and fails:
            raise RuntimeError("the sink is full")

    def start():
        rows = source(spark, tmp_path / "in", TIMED).transform(op).writeStream.foreachBatch(write)
        rows = rows.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return rows.trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        start().awaitTermination(WAIT_S)
    run(penstock.replay(spark, str(folder)), tmp_path, "late")
    assert numbers(sunk(spark, tmp_path, "late")) == SHED[:10]
    assert "their batch was not committed and will run again" in caplog.text
    fails.clear()
    assert start().awaitTermination(WAIT_S)
    op.close()
    run(penstock.replay(spark, str(folder)), tmp_path, "late")
    assert numbers(sunk(spark, tmp_path, "late")) == SHED
    assert sorted(n for rows in results.values() for n in rows) == sorted({*range(60)} - {*SHED})
    assert files_of(folder) == 0


def test_the_time_of_arrival_is_that_of_the_replay(spark, tmp_path, folder):
    before = time.time()
    frame = penstock.replay(spark, str(folder), arrival="ts")
    assert frame.columns == COLUMNS
    run(frame, tmp_path, "late")
    rows = sunk(spark, tmp_path, "late")
    assert numbers(rows) == SHED
    assert all(row.ts.timestamp() > before - 1 for row in rows)


def test_the_type_of_the_time_of_arrival_stays(spark, tmp_path):
    frame = numbered(spark, 20).withColumn("ts", sf.timestamp_seconds("n").cast("timestamp_ntz"))
    op = balanced(unwanted(spark, "e1"), schema=frame.schema, spill=str(tmp_path / "spill"))
    frame.transform(op).collect()
    late = penstock.replay(spark, str(tmp_path / "spill"), arrival="ts")
    assert late.dtypes == frame.dtypes


def test_a_replay_needs_a_column_that_is_there(spark, folder):
    with pytest.raises(penstock.PenstockError, match=r"arrival must.*tss"):
        penstock.replay(spark, str(folder), arrival="tss")


def test_files_are_replayed_when_the_operator_has_slack(spark, tmp_path, folder):
    live = tmp_path / "more"
    drop(live, *timed_files(1, start=3), start=3)
    op = balanced(unwanted(spark, "e1"), name="live", protect="n >= 80")
    late = penstock.replay(spark, str(folder), when=op, every="50 ms", schema=TIMED)
    stream = source(spark, live, TIMED).unionByName(late.withColumn("n", sf.lit(80)))
    query = (
        stream.transform(op)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "busy-checkpoint"))
        .start(str(tmp_path / "busy"))
    )
    try:
        query.processAllAvailable()
        stats = op.stats()
        assert (stats.received, stats.shed, stats.processed) == (20, 5, 15)
        drop(live, *timed_files(1, start=4), start=4)  # nothing of it is shed
        end = time.monotonic() + WAIT_S
        while files_of(folder) or op.stats().received < 55:
            assert query.isActive
            assert time.monotonic() < end
            time.sleep(0.05)
        query.processAllAvailable()
    finally:
        query.stop()
        op.close()
    found = Counter(
        "late" if row.n == 80 and row.entity == "e1" else "live"
        for row in spark.read.parquet(str(tmp_path / "busy")).collect()
    )
    assert found == {"live": 35, "late": 15}


class Clock:
    """A query whose state the test decides about, and a clock that it sets."""

    def __init__(self, monkeypatch, spark, path, limit_ms=2_000.0, trigger_ms=None):
        self.now_s = 0.0
        self.busy = False
        self.batch = BatchStats("7", received=10, shed=0, processed=10, waiting_ms=100.0)
        self.trigger_ms = trigger_ms
        self.reads = True
        monkeypatch.setattr(releasing.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(releasing.internals, "is_busy", lambda spark, query: self.busy)
        monkeypatch.setattr(
            releasing.internals, "trigger_interval_ms", lambda spark, query: self.trigger_ms
        )
        self.path = path
        self.releaser = Releaser(spark, str(path), list, limit_ms=limit_ms, every_s=1.0)

    def released(self, seconds, busy, **batch):
        """Let time pass, and return how many files were released meanwhile."""
        before = files_of(self.path)
        ready = self.path.with_name(f"{self.path.name}-replay")
        self.busy = busy
        if batch:
            self.batch = BatchStats(**{**vars(self.batch), **batch})
        for _ in range(seconds):
            for file in ready.iterdir() if self.reads else ():
                file.unlink()  # as Spark does with what it has read
            self.now_s += 1
            nothing = dict.fromkeys(OperatorStats.__dataclass_fields__)
            self.releaser._look(OperatorStats(**{**nothing, "query": "q", "last": self.batch}))
        return before - files_of(self.path)


@pytest.fixture
def clock(monkeypatch, spark, folder):
    (folder.with_name("spill-replay")).mkdir()
    return Clock(monkeypatch, spark, folder)


def test_a_long_batch_is_not_idle(clock):
    assert clock.released(1, busy=False) == 1  # batch 7 had slack
    assert clock.released(20, busy=True) == 0
    assert clock.released(1, busy=True, batch="8", shed=5) == 0
    assert clock.released(20, busy=True) == 0


def test_a_query_without_work_is_idle_even_if_it_has_shed_before(clock):
    assert clock.released(1, busy=False, shed=5) == 0
    assert clock.released(3, busy=False) == 0  # twice the target is not over
    assert clock.released(2, busy=False) == 1
    assert clock.released(4, busy=False) == 0  # the next batch shows its effect first
    assert clock.released(1, busy=False) == 1


def test_a_query_that_waits_for_its_trigger_is_not_idle(monkeypatch, spark, folder):
    (folder.with_name("spill-replay")).mkdir()
    clock = Clock(monkeypatch, spark, folder, trigger_ms=10_000)
    assert clock.released(1, busy=False, shed=5) == 0
    assert clock.released(19, busy=False) == 0
    assert clock.released(2, busy=False) == 1


def test_records_that_wait_too_long_leave_no_slack(clock):
    assert clock.released(1, busy=True, waiting_ms=1_001.0) == 0
    assert clock.released(1, busy=True, batch="8", waiting_ms=999.0) == 1


def test_more_files_are_released_while_slack_lasts_and_one_after_that(clock):
    (first,) = (clock.path / "penstock_batch=0").glob("[!.]*.parquet")
    for number in range(20, 60):
        copy = first.with_name(f"{first.name.rpartition('-')[0]}-{number}.parquet")
        copy.write_bytes(first.read_bytes())
    waits = {str(batch): 100.0 for batch in range(8, 15)} | {"15": 1_500.0, "16": 100.0}
    released = [clock.released(1, busy=True, batch=b, waiting_ms=ms) for b, ms in waits.items()]
    assert released == [1, 1, 2, 2, 4, 4, 8, 0, 1]


def test_files_that_nobody_reads_hold_up_others(clock):
    clock.reads = False
    assert [clock.released(1, busy=True, batch=str(b)) for b in range(8, 14)] == [1, 0, 0, 0, 0, 0]


def test_a_long_calm_does_not_release_many_files_at_once(clock):
    for number, file in enumerate(clock.path.rglob("[!.]*.parquet")):
        file.rename(clock.path / f"_hidden{number}")
    assert clock.released(1, busy=True, batch="8") == 0
    for batch in range(9, 30):
        clock.released(1, busy=True, batch=str(batch))
    assert clock.releaser._pace.files == 1


def test_a_query_that_has_ended_releases_nothing(clock):
    clock.batch = BatchStats("7", received=1, shed=0, processed=1, waiting_ms=0.0)
    assert clock.released(30, busy=None) == 0


def test_the_newest_replay_of_a_folder_replaces_the_one_before(spark, folder):
    first, second = (balanced(unwanted(spark, "e1"), name=name) for name in ("one", "two"))
    penstock.replay(spark, str(folder), when=first, schema=TIMED, every="50 ms")
    before = Releaser._of_folder[str(folder)]
    penstock.replay(spark, str(folder), when=second, schema=TIMED, every="50 ms")
    assert before._stop.is_set()
    now = Releaser._of_folder[str(folder)]
    assert now is not before
    second.close()
    end = time.monotonic() + WAIT_S
    while str(folder) in Releaser._of_folder:  # it ends with its operator
        assert time.monotonic() < end
        time.sleep(0.05)


def test_whether_a_query_is_busy_is_read_from_spark(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(1))
    held = tmp_path / "held"
    held.touch()

    def hold(batch, number):
        seen.append(internals.is_busy(spark, query_id()))

    seen = []
    query = (
        source(spark, tmp_path / "in", TIMED)
        .writeStream.foreachBatch(hold)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )

    def query_id():
        return next(one.id for one in spark.streams.active)

    try:
        query.processAllAvailable()
        assert seen == [True]
        end = time.monotonic() + WAIT_S
        while internals.is_busy(spark, query.id):
            assert time.monotonic() < end
    finally:
        query.stop()
    assert internals.is_busy(spark, query.id) is None
