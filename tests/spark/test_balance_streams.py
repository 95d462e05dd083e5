"""Balanced operators in streaming queries, on a real local Spark."""

import json
import time

import numpy as np
import pytest
from flows import (
    NUMBERED,
    WAIT_S,
    bag,
    drop,
    numbered,
    run,
    saved_files,
    some_files,
    source,
    sunk,
)
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import functions as sf

import penstock
from penstock.policies.grouping import Proactive

pytestmark = pytest.mark.spark


def same():
    def same(record):
        return record

    return same


def as_rows(files):
    return bag(Row(entity=one["entity"], n=one["n"]) for records in files for one in records)


@pytest.fixture
def files(tmp_path):
    files = some_files()
    drop(tmp_path / "in", *files)
    return files


def test_every_record_once_and_counted(spark, tmp_path, files):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2)
    query = run(source(spark, tmp_path / "in").transform(op), tmp_path)
    assert bag(sunk(spark, tmp_path)) == as_rows(files)
    stats = op.stats()
    assert stats.query == query.id
    assert (stats.batches, stats.received, stats.processed, stats.emitted) == (3, 60, 60, 60)
    assert sum(one.records for one in stats.instances) == 60
    assert stats.state == "RUN"
    assert stats.fallbacks == 0
    seen = [
        p["observedMetrics"]["penstock same"] for p in query.recentProgress if p["numInputRows"]
    ]
    assert [one["received"] for one in seen] == [20, 20, 20]


def test_a_generated_stream_into_memory(spark, tmp_path):
    stream = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=50, numPartitions=2, startTimestamp=0)
        .load()
    )
    op = penstock.balance(same(), key="value", schema=stream.schema, instances=3)
    query = stream.transform(op).writeStream.format("memory").queryName("generated")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        end = time.monotonic() + WAIT_S
        while op.all_stats() == [] or op.stats().batches < 3:
            assert query.isActive
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        query.stop()
    rows = spark.table("generated").collect()
    assert sorted(row.value for row in rows) == list(range(len(rows)))
    assert len(rows) >= 100
    assert all(row.timestamp.microsecond == 0 for row in rows)


def test_the_stream_goes_on_into_windows_and_joins(spark, tmp_path, files):
    def stamped(record):
        return {**record, "at": f"2024-01-01 00:{record['n'] // 10:02}:00"}

    op = penstock.balance(stamped, key="entity", schema=f"{NUMBERED}, at string", instances=2)
    names = spark.createDataFrame(
        [(f"e{i}", f"name{i}") for i in range(4)], "entity string, name string"
    )
    counted = (
        source(spark, tmp_path / "in")
        .transform(op)
        .withColumn("at", sf.to_timestamp("at"))
        .withWatermark("at", "1 hour")
        .join(names, "entity")
        .groupBy(sf.window("at", "20 minutes"), "name")
        .agg(sf.sum("n").alias("total"))
    )
    query = counted.writeStream.format("memory").queryName("windows").outputMode("complete")
    query = query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert query.start().awaitTermination(WAIT_S)
    found = {row["name"]: row.total for row in spark.table("windows").collect()}
    assert found == {f"name{i}": sum(range(i, 60, 4)) for i in range(4)}


def test_inside_for_each_batch_it_keeps_what_it_has_learnt(spark, tmp_path, files):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2)
    found = []

    def take(frame, number):
        found.extend(frame.transform(op).collect())

    query = source(spark, tmp_path / "in").writeStream.foreachBatch(take)
    query = query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert query.start().awaitTermination(WAIT_S)
    assert bag(found) == as_rows(files)
    assert (op.stats().batches, op.stats().received, op.stats().processed) == (3, 60, 60)


def test_two_operators_in_one_query_keep_apart(spark, tmp_path, files):
    def slow(record):
        time.sleep(0.005)
        return [record, record]

    def fast(record):
        return record if record["n"] % 2 else None

    slow_op = penstock.balance(slow, key="entity", schema=NUMBERED, instances=2)
    fast_op = penstock.balance(fast, key="n", schema=NUMBERED, instances=3)
    stream = source(spark, tmp_path / "in").transform(slow_op).transform(fast_op)
    query = run(stream, tmp_path)
    expected = [one for records in files for one in records if one["n"] % 2]
    assert bag(sunk(spark, tmp_path)) == as_rows([expected, expected])
    first, second = slow_op.stats(), fast_op.stats()
    assert (first.name, first.processed, first.emitted) == ("slow", 60, 120)
    assert (second.name, second.processed, second.emitted) == ("fast", 120, 60)
    assert (len(first.instances), len(second.instances)) == (2, 3)
    assert first.query == second.query == query.id
    assert sum(one.busy_ms for one in first.instances) >= 300
    # What slow records cost is no news for the fast operator.
    controllers = [op._plane.controllers(op.identity) for op in (slow_op, fast_op)]
    assert [len(found) for found in controllers] == [1, 1]
    keys = {"slow": sf.xxhash64(sf.lit("e1")), "fast": sf.xxhash64(sf.lit(1))}
    hashes = spark.range(1).select(*[column.alias(name) for name, column in keys.items()]).first()
    for op, [controller], key in zip((slow_op, fast_op), controllers, hashes, strict=True):
        policy = op._make_grouping(2)
        policy.restore(controller.snapshot("asked by a test").data)
        assert (policy.expected_ms([key])[0] >= 5) == (op is slow_op)


