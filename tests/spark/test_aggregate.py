"""Keyed aggregations of batch and streaming DataFrames, on a real local Spark."""

import time
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from flows import NUMBERED, WAIT_S, bag, drop, numbered, some_files, source
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count, Distinct, Mean, Sum, TopK
from penstock.policies.grouping import RandomChoices

pytestmark = pytest.mark.spark

COUNT = "count long"
TIMED = "entity string, at timestamp"


@pytest.fixture(autouse=True, scope="module")
def few_partitions(spark):
    """Two partitions of states will do."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


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


def stream(frame, place, name="c"):
    """Run an aggregation until nothing is left; return the query and each batch's rows."""
    batches = {}
    query = (
        frame.writeStream.outputMode("update")
        .foreachBatch(lambda rows, number: batches.update({number: rows.collect()}))
        .option("checkpointLocation", str(place / name))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(WAIT_S)
    finally:
        query.stop()
    return query, [batches[number] for number in sorted(batches)]


def newest(batches, *key):
    """The last row of each key."""
    return {tuple(row[name] for name in key): row for rows in batches for row in rows}


def counts(batches):
    return {key: row["count"] for (key,), row in newest(batches, "entity").items()}


def skewed(spark):
    """Half of the records have one key, some have none, and some values are null."""
    return spark.range(0, 600, 1, 3).selectExpr(
        "CASE WHEN id % 2 = 0 THEN 'hot' WHEN id % 9 > 0 THEN concat('e', id % 9) END AS entity",
        "CASE WHEN id % 5 > 0 THEN id % 97 END AS n",
    )


TOP = "slice(sort_array(collect_list(n), false), 1, 3) AS top"


@pytest.mark.parametrize(
    ("aggregator", "schema", "builtin"),
    [
        (Count(), COUNT, ["count(1) AS count"]),
        (Sum("n"), "sum long", ["sum(n) AS sum"]),
        (Mean("n"), "mean double, count long", ["avg(n) AS mean", "count(n) AS count"]),
        (TopK("n", k=3), "top array<long>", [TOP]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "zero") else "",
)
def test_a_batch_equals_groupby(spark, aggregator, schema, builtin):
    frame = skewed(spark)
    op = penstock.aggregate(aggregator, key="entity", schema=schema, instances=2)
    found = frame.transform(op)
    expected = frame.groupBy("entity").agg(*map(sf.expr, builtin))
    assert found.columns == expected.columns
    assert found.dtypes == expected.dtypes
    assert bag(found.collect()) == bag(expected.collect())
    assert op.name == type(aggregator).__name__
    assert (op.stats().received, op.stats().processed) == (600, 600)


def test_distinct_values_are_estimated(spark):
    op = penstock.aggregate(Distinct("n"), key="entity", schema="distinct double", instances=2)
    found = {row.entity: row.distinct for row in skewed(spark).transform(op).collect()}
    exact = skewed(spark).groupBy("entity").agg(sf.countDistinct("n").alias("n")).collect()
    assert {row.entity: round(found[row.entity]) for row in exact} == {r.entity: r.n for r in exact}


KINDS = (
    "text string, number int, `dotted.name` string, day date, at timestamp, local timestamp_ntz, "
    "price decimal(20, 3), raw binary, real double, flag boolean, "
    "pair struct<inner: string, when: timestamp>, several array<struct<a: int, b: binary>>, "
    "span interval day to second"
)


def kinds(spark):
    """Records whose columns are keys of all kinds."""
    at = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    one = {
        "text": "x",
        "number": 1,
        "dotted.name": "dot",
        "day": date(2024, 2, 29),
        "at": at,
        "local": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "price": Decimal("12345678901234567.125"),
        "raw": b"\x00\xff",
        "real": 0.1,
        "flag": True,
        "pair": {"inner": "x", "when": at},
        "several": [{"a": 1, "b": b"\x00"}, {"a": None, "b": None}],
        "span": at - datetime(2024, 1, 1, tzinfo=UTC),
    }
    other = {
        **one,
        "text": "",
        "number": -1,
        "dotted.name": "",
        "day": date(1582, 10, 15),
        "at": datetime(2261, 12, 31, tzinfo=UTC),
        "local": datetime(1678, 1, 1),
        "price": Decimal("-0.001"),
        "raw": b"",
        "real": float("nan"),
        "flag": False,
        "pair": {"inner": None, "when": None},
        "several": [],
        "span": -one["span"],
    }
    nothing = dict.fromkeys(one)
    names = list(one)
    rows = [tuple(record[name] for name in names) for record in [one, other, nothing] * 8 + [one]]
    return spark.createDataFrame(rows, KINDS).repartition(3)


def test_keys_of_all_kinds_keep_values_types_and_names(spark):
    frame = kinds(spark).cache()
    keys = [sf.col(name) for name in frame.columns if name != "dotted.name"]
    keys.append(sf.col("`dotted.name`"))
    op = penstock.aggregate(Count(), key=keys, schema=COUNT, instances=2)
    found, expected = frame.transform(op), frame.groupBy(*keys).count()
    assert found.columns == expected.columns
    assert found.dtypes == expected.dtypes
    assert bag(found.collect()) == bag(expected.collect())
    assert found.count() == 3
    frame.unpersist()


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (lambda: ["several"], ["several"]),
        (lambda: ["pair.inner", "raw", "price"], ["inner", "raw", "price"]),
        (lambda: [sf.to_date("at").alias("day"), "real"], ["day", "real"]),
    ],
    ids=["nested", "path", "expression"],
)
def test_keys_may_be_expressions_and_several(spark, key, names):
    frame = kinds(spark)
    op = penstock.aggregate(Count(), key=key(), schema=COUNT, instances=2)
    found, expected = frame.transform(op), frame.groupBy(*key()).count()
    assert found.columns == [*names, "count"]
    assert found.dtypes == expected.dtypes
    assert bag(found.collect()) == bag(expected.collect())


