"""Keyed aggregations of streaming DataFrames, on a real local Spark."""

import time
from collections import Counter

import pytest
from aggregations import COUNT, kinds, stream
from flows import NUMBERED, WAIT_S, bag, drop, some_files, source
from pyspark import TaskContext
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count, Sum
from penstock.policies.grouping import RandomChoices

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("few_partitions")]

TIMED = "entity string, at timestamp"


def places():
    """Functions that count a key's records, and keep which tasks have updated it."""

    def update(state, record):
        return state[0] + 1, state[1] | {TaskContext.get().partitionId()}

    return {
        "zero": lambda: (0, frozenset()),
        "update": update,
        "merge": lambda state, other: (state[0] + other[0], state[1] | other[1]),
        "finish": lambda state: {"count": state[0], "tasks": sorted(state[1])},
        "schema": "count long, tasks array<int>",
    }


def newest(batches, *key):
    """The last row of each key."""
    return {tuple(row[name] for name in key): row for rows in batches for row in rows}


def counts(batches):
    return {key: row["count"] for (key,), row in newest(batches, "entity").items()}


def test_a_stream_equals_groupby(spark, tmp_path):
    files = some_files(3, 40, entities=5)
    drop(tmp_path / "in", *files)
    op = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=2, name="tally")
    query, batches = stream(source(spark, tmp_path / "in").transform(op), tmp_path)
    assert counts(batches) == Counter(one["entity"] for records in files for one in records)
    stats = op.stats()
    assert (stats.name, stats.query, stats.batches) == ("tally", query.id, 3)
    assert (stats.received, stats.processed) == (120, 120)
    assert sum(one.records for one in stats.instances) == 120
    seen = [p for p in query.recentProgress if p["numInputRows"]]
    assert [p["observedMetrics"]["penstock tally"]["received"] for p in seen] == [40, 40, 40]
    assert [p["stateOperators"][0]["numRowsTotal"] for p in seen] == [5, 5, 5]


def test_a_stream_has_rows_for_keys_that_have_changed(spark, tmp_path):
    files = [["a", "a", "b"], ["b", "c"], ["a", None]]
    drop(tmp_path / "in", *[[{"entity": e, "n": 1} for e in entities] for entities in files])
    op = penstock.aggregate(Sum("n"), key="entity", schema="sum long", instances=2)
    _, batches = stream(source(spark, tmp_path / "in").transform(op), tmp_path)
    assert [bag(tuple(row) for row in rows) for rows in batches] == [
        bag([("a", 2), ("b", 1)]),
        bag([("b", 2), ("c", 1)]),
        bag([("a", 3), (None, 1)]),
    ]


def test_a_stream_of_keys_of_all_kinds(spark, tmp_path):
    frame = kinds(spark)
    for number in range(2):
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        assert len(list((tmp_path / "in").glob("*.parquet"))) == number + 1
    read = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    keys = [sf.col(f"`{name}`") for name in frame.columns]
    op = penstock.aggregate(Count(), key=keys, schema=COUNT, instances=2)
    _, batches = stream(read.parquet(str(tmp_path / "in")).transform(op), tmp_path)
    assert [len(rows) for rows in batches] == [3, 3]
    expected = frame.union(frame).groupBy(*keys).count().collect()
    assert bag(batches[-1]) == bag(expected)


@pytest.mark.parametrize(
    ("grouping", "least", "most"),
    [("cg", 2, 3), ("posg", 2, 3), (RandomChoices(instances=3), 2, 3), ("key_hash", 1, 1)],
    ids=str,
)
def test_a_hot_key_is_updated_by_several_tasks(spark, tmp_path, grouping, least, most):
    records = [{"entity": "hot" if n % 5 else f"e{n}", "n": n} for n in range(200)]
    drop(tmp_path / "in", records, records)
    instances = 3 if isinstance(grouping, str) else None
    op = penstock.aggregate(key="entity", grouping=grouping, instances=instances, **places())
    _, batches = stream(source(spark, tmp_path / "in").transform(op), tmp_path)
    found = newest(batches, "entity")
    assert {key: row["count"] for (key,), row in found.items()} == Counter(
        one["entity"] for one in records * 2
    )
    assert least <= len(found["hot",].tasks) <= most
    assert op.stats().processed == 400


