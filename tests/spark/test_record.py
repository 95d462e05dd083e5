"""Traces: sampled records of each batch, written once, without payload."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from flows import (
    NUMBERED,
    TIMED,
    drop,
    hash_of,
    numbered,
    run,
    some_files,
    source,
    timed_files,
    unwanted,
)
from pyspark.errors import PythonException

import penstock
from penstock.control.reports import ExecutionReport, TaskId
from penstock.control.samples import Sampler
from penstock.control.stats import FinishedBatch
from penstock.control.trace import METADATA, SCHEMA
from penstock.errors import PenstockError
from penstock.spark.driver import recorder

pytestmark = pytest.mark.spark


def plain():
    def plain(record):
        return record

    return plain


def balanced(func, **more):
    return penstock.balance(func, key="entity", schema=NUMBERED, instances=2, name="op", **more)


def traced(op, folder):
    """All files of a trace, in their order, after the operator has written everything."""
    op.close()
    return [pq.read_table(file) for file in sorted(Path(folder).glob("*.parquet"))]


def numbers(table):
    return json.loads(table.schema.metadata[METADATA])


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("", "record must be the path of a folder; got ''"),
        (3, "record must be the path of a folder; got 3"),
        ("/proc/no", "record must be a folder that can be written; got '/proc/no'"),
        ("nofs://x/y", "record must be a folder of a file system that Arrow knows"),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_that_cannot_be_used_is_refused_before_a_job_starts(spark, folder, message):
    with pytest.raises(PenstockError, match=message):
        numbered(spark, 10).transform(balanced(plain(), record=folder))


def test_each_batch_of_a_stream_is_one_file_with_all_records(spark, tmp_path):
    drop(tmp_path / "in", *some_files(3))
    op = balanced(plain(), record=tmp_path / "trace", size="n")
    run(source(spark, tmp_path / "in").transform(op), tmp_path)
    tables = traced(op, tmp_path / "trace")
    assert [table.num_rows for table in tables] == [20, 20, 20]
    assert all(table.schema.names == SCHEMA.names for table in tables)
    assert set(tables[0]["key"].to_pylist()) == set(hash_of(spark, "e0", "e1", "e2", "e3"))
    assert sorted(tables[1]["size"].to_pylist()) == list(range(20, 40))
    assert tables[2]["batch"].to_pylist() == [2] * 20
    assert min(tables[2]["cost_ms"].to_pylist()) > 0
    assert set(tables[2]["weight"].to_pylist()) == {1.0}
    found = numbers(tables[2])
    assert (found["received"], found["instances"], found["grouping"]) == (20, 2, "factoring")
    assert found["duration_ms"] > 0
    assert found["before"][0] in {"1", "2"}  # the newest batch whose progress is known
    assert sum(found["executors"].values()) >= 1


def test_a_task_that_runs_again_is_recorded_once(tmp_path):
    def report(partition, records):
        sampler = Sampler(10)
        sampler.add(np.arange(records), costs_ms=np.ones(records))
        task = TaskId("op", "q-1", "3", partition)
        return ExecutionReport(task, records, records, 1.0, "a", sample=sampler.pack())

    found = recorder.Recorder.of(tmp_path, "op")
    for one in (report(0, 3), report(1, 4), report(0, 3), report(1, 5)):
        found.add(one)
    batch = FinishedBatch(
        batch="3", received=7, shed=0, processed=7, waiting_ms=float("nan"), duration_ms=9.0,
        operator="op", query="q-1", query_name="q", state="RUN", active=2, imbalance=0.0,
        target_ms=None, warnings=(), finished_s=10.0,
    )  # fmt: skip
    found.write(batch)
    [file] = tmp_path.iterdir()
    assert (file.name, pq.read_table(file).num_rows) == ("op-q1-000000000003.parquet", 7)
    found.add(report(0, 3))
    found.forget("q-1")  # the query starts again, and its batch with it
    found.write(batch)
    assert pq.read_table(file).num_rows == 7
    for one in (report(0, 5), report(1, 2)):
        found.add(one)
    found.write(batch)
    [file] = tmp_path.iterdir()
    assert pq.read_table(file)["task"].to_pylist() == [0] * 5 + [1] * 2


def test_a_batch_that_fails_is_not_recorded(spark, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()

    def flaky(record):
        if record["n"] == 30 and broken.exists():
            raise ValueError("once")
        return record

    op = balanced(flaky, record=str(tmp_path / "trace"))
    with pytest.raises(PythonException, match="once"):
        numbered(spark, 60).transform(op).collect()
    broken.unlink()
    assert len(numbered(spark, 60).transform(op).collect()) == 60
    [table] = traced(op, tmp_path / "trace")
    assert table.num_rows == 60


def test_a_trace_is_bounded(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_RECORDS", 100)
    monkeypatch.setattr(recorder, "MOST_BATCHES", 2)
    drop(tmp_path / "in", *some_files(3, records=1000))
    op = balanced(plain(), record=str(tmp_path / "trace"), grouping="round_robin")
    run(source(spark, tmp_path / "in").transform(op), tmp_path)
    tables = traced(op, tmp_path / "trace")
    assert [numbers(table)["batch"] for table in tables] == ["1", "2"]
    assert [table.num_rows for table in tables] == [128, 128]
    assert [round(sum(table["weight"].to_pylist())) for table in tables] == [1000, 1000]


def test_shed_records_are_recorded_without_a_cost(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(2))
    op = penstock.balance(
        plain(),
        key="entity",
        schema=TIMED,
        instances=2,
        name="op",
        shed=unwanted(spark, "e1"),
        arrival="ts",
        record=str(tmp_path / "trace"),
    )
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    for table in traced(op, tmp_path / "trace"):
        shed = np.array(table["shed"].to_pylist())
        costs_ms = table["cost_ms"].to_numpy()
        assert (table.num_rows, shed.sum(), numbers(table)["shed"]) == (20, 5, 5)
        assert np.array_equal(np.isnan(costs_ms), shed)
        assert set(table["arrival_ms"].to_pylist()) == {1577836800000.0}


def test_shed_in_front_records_everything_but_costs(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(3))
    op = penstock.shed(
        unwanted(spark, "e1"), arrival="ts", key="entity", record=str(tmp_path / "trace")
    )
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    tables = traced(op, tmp_path / "trace")
    assert [numbers(table)["batch"] for table in tables] == ["0", "1"]  # the last one has no next
    assert numbers(tables[0])["in_front"]
    assert [(table.num_rows, sum(table["shed"].to_pylist())) for table in tables] == [(20, 5)] * 2


def test_updates_of_an_aggregation_are_recorded(spark, tmp_path):
    from penstock.aggregators import Mean

    op = penstock.aggregate(
        Mean("n"),
        key="entity",
        schema="mean double, count long",
        record=str(tmp_path / "trace"),
    )
    assert numbered(spark, 70).transform(op).count() == 7
    [table] = traced(op, tmp_path / "trace")
    assert table.num_rows == 70
    assert len(set(table["key"].to_pylist())) == 7
