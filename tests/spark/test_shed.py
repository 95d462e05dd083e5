"""Operators that shed, and what they spill, on a real local Spark."""

import json
from collections import Counter

import pytest
from flows import (
    TIMED,
    WAIT_S,
    bag,
    drop,
    numbered,
    run,
    saved_files,
    source,
    sunk,
    timed_files,
    unwanted,
)
from pyspark.sql import functions as sf
from shed_records import SLACK, counts, given, numbers, spilled

import penstock
from penstock.policies.shedding import RandomDrop
from penstock.spark.spill import ADDED

pytestmark = pytest.mark.spark

OVER = penstock.shedding.LoadAware(target=penstock.shedding.average("2 s"))


def same():
    def same(record):
        return record

    return same


def balanced(shed, schema=TIMED, **more):
    given = {"key": "entity", "schema": schema, "instances": 2, "arrival": "ts", "name": "shy"}
    return penstock.balance(same(), shed=shed, **{**given, **more})


# What is shed of batches of 20: keys, what is late unless it is of e0, what is drawn (anything).
SHEDDERS = {
    "keys": (lambda spark: unwanted(spark, "e1", "e2"), [10, 10, 10]),
    "late": (lambda spark: OVER, [0, 15, 15]),
    "drawn": (lambda spark: RandomDrop(0.3), None),
}


@pytest.mark.parametrize("kind", SHEDDERS)
def test_received_is_processed_plus_shed_wherever_it_is_counted(spark, tmp_path, kind):
    make, expected = SHEDDERS[kind]
    drop(tmp_path / "in", *timed_files(3))
    protect = "entity = 'e0'" if kind == "late" else None
    op = balanced(make(spark), journal=tmp_path / "journal", protect=protect)
    rows, last = {}, {}

    def take(frame, number):
        rows[number] = frame.collect()
        last[number] = op.stats().last

    writer = source(spark, tmp_path / "in", TIMED).transform(op).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)

    expected = expected or [20 - len(rows[i]) for i in range(3)]
    batches = [(20, shed, 20 - shed) for shed in expected]
    assert [len(rows[i]) for i in range(3)] == [processed for _, _, processed in batches]
    assert [counts(last[i]) for i in range(3)] == batches
    assert [last[i].batch for i in range(3)] == ["0", "1", "2"]
    stats = op.stats()
    assert counts(stats) == tuple(map(sum, zip(*batches, strict=True)))
    assert (stats.batches, stats.emitted, stats.fallbacks) == (3, stats.processed, 0)
    assert stats.query == query.id
    entries = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    told = [entry for entry in entries if "received" in entry]
    assert [(e["batch"], e["received"], e["shed"], e["processed"]) for e in told] == [
        (str(number), *batch) for number, batch in enumerate(batches)
    ]
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    seen = [p["observedMetrics"]["penstock shy"] for p in progress]
    assert [(one["received"], one["shed"], one["admitted"]) for one in seen] == batches
    # Each of them is one of those that were given.
    found = bag(row for batch in rows.values() for row in batch)
    assert found <= given(spark, tmp_path / "in")
    assert set(found.values()) <= {1}
    if kind == "keys":
        assert {row.entity for batch in rows.values() for row in batch} == {"e0", "e3"}


@pytest.mark.parametrize("spills", [False, True])
def test_what_is_shed_as_a_whole_counts_too(spark, tmp_path, spills):
    frame = numbered(spark, 40).withColumn("ts", sf.timestamp_seconds("n"))
    more = {"spill": str(tmp_path / "spill")} if spills else {}
    op = balanced(RandomDrop(1.0), schema=frame.schema, **more)
    for times in (1, 2):
        assert frame.transform(op).collect() == []
        assert counts(op.stats()) == (40 * times, 40 * times, 0)
        assert counts(op.stats().last) == (40, 40, 0)


def test_protected_records_are_all_processed(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(3))
    op = balanced(OVER, protect=sf.col("priority") == "high")
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    # Nothing is shed before something is known; then only those of high priority are not: those
    # without one are not protected.
    expected = [n for n in range(60) if n < 20 or n % 3 == 0]
    assert numbers(sunk(spark, tmp_path)) == expected
    assert counts(op.stats()) == (60, 60 - len(expected), len(expected))