def test_it_goes_on_from_the_checkpoint(spark, tmp_path):
    def attempt():
        op = penstock.aggregate(Sum("n"), key="entity", schema="sum long", instances=2)
        found = stream(source(spark, tmp_path / "in").transform(op), tmp_path)[1]
        return op.stats(), found

    files = some_files(4)
    drop(tmp_path / "in", *files[:2])
    attempt()
    drop(tmp_path / "in", *files[2:], start=2)
    stats, batches = attempt()
    assert (stats.batches, stats.received, stats.processed) == (2, 40, 40)
    expected = Counter()
    for one in (one for records in files for one in records):
        expected[one["entity"]] += one["n"]
    assert {key: row.sum for (key,), row in newest(batches, "entity").items()} == expected


def test_it_goes_on_with_another_number_of_instances(spark, tmp_path):
    files = some_files(2)
    drop(tmp_path / "in", files[0])
    for number, instances in enumerate((1, 4)):
        drop(tmp_path / "in", files[number], start=number)
        op = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=instances)
        _, batches = stream(source(spark, tmp_path / "in").transform(op), tmp_path)
    assert counts(batches) == dict.fromkeys(["e0", "e1", "e2", "e3"], 10)


def minutes(*records):
    """Records of entities at so many minutes past midnight."""
    return [
        {"entity": entity, "at": f"2024-03-10T{m // 60:02}:{m % 60:02}:00Z"}
        for entity, m in records
    ]


TIMES = [
    minutes(("a", 1), ("a", 9), ("b", 3), (None, 4), ("a", 12)),
    minutes(("a", 25), ("b", 9), ("a", 10)),
    minutes(("a", 9), ("b", 5), ("a", 10), ("b", 19), ("c", 26)),
    minutes(("a", 45), ("c", 29), ("a", 1)),
    minutes(("a", 14), ("c", 29), ("c", 30), ("c", 36), ("a", 1), ("d", 3)),
    minutes(("d", 44), ("a", 14), ("c", 21), (None, 33)),
]


def test_windows_end_as_those_of_spark(spark, tmp_path):
    window = sf.window("at", "10 minutes", "5 minutes")

    def mine(events):
        op = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=2, window=window)
        return events.transform(op)

    def theirs(events):
        return events.groupBy("entity", window).count()

    def ended(aggregation):
        """Rows of each batch, and how many states there were and records too late."""
        rows, states, late = [], [], []
        for part in (0, 3):  # restarted from the checkpoint in between
            drop(tmp_path / aggregation.__name__, *TIMES[part : part + 3], start=part)
            events = source(spark, tmp_path / aggregation.__name__, TIMED)
            events = aggregation(events.withWatermark("at", "9 minutes"))
            query, batches = stream(events, tmp_path, f"{aggregation.__name__} checkpoint")
            progress = [one["stateOperators"][0] for one in query.recentProgress]
            rows += batches
            states += [one["numRowsTotal"] for one in progress]
            late += [one["numRowsDroppedByWatermark"] for one in progress]
        return [bag(batch) for batch in rows], states, late

    found, expected = ended(mine), ended(theirs)
    assert found == expected
    rows, states, late = found
    assert len(rows) >= 6
    assert states[-1] < max(states)
    assert sum(late) > 0


def test_a_key_that_was_idle_starts_anew(spark, tmp_path):
    drop(tmp_path / "in", *some_files(1, 40))
    op = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=2, ttl="2 seconds")
    batches = []
    query = (
        source(spark, tmp_path / "in")
        .transform(op)
        .writeStream.outputMode("update")
        .foreachBatch(lambda rows, number: batches.append(rows.collect()))
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )

    def until(condition):
        end = time.monotonic() + WAIT_S
        while not condition():
            assert query.isActive
            assert time.monotonic() < end
            time.sleep(0.1)

    def states():
        progress = query.lastProgress
        return progress["stateOperators"][0]["numRowsTotal"] if progress else None

    try:
        until(lambda: counts(batches) == dict.fromkeys(["e0", "e1", "e2", "e3"], 10))
        until(lambda: states() == 0)
        batches.clear()
        drop(tmp_path / "in", [{"entity": "e1", "n": 1}], start=1)
        until(lambda: counts(batches) == {"e1": 1})
    finally:
        query.stop()
    assert op.stats().processed == 41


def test_two_aggregations_of_one_stream_keep_apart(spark, tmp_path):
    files = some_files(2)
    drop(tmp_path / "in", *files)
    double = penstock.balance(
        lambda record: [record, record], key="entity", schema=NUMBERED, instances=2, name="double"
    )
    count = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=2)
    rows = source(spark, tmp_path / "in").transform(double)
    _, batches = stream(rows.transform(count), tmp_path)
    assert counts(batches) == dict.fromkeys(["e0", "e1", "e2", "e3"], 20)
    assert (double.stats().processed, double.stats().emitted) == (40, 80)
    assert (count.stats().received, count.stats().processed) == (80, 80)
