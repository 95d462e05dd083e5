"""Records on which the function fails: they fail the query, are skipped, or are kept once."""

import asyncio
import json

import pandas as pd
import pytest
from flows import NUMBERED, bag, drop, numbered, run, some_files, source, sunk
from pyspark import TaskContext
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import Row

import penstock
from penstock.errors import PenstockError
from penstock.shedding import Shedder
from penstock.spark.spill import ERROR_ADDED

pytestmark = pytest.mark.spark

THIRD = list(range(0, 60, 3))


def picky():
    def picky(record):
        if record["n"] % 3 == 0:
            raise ValueError(f"cannot do {record['n']}")
        return record

    return picky


def balanced(func, **more):
    more = {"key": "entity", "schema": NUMBERED, "instances": 2, **more}
    return penstock.balance(func, **more)


def kept(spark, folder):
    return spark.read.parquet(str(folder))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"on_error": "ignore"}, "unknown on_error 'ignore'; choose one of fail, keep, skip"),
        ({"on_error": "keep"}, "on_error='keep' needs a folder.*errors='path'"),
        ({"on_error": "keep", "errors": ""}, "errors must be the path of a folder; got ''"),
        ({"on_error": "keep", "errors": 3}, "errors must be the path of a folder; got 3"),
        ({"on_error": "skip", "errors": "x"}, "errors is for on_error='keep'; got.*'skip'"),
        ({"errors": "x"}, "errors is for on_error='keep'; got on_error='fail'"),
        ({"max_errors": 3}, "max_errors is for on_error='skip' and 'keep'"),
        ({"on_error": "skip", "max_errors": 0}, "max_errors must be >= 1; got 0"),
        ({"on_error": "skip", "max_errors": 1.5}, r"max_errors must be in \(0, 1\); got 1.5"),
        ({"on_error": "skip", "max_errors": "few"}, "max_errors must be a whole number"),
        ({"timeout": "5 s"}, "timeout needs an async function"),
        ({"on_error": "skip", "form": "arrow_iterator"}, "iterator function cannot go on after"),
        ({"on_error": "keep", "errors": "/proc/no"}, "errors must be a folder that can be written"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(map(str, value)),
)
@pytest.mark.usefixtures("nothing_runs")
def test_mistakes_are_refused_before_a_job_starts(spark, wrong, message):
    with pytest.raises(PenstockError, match=message):
        numbered(spark, 10).transform(balanced(picky(), **wrong))


async def hanging(record):
    await asyncio.sleep(3600)


@pytest.mark.usefixtures("nothing_runs")
def test_more_mistakes(spark, tmp_path):
    with pytest.raises(PenstockError, match=r"timeout must be at least 0.001 s"):
        balanced(hanging, timeout=0.5)
    with pytest.raises(PenstockError, match=r"timeout must be a duration.*'soon'"):
        balanced(hanging, timeout="soon")
    folder = str(tmp_path / "both")
    with pytest.raises(PenstockError, match="errors and spill must be different folders"):
        balanced(
            picky(),
            shed=Anything(),
            arrival="ts",
            spill=folder,
            on_error="keep",
            errors=folder,
        )
    op = balanced(picky(), on_error="keep", errors=folder)
    with pytest.raises(PenstockError, match=r"errors adds columns.*rename penstock_error"):
        numbered(spark, 9).withColumnRenamed("n", "penstock_error").transform(op)