def test_with_slack_nothing_is_shed(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(3))
    op = balanced(penstock.shedding.LoadAware(target=SLACK), journal=tmp_path / "journal")
    stream = source(spark, tmp_path / "in", TIMED).withColumn("ts", sf.current_timestamp())
    run(stream.transform(op), tmp_path)
    assert numbers(sunk(spark, tmp_path)) == list(range(60))
    stats = op.stats()
    assert counts(stats) == (60, 0, 60)
    assert 0 < stats.last.waiting_ms < SLACK.limit_ms
    assert stats.warnings == ()


TYPED = (
    "entity string, n int, ratio double, at timestamp, local timestamp_ntz, tags array<string>, "
    "pair struct<x: int, y: array<struct<z: string>>>, price decimal(10, 2), flag boolean, "
    "day date, by_name map<string, int>, ts timestamp"
)


def typed_file(start):
    def one(n):
        if n % 5 == 0:
            return {"n": n}
        return {
            "entity": f"ü{n % 3}",
            "n": n,
            "ratio": n / 3,
            "at": f"2024-03-31T02:30:00.{n:06}Z",
            "local": f"1969-12-31T23:59:59.{n:06}",
            "tags": ["a", None, "b"][: n % 4],
            "pair": {"x": None, "y": [{"z": "deep"}, None]},
            "price": n / 100,
            "flag": n % 2 == 0,
            "day": "1900-01-01",
            "by_name": {"a": n, "b": None},
            "ts": "2020-01-01T00:00:00Z",
        }

    return [one(n) for n in range(start, start + 20)]


def test_what_is_shed_is_kept_with_its_types_also_of_a_second_query(spark, tmp_path):
    drop(tmp_path / "in", *(typed_file(start) for start in (0, 20, 40)))
    folder = tmp_path / "new" / "spill"
    for name in ("first", "second"):
        op = balanced(unwanted(spark, "ü1", None), schema=TYPED, spill=str(folder))
        run(source(spark, tmp_path / "in", TYPED).transform(op), tmp_path, name)
        assert counts(op.stats()) == (60, 28, 32)
    frame = spark.read.schema(TYPED).json(str(tmp_path / "in"))
    kept = spark.read.parquet(str(folder))
    assert kept.columns == [*frame.columns, *ADDED, "penstock_batch"]
    assert kept.dtypes[: len(frame.columns)] == frame.dtypes
    assert dict(kept.dtypes)["penstock_cost_ms"] == "double"
    assert {tuple(row) for row in kept.select(*ADDED).collect()} == {("shed", 0.0)}
    once = bag(frame.collect())
    assert bag(spilled(spark, folder).where("entity = 'ü1' OR entity IS NULL").collect()) == bag(
        spilled(spark, folder).collect()
    )
    for name in ("first", "second"):
        assert len(sunk(spark, tmp_path, name)) == 32
    found = [*sunk(spark, tmp_path, "first"), *sunk(spark, tmp_path, "second")]
    assert bag(found) + bag(spilled(spark, folder).collect()) == once + once


def test_it_is_told_why_records_were_shed_and_what_they_would_have_cost(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(2))
    op = balanced(OVER, protect="priority = 'high'", spill=str(tmp_path / "spill"))
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    kept = spark.read.parquet(str(tmp_path / "spill")).collect()
    assert numbers(kept) == [n for n in range(20, 40) if n % 3]
    assert {row.penstock_reason for row in kept} == {str(OVER.target)}
    assert all(0 < row.penstock_cost_ms < 1e6 for row in kept)
    assert {row.penstock_batch for row in kept} == {1}


def test_several_routers_and_several_spilling_tasks(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(8))
    stream = spark.readStream.schema(TIMED).option("maxFilesPerTrigger", 4)
    op = balanced(unwanted(spark, "e1"), instances=9, spill=str(tmp_path / "spill"))
    run(stream.json(str(tmp_path / "in")).transform(op), tmp_path)
    found = bag(sunk(spark, tmp_path)) + bag(spilled(spark, tmp_path / "spill").collect())
    assert found == given(spark, tmp_path / "in")
    assert counts(op.stats()) == (160, 40, 120)
    files = [file.parent.name for file in (tmp_path / "spill").glob("penstock_batch=*/*.parquet")]
    assert Counter(files) == {"penstock_batch=0": 2, "penstock_batch=1": 2}


