"""Balanced operators in batch jobs, on a real local Spark."""

import asyncio
import datetime
import json
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from flows import NUMBERED, bag, numbered
from pyspark import TaskContext
from pyspark.sql import Row, Window
from pyspark.sql import functions as sf

import penstock
from penstock.policies.grouping import KeyHash, RoundRobin

pytestmark = pytest.mark.spark

TYPED = (
    "name string, number int, pair struct<inner: string, other: array<struct<x: int>>>, "
    "tags array<string>, attributes map<string, int>, at timestamp, local timestamp_ntz, "
    "day date, price decimal(10, 2), flag boolean, ratio double, raw binary, "
    "deep array<map<int, string>>, big long"
)


@pytest.fixture(scope="module")
def typed(spark):
    """Records of all types, also as they are collected."""

    def one(i):
        if i % 5 == 0:
            return (None,) * 14
        return (
            f"ü{i % 3}",
            i % 3,
            (f"inner{i % 3}", [(i,), None]),
            ["a", None, "b"][: i % 3],
            {"a": i % 3, "b": 1},
            datetime.datetime(2024, 3, 31, 2, 30, i % 3, 123456),
            datetime.datetime(1969, 12, 31, 23, 59, 59, i % 3),
            datetime.date(1900, 1, 1 + i % 3),
            Decimal(i % 3) / 100,
            i % 2 == 0,
            float(i % 3) / 3,
            bytes([i % 3, 255]),
            [{i % 3: None}, {}],
            2**62 + i,
        )

    frame = spark.createDataFrame([one(i) for i in range(40)], TYPED).repartition(3).cache()
    yield frame, bag(map(tuple, frame.collect()))
    frame.unpersist()


def tagging():
    """A function that adds the instance it runs on."""

    def tag(record):
        return {**record, "instance": TaskContext.get().partitionId()}

    return tag


def with_instance(frame):
    return frame.withColumn("instance", sf.lit(0)).schema


@pytest.mark.parametrize(
    "key",
    [
        "name",
        "number",
        "pair",
        "pair.inner",
        "tags",
        "attributes",
        "deep",
        "at",
        "local",
        "day",
        "price",
        "flag",
        "ratio",
        "raw",
        ["name", "flag"],
        ["pair.inner", "price", "attributes"],
        lambda: sf.upper("name"),
        lambda: [sf.col("number") % 2, "flag"],
    ],
    ids=lambda key: "expression" if callable(key) else str(key),
)
def test_keys_of_all_types_stay_together_and_records_are_untouched(spark, typed, key):
    frame, expected = typed
    key = key() if callable(key) else key  # expressions need a session
    op = penstock.balance(
        tagging(), key=key, schema=with_instance(frame), instances=4, grouping="key_hash"
    )
    keys = key if isinstance(key, list) else [key]
    found = frame.transform(op).withColumn("key", sf.struct(*keys)).collect()
    assert bag(row[:-2] for row in found) == expected
    instances = {}
    for row in found:
        instances.setdefault(repr(row.key), set()).add(row.instance)
    assert len(instances) > 1
    assert all(len(one) == 1 for one in instances.values())


@pytest.mark.parametrize("name", ["dotted.name", "spaced name", "back`tick", "straße", "Upper"])
def test_columns_may_have_any_name(spark, name):
    frame = spark.createDataFrame([(f"k{i % 3}", i) for i in range(30)], [name, f"other {name}"])
    op = penstock.balance(
        lambda record: record, key=name, schema=frame.schema, instances=3, name="named"
    )
    assert bag(frame.transform(op).collect()) == bag(frame.collect())
    assert op.stats().state == "RUN"