def test_a_name_with_a_dot_needs_no_quotes(spark):
    op = penstock.aggregate(Count(), key="dotted.name", schema=COUNT, instances=2)
    found = {row["dotted.name"]: row["count"] for row in kinds(spark).transform(op).collect()}
    assert found == {"dot": 9, "": 8, None: 8}


def test_all_records_of_one_key(spark):
    op = penstock.aggregate(Sum("n"), key=sf.lit(1).alias("one"), schema="sum long", instances=3)
    assert numbered(spark, 100).transform(op).collect() == [Row(one=1, sum=4950)]


def test_nothing_comes_of_nothing(spark):
    op = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=2)
    found = numbered(spark, 10).where("n < 0").transform(op)
    assert found.dtypes == [("entity", "string"), ("count", "bigint")]
    assert found.collect() == []


def test_what_finish_may_return(spark):
    def counted(finish, schema):
        functions = {
            "zero": lambda: 0,
            "update": lambda state, record: state + 1,
            "merge": lambda state, other: state + other,
        }
        if finish is not None:
            functions["finish"] = finish
        op = penstock.aggregate(key="entity", schema=schema, instances=2, **functions)
        return sorted(tuple(row) for row in numbered(spark, 10, entities=3).transform(op).collect())

    assert counted(None, "n long") == [("e0", 4), ("e1", 3), ("e2", 3)]
    assert counted(str, "text string") == [("e0", "4"), ("e1", "3"), ("e2", "3")]
    assert counted(lambda n: Row(half=n / 2, n=n), "n long, half double") == [
        ("e0", 4, 2.0),
        ("e1", 3, 1.5),
        ("e2", 3, 1.5),
    ]
    assert counted(lambda n: {"n": n} if n == 4 else None, "n long") == [("e0", 4)]
    assert counted(lambda n: None, "n long") == []
    assert counted(lambda n: {"b": n}, "a string, b long")[0] == ("e0", None, 4)


def test_states_of_several_instances_may_be_changed_in_place(spark):
    def add(state, record):
        state["odd" if record["n"] % 2 else "even"] += 1
        return state

    def both(state, other):
        state.update(other)
        return state

    op = penstock.aggregate(
        key="entity",
        zero=Counter,
        update=add,
        merge=both,
        finish=dict,
        schema="even int, odd int",
        grouping="round_robin",
        instances=3,
    )
    rows = numbered(spark, 90).transform(op).collect()
    expected = Counter((f"e{n % 7}", n % 2) for n in range(90))
    assert {(row.entity, 0): row.even for row in rows} | {
        (row.entity, 1): row.odd for row in rows
    } == expected


def test_a_batch_in_windows_equals_groupby(spark):
    frame = spark.range(0, 200, 1, 3).selectExpr(
        "concat('e', id % 3) AS entity", "timestamp_seconds(id * 60) AS at"
    )
    for length, slide in (("10 minutes", None), ("10 minutes", "5 minutes")):
        window = sf.window("at", length, slide)
        op = penstock.aggregate(Count(), key="entity", schema=COUNT, instances=2, window=window)
        found = frame.transform(op)
        expected = frame.groupBy("entity", window).count()
        assert found.dtypes == expected.dtypes
        assert bag(found.collect()) == bag(expected.collect())


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


def test_times_that_pandas_does_not_have(spark):
    frame = spark.createDataFrame([(datetime(9999, 12, 31),)] * 2, "at timestamp")
    op = penstock.aggregate(Count(), key="at", schema=COUNT, instances=2)
    assert bag(frame.transform(op).collect()) == bag(frame.groupBy("at").count().collect())


def test_the_mean_of_decimals(spark):
    frame = spark.range(5).selectExpr("'a' AS k", "cast(id AS decimal(10, 2)) AS price")
    op = penstock.aggregate(Mean("price"), key="k", schema="mean double, count long", instances=2)
    assert frame.transform(op).collect() == [Row(k="a", mean=2.0, count=5)]
