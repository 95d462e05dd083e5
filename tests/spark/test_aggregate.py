"""Keyed aggregations of batch DataFrames, on a real local Spark."""

from collections import Counter
from datetime import datetime

import pytest
from aggregations import COUNT, kinds
from flows import bag, numbered
from pyspark.sql import Row
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count, Distinct, Mean, Sum, TopK

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("few_partitions")]


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


def test_times_that_pandas_does_not_have(spark):
    frame = spark.createDataFrame([(datetime(9999, 12, 31),)] * 2, "at timestamp")
    op = penstock.aggregate(Count(), key="at", schema=COUNT, instances=2)
    assert bag(frame.transform(op).collect()) == bag(frame.groupBy("at").count().collect())


def test_the_mean_of_decimals(spark):
    frame = spark.range(5).selectExpr("'a' AS k", "cast(id AS decimal(10, 2)) AS price")
    op = penstock.aggregate(Mean("price"), key="k", schema="mean double, count long", instances=2)
    assert frame.transform(op).collect() == [Row(k="a", mean=2.0, count=5)]