class Anything(Shedder):
    """Sheds nothing."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        raise AssertionError


def test_skipped_records_are_counted_and_sampled(spark):
    op = balanced(picky(), on_error="skip")
    found = numbered(spark, 60).transform(op).collect()
    assert sorted(row.n for row in found) == [n for n in range(60) if n % 3]
    stats = op.stats()
    assert (stats.received, stats.processed, stats.failed, stats.shed) == (60, 40, 20, 0)
    last = stats.last
    assert (last.received, last.processed, last.failed) == (60, 40, 20)
    assert stats.emitted == 40
    tasks = [entry for entry in op.journal.entries() if entry.get("failed")]
    assert sum(entry["failed"] for entry in tasks) == 20
    assert all("ValueError: cannot do" in entry["errors"][0] for entry in tasks)
    [warning] = stats.warnings
    assert "the function failed on" in warning


def test_results_that_do_not_fit_the_schema_are_failures_of_their_records(spark):
    def unfit(record):
        if record["n"] == 7:
            return [{**record}, {**record, "n": "many"}]
        return {**record, "colour": "red"} if record["n"] == 8 else record

    op = balanced(unfit, on_error="skip")
    found = numbered(spark, 20).transform(op).collect()
    assert sorted(row.n for row in found) == [n for n in range(20) if n not in (7, 8)]
    assert (op.stats().processed, op.stats().failed) == (18, 2)


@pytest.mark.parametrize("concurrency", [None, 4], ids=["one", "threads"])
def test_nothing_is_kept_of_a_generator_that_fails_half_way(spark, concurrency):
    def halves(record):
        yield record
        if record["n"] % 10 == 5:
            raise ValueError("half way")
        yield record

    op = balanced(halves, on_error="skip", concurrency=concurrency)
    found = numbered(spark, 60).transform(op).collect()
    assert sorted(row.n for row in found) == sorted(2 * [n for n in range(60) if n % 10 != 5])
    stats = op.stats()
    assert (stats.received, stats.processed, stats.failed, stats.emitted) == (60, 54, 6, 108)


def test_batches_are_searched_for_the_records_that_fail(spark, tmp_path):
    def picky_batch(frame: pd.DataFrame) -> pd.DataFrame:
        if (frame["n"] % 25 == 3).any():
            raise ValueError("a number that ends")
        return frame

    folder = tmp_path / "errors"
    op = balanced(picky_batch, on_error="keep", errors=str(folder))
    found = numbered(spark, 100).transform(op).collect()
    assert sorted(row.n for row in found) == [n for n in range(100) if n % 25 != 3]
    assert sorted(row.n for row in kept(spark, folder).collect()) == [3, 28, 53, 78]
    assert (op.stats().processed, op.stats().failed) == (96, 4)


@pytest.mark.parametrize("grouping", ["factoring", "round_robin"])
def test_kept_records_are_written_once_and_can_be_replayed(spark, tmp_path, grouping):
    drop(tmp_path / "in", *some_files(3))
    folder = tmp_path / "errors"
    op = balanced(picky(), on_error="keep", errors=str(folder), name="op", grouping=grouping)
    run(source(spark, tmp_path / "in").transform(op), tmp_path)
    assert sorted(row.n for row in sunk(spark, tmp_path)) == [n for n in range(60) if n % 3]
    found = kept(spark, folder)
    assert found.columns == ["entity", "n", *ERROR_ADDED, "penstock_batch"]
    rows = found.collect()
    assert sorted(row.n for row in rows) == THIRD
    one = next(row for row in rows if row.n == 33)
    assert one.penstock_error == "ValueError: cannot do 33"
    assert "in picky" in one.penstock_traceback
    assert (one.penstock_operator, one.penstock_batch, one.entity) == ("op", 1, "e1")
    assert one.penstock_instance >= 0
    assert (op.stats().received, op.stats().processed, op.stats().failed) == (60, 40, 20)
    late = penstock.replay(spark, str(folder))
    assert late.columns == ["entity", "n"]
    run(late, tmp_path, "late")
    assert sorted(row.n for row in sunk(spark, tmp_path, "late")) == THIRD


@pytest.mark.parametrize("grouping", ["factoring", "round_robin"])
def test_a_batch_that_runs_again_keeps_each_record_once(spark, tmp_path, grouping):
    """Other records fail the second time: nothing of the first time is left."""
    drop(tmp_path / "in", *some_files(3))
    folder = tmp_path / "errors"
    broken = tmp_path / "broken"
    broken.touch()

    def flaky(record):
        if record["n"] % 3 == (0 if broken.exists() else 1):
            raise ValueError(f"cannot do {record['n']}")
        return record

    def check(batches):
        yield from batches
        if broken.exists() and int(TaskContext.get().getLocalProperty("streaming.sql.batchId")):
            raise ValueError("the sink is broken")

    def attempt():
        op = balanced(
            flaky, on_error="keep", errors=str(folder), name="op", grouping=grouping, tail=None
        )
        stream = source(spark, tmp_path / "in").transform(op)
        # A shuffle between both, so that all files are written before the failure.
        run(stream.repartition(1).mapInArrow(check, stream.schema), tmp_path)

    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        attempt()
    assert kept(spark, folder).where("penstock_batch = 1").count() > 0
    broken.unlink()
    attempt()
    rows = kept(spark, folder).drop(*ERROR_ADDED, "penstock_batch").collect()
    given = bag(Row(**one) for records in some_files(3) for one in records)
    assert bag(rows) + bag(sunk(spark, tmp_path)) == given
    failed = sorted(row.n for row in rows)
    assert failed == [n for n in range(60) if n % 3 == (0 if n < 20 else 1)]


def test_too_many_failures_of_all_tasks_together_fail_the_query(spark):
    for most, fails in ((20, False), (0.34, False), (19, True), (0.33, True)):
        op = balanced(picky(), on_error="skip", max_errors=most, grouping="round_robin")
        frame = numbered(spark, 60).transform(op)
        if fails:
            message = rf"'picky' failed on 20 of 60 records, and max_errors allows {most}"
            with pytest.raises(PythonException, match=message):
                frame.collect()
        else:
            assert frame.count() == 40


def test_a_call_that_hangs_is_an_error_of_its_record(spark, tmp_path):
    async def sometimes(record):
        await asyncio.sleep(3600 if record["n"] == 5 else 0)
        if record["n"] == 6:
            raise TimeoutError("of the service")
        return record

    folder = tmp_path / "errors"
    op = balanced(sometimes, on_error="keep", errors=str(folder), timeout="300 ms")
    assert numbered(spark, 10).transform(op).count() == 8
    errors = {row.n: row.penstock_error for row in kept(spark, folder).collect()}
    assert errors == {
        5: "TimeoutError: no result within 0.3 s",
        6: "TimeoutError: of the service",
    }


def test_the_journal_of_a_failed_batch_is_json(spark, tmp_path):
    path = tmp_path / "journal.jsonl"
    op = balanced(picky(), on_error="skip", journal=path)
    numbered(spark, 12).transform(op).collect()
    op.stats()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line.get("failed", 0) for line in lines) == 4


def test_jobs_on_rdds_of_one_folder_keep_the_failed_records_of_each(spark, tmp_path):
    """A job on an RDD has no execution, and a frame with other files is equal for Spark."""
    op = balanced(picky(), on_error="keep", errors=str(tmp_path / "errors"))
    for start in range(2):
        for file in (tmp_path / "in").glob("*.json"):
            file.unlink()
        drop(tmp_path / "in", *some_files(1, start=start), start=start)
        frame = spark.read.schema(NUMBERED).json(str(tmp_path / "in")).transform(op)
        rdd = frame.rdd
        assert rdd.count() == len(rdd.collect())  # two jobs on one RDD keep each record once
    stats = op.stats()
    assert (stats.batches, stats.received) == (2, 40)
    assert sorted(row.n for row in kept(spark, tmp_path / "errors").collect()) == THIRD[:14]