def test_two_operators_of_a_query_may_spill_to_one_folder(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(2))
    ops = [
        balanced(unwanted(spark, key), name=f"without_{key}", spill=str(tmp_path / "spill"))
        for key in ("e1", "e2")
    ]
    stream = source(spark, tmp_path / "in", TIMED)
    run(stream.transform(ops[0]).transform(ops[1]), tmp_path)
    assert [counts(op.stats()) for op in ops] == [(40, 10, 30), (30, 10, 20)]
    found = bag(sunk(spark, tmp_path)) + bag(spilled(spark, tmp_path / "spill").collect())
    assert found == given(spark, tmp_path / "in")


def test_a_column_may_be_called_batch(spark, tmp_path):
    frame = numbered(spark, 40, entities=4).withColumn("batch", sf.col("n") + 100)
    frame = frame.withColumn("ts", sf.timestamp_seconds("n"))
    op = balanced(unwanted(spark, "e1"), schema=frame.schema, spill=str(tmp_path / "spill"))
    assert len(frame.transform(op).collect()) == 30
    kept = spark.read.parquet(str(tmp_path / "spill")).drop(*ADDED)
    assert sorted(row.batch for row in kept.collect()) == list(range(101, 140, 4))


@pytest.mark.parametrize(
    "name",
    [
        "dotted.name",
        "back`tick",
        "spaced name",
    ],
)
def test_the_time_of_arrival_may_have_any_name(spark, name):
    frame = numbered(spark, 20).withColumn("ts", sf.timestamp_seconds("n"))
    frame = frame.withColumnRenamed("ts", name)
    op = balanced(unwanted(spark, "e1"), schema=frame.schema, arrival=name)
    assert len(frame.transform(op).collect()) == 17


@pytest.mark.parametrize("spills", [False, True])
def test_batch_frames_are_shed_too(spark, tmp_path, spills):
    frame = numbered(spark, 300, partitions=3).withColumn("ts", sf.timestamp_seconds("n"))
    more = {"spill": str(tmp_path / "spill")} if spills else {}
    op = balanced(RandomDrop(0.3), schema=frame.schema, **more)
    rows = frame.transform(op).collect()
    shed = 300 - len(rows)
    assert 0 < shed < 200
    assert counts(op.stats()) == counts(op.stats().last) == (300, shed, 300 - shed)
    if spills:
        found = bag(rows) + bag(spilled(spark, tmp_path / "spill").collect())
        assert found == bag(frame.collect())
    else:
        assert bag(rows) <= bag(frame.collect())


def test_what_was_learnt_survives_a_restart(spark, tmp_path):
    def again(start, path):
        drop(tmp_path / "in", *timed_files(1, start=start), start=start)
        op = balanced(OVER, journal=path, spill=str(tmp_path / "spill"))
        run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        return op.stats(), [entry["reason"] for entry in entries if entry["kind"] == "plan"]

    first, plans = again(0, tmp_path / "first")
    assert counts(first) == (20, 0, 20)
    assert [reason.startswith("2 instances, ROUND ROBIN, NOP,") for reason in plans] == [True]
    kept = tmp_path / "out-checkpoint"
    assert [len(saved_files(kept, "shy", kind)) for kind in ("batch", "snapshot")] == [1, 0]
    second, plans = again(1, tmp_path / "second")
    assert counts(second) == (20, 20, 0)  # at once
    assert plans[0] == "resumed with saved costs"
    assert plans[1].startswith("2 instances, RUN, RUN,")
    assert second.state == "RUN"


def test_decisions_are_only_pinned_for_a_spill(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(1))
    op = balanced(OVER)
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    op.close()
    kept = tmp_path / "out-checkpoint"
    assert [len(saved_files(kept, "shy", kind)) for kind in ("batch", "snapshot")] == [0, 1]