@pytest.mark.parametrize("grouping", ["posg", "round_robin", "key_hash", RoundRobin(3), KeyHash(3)])
def test_every_record_once_with_any_grouping(spark, grouping):
    frame = numbered(spark, 500)
    op = penstock.balance(
        tagging(),
        key="entity",
        schema=f"{NUMBERED}, instance int",
        instances=3,
        grouping=grouping,
    )
    found = frame.transform(op)
    assert found.rdd.getNumPartitions() == 3
    rows = found.collect()
    assert bag(Row(entity=r.entity, n=r.n) for r in rows) == bag(frame.collect())
    stats = op.stats()
    assert (stats.received, stats.processed, stats.emitted) == (500, 500, 500)
    counted = Counter(row.instance for row in rows)
    assert [one.records for one in stats.instances] == [counted[i] for i in range(3)]
    assert stats.fallbacks == 0


def test_round_robin_is_even(spark):
    op = penstock.balance(
        tagging(), key="entity", schema="instance int, entity string, n int", grouping=RoundRobin(4)
    )
    rows = numbered(spark, 400, partitions=2).transform(op).collect()
    assert set(Counter(row.instance for row in rows).values()) == {100}


def forms():
    def as_dict(record):
        return {"entity": record["entity"], "n": record["n"] + 1}

    def as_row(row: Row):
        return Row(entity=row.entity, n=row.n + 1)

    def row_of_dict(record: dict):
        return Row(entity=record["entity"], n=record["n"] + 1)

    def other_order(record):
        return {"n": record["n"] + 1, "entity": record["entity"]}

    def batch(records: pa.RecordBatch) -> pa.RecordBatch:
        more = [n + 1 for n in records.column("n").to_pylist()]
        return records.set_column(1, "n", pa.array(more, pa.int32()))

    def batches(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for at in range(0, records.num_rows, 7):
            yield batch(records.slice(at, 7))

    def frames(records: pd.DataFrame) -> pd.DataFrame:
        return records.assign(n=records["n"] + 1)

    def tables(records: "pa.Table") -> pa.Table:
        return pa.Table.from_batches([batch(one) for one in records.to_batches()])

    def all_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        one = 1  # state of the task
        for frame in frames:
            yield frame.assign(n=frame["n"] + one)

    def all_batches(records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(batch, records)

    async def awaited(record):
        await asyncio.sleep(0)
        return {**record, "n": record["n"] + 1}

    async def awaited_row(row: Row):
        return [Row(entity=row.entity, n=row.n + 1)]

    records = as_dict, as_row, row_of_dict, other_order, awaited, awaited_row
    return *records, batch, batches, frames, tables, all_frames, all_batches


@pytest.mark.parametrize("func", forms(), ids=lambda func: func.__name__)
def test_one_in_one_out(spark, func):
    op = penstock.balance(func, key="entity", schema=NUMBERED, instances=2)
    found = numbered(spark, 100).transform(op)
    assert bag(found.collect()) == bag(
        numbered(spark, 100).selectExpr("entity", "n + 1 AS n").collect()
    )
    assert (op.stats().processed, op.stats().emitted) == (100, 100)


@pytest.mark.parametrize(
    ("form", "func"),
    [
        ("arrow", lambda records: [records]),
        ("arrow", lambda records: iter([records.slice(0, 1), records.slice(1)])),
        ("row", lambda row: row),
        ("row", lambda row: [row]),
        ("dict", lambda record: record),
        ("dict", lambda record: (record,)),
    ],
)
def test_the_form_can_be_told(spark, form, func):
    op = penstock.balance(func, key="entity", schema=NUMBERED, instances=2, form=form, name="told")
    assert op.form == form
    frame = numbered(spark, 60)
    assert bag(frame.transform(op).collect()) == bag(frame.collect())


def test_any_number_of_records_may_come_back(spark):
    def several(record):
        n = record["n"]
        if n % 5 == 0:
            return None
        if n % 5 == 1:
            return []
        if n % 5 == 2:
            return (Row(n=n) for _ in range(2))
        return [{"n": n}] * 3 if n % 5 == 3 else {"n": n}

    op = penstock.balance(several, key="entity", schema="n int", instances=2)
    found = Counter(row.n for row in numbered(spark, 50).transform(op).collect())
    assert found == Counter({n: [0, 0, 2, 3, 1][n % 5] for n in range(50) if n % 5 > 1})
    stats = op.stats()
    assert (stats.received, stats.processed, stats.emitted) == (50, 50, 60)


@pytest.mark.parametrize(
    ("func", "form"), [(lambda record: None, "dict"), (lambda batch: [], "arrow")]
)
def test_nothing_may_come_back(spark, func, form):
    op = penstock.balance(func, key="entity", schema="n int", instances=2, form=form, name="none")
    assert numbered(spark, 30).transform(op).collect() == []
    assert (op.stats().processed, op.stats().emitted) == (30, 0)


def test_an_empty_frame_gives_an_empty_frame(spark):
    op = penstock.balance(lambda r: r, key="entity", schema=NUMBERED, instances=2, name="empty")
    assert numbered(spark, 0).transform(op).collect() == []


def test_missing_columns_are_null(spark):
    op = penstock.balance(
        lambda r: {"n": r["n"]}, key="n", schema=NUMBERED, instances=2, name="partial"
    )
    assert {row.entity for row in numbered(spark, 9).transform(op).collect()} == {None}


def test_the_result_is_an_ordinary_frame(spark):
    frame = numbered(spark, 70)

    def double(record):
        return {"entity": record["entity"], "n": 2 * record["n"]}

    op = penstock.balance(double, key="entity", schema=NUMBERED, instances=3)
    found, expected = frame.transform(op), frame.selectExpr("entity", "2 * n AS n")
    newest = Window.partitionBy("entity").orderBy(sf.desc("n"))
    for go_on in (
        lambda f: f.groupBy("entity").agg(sf.sum("n"), sf.count("*")),
        lambda f: f.withColumn("rank", sf.row_number().over(newest)).where("rank < 3"),
        lambda f: f.join(frame.select("n", sf.lit("here").alias("side")), "n"),
    ):
        assert bag(go_on(found).collect()) == bag(go_on(expected).collect())


def test_watch_and_journal_tell_what_happened(spark, tmp_path, capsys):
    path = tmp_path / "new" / "journal.jsonl"
    op = penstock.balance(
        lambda r: r, key="entity", schema=NUMBERED, instances=2, name="told", journal=path
    )
    numbered(spark, 64).transform(op).collect()
    op.watch(seconds=0.1)
    shown = capsys.readouterr().out
    assert "told" in shown
    assert "64 records" in shown
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert entries[0]["kind"] == "plan"
    assert "2 instances" in entries[0]["reason"]
    assert sum(e.get("records", 0) for e in entries if e["kind"] == "observation") == 64
    assert {e["operator"] for e in entries} == {"told"}


def test_instances_are_the_slots_by_default(spark):
    op = penstock.balance(lambda r: r, key="entity", schema=NUMBERED, name="default")
    assert len(numbered(spark, 10).transform(op).collect()) == 10
    assert len(op.stats().instances) == spark.sparkContext.defaultParallelism


def test_batches_of_all_types_go_through_a_batch_function(spark):
    frame = spark.range(20).selectExpr(
        "cast(id % 3 as string) AS entity",
        "timestamp_seconds(id) AS at",
        "timestamp_seconds(id)::timestamp_ntz AS local",
        "date_from_unix_date(cast(id as int)) AS day",
        "cast(id as decimal(10, 2)) AS price",
        "array(id) AS several",
        "map('n', id) AS by_name",
        "named_struct('at', timestamp_seconds(id)) AS nested",
    )

    def untouched(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    op = penstock.balance(untouched, key="entity", schema=frame.schema, instances=2)
    found = frame.transform(op).drop("by_name").collect()
    assert sorted(map(repr, found)) == sorted(map(repr, frame.drop("by_name").collect()))


def test_a_blocking_call_in_an_async_function_is_a_warning(spark, caplog):
    async def blocking(record):
        if record["n"] == 3:
            time.sleep(1.5)
        return record

    op = penstock.balance(blocking, key="entity", schema=NUMBERED, instances=2)
    assert len(numbered(spark, 6).transform(op).collect()) == 6
    [warning] = op.stats().warnings
    assert "has blocked its event loop for 1." in warning
    assert f"blocking: {warning}" in caplog.text