def test_two_queries_at_once_keep_apart(spark, tmp_path):
    many, few = some_files(3, 20), some_files(2, 10)
    drop(tmp_path / "many", *many)
    drop(tmp_path / "few", *few)
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2, name="both")
    frames = {name: source(spark, tmp_path / name).transform(op) for name in ("many", "few")}
    queries = [
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / f"{name}-out"))
        for name, frame in frames.items()
    ]
    for query in queries:
        assert query.awaitTermination(WAIT_S)
    assert bag(sunk(spark, tmp_path, "many-out")) == as_rows(many)
    assert bag(sunk(spark, tmp_path, "few-out")) == as_rows(few)
    counted = {stats.query: (stats.batches, stats.processed) for stats in op.all_stats()}
    assert counted == {queries[0].id: (3, 60), queries[1].id: (2, 20)}


def test_a_query_keeps_its_stats_when_the_operator_is_used_again(spark, tmp_path, files):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2, name="again")
    query = run(source(spark, tmp_path / "in").transform(op), tmp_path)
    numbered(spark, 30).transform(op).collect()
    assert {s.query: s.processed for s in op.all_stats()} == {query.id: 60, "": 30}


def test_costs_of_a_short_query_are_kept_for_the_next(spark, tmp_path, files):
    def again(path):
        op = penstock.balance(
            same(), key="entity", schema=NUMBERED, instances=2, name="kept", journal=path
        )
        run(source(spark, tmp_path / "in").transform(op), tmp_path)
        return op.stats()

    again(None)
    drop(tmp_path / "in", *some_files(1, start=3), start=3)
    stats = again(tmp_path / "journal")
    assert (stats.batches, stats.received, stats.state) == (1, 20, "RUN")
    entries = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert entries[0]["reason"] == "resumed with saved costs"
    assert "RUN" in entries[1]["reason"]


def test_costs_are_kept_whatever_session_the_query_is_of(spark, tmp_path, files):
    numbered(spark, 1).transform(
        penstock.balance(same(), key="entity", schema=NUMBERED, instances=2)
    ).collect()  # the first session has been seen
    other = spark.newSession()
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2, name="elsewhere")
    query = source(other, tmp_path / "in").transform(op).writeStream.format("parquet")
    query = query.option("checkpointLocation", str(tmp_path / "out-checkpoint"))
    query = query.start(str(tmp_path / "out"))
    try:
        query.processAllAvailable()
        end = time.monotonic() + WAIT_S
        while not saved_files(tmp_path / "out-checkpoint", "elsewhere"):
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        query.stop()


def test_records_go_where_the_policy_says(spark, tmp_path):
    def sleepy(record):
        time.sleep(0.005 if record["entity"] == "e0" else 0)
        return {**record, "instance": TaskContext.get().partitionId()}

    drop(tmp_path / "in", *some_files(4, 40))
    grouping = Proactive(3, capacity=64)
    schema = f"{NUMBERED}, hash long, instance int"
    op = penstock.balance(sleepy, key="entity", schema=schema, grouping=grouping)
    stream = source(spark, tmp_path / "in").withColumn("hash", sf.xxhash64("entity"))
    run(stream.transform(op), tmp_path)
    rows = sorted(sunk(spark, tmp_path), key=lambda row: row.n)
    assert [row.n for row in rows] == list(range(160))
    [controller] = op._plane.controllers(op.identity)
    for batch in range(4):
        policy = grouping.clone()
        policy.restore(controller.snapshot(str(batch)).data)
        assert policy.state == ("RUN" if batch else "ROUND ROBIN")
        policy.begin(0)  # one file, one router
        part = rows[40 * batch : 40 * (batch + 1)]
        told = policy.route_together(np.array([row.hash for row in part]))
        assert told.tolist() == [row.instance for row in part]
