"""Costs that follow the size of records, on a real local Spark."""

import time

import numpy as np
import pytest
from flows import NUMBERED, bag, numbered, unwanted
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Mean
from penstock.errors import PenstockError
from penstock.shedding import LoadAware, average

pytestmark = pytest.mark.spark


def identity():
    """A function that executors get as such, and not by its name."""

    def same(record):
        return record

    return same


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"size": "entity"},
            r"size must be a number; entity is string. Write 'octet_length\(entity\)'",
        ),
        ({"size": "array(n)"}, r"size must be a number; array\(n\) is array<int>.*'size\("),
        ({"size": "n > 3"}, "size must be a number; n > 3 is boolean"),
        ({"size": "missing"}, "size must be a column.*got missing.*It has entity, n"),
        ({"size": "length("}, r"size must be a column.*got length\("),
        ({"size": 3}, "size must be a column or an expression, such as.*got 3"),
        ({"size": ""}, "size must be a column or an expression"),
        ({"size": "n", "grouping": "key_hash"}, "size needs a grouping that learns.*'key_hash'"),
        ({"key": None}, "key must be a column or a list of columns; got None"),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_wrong_sizes_are_refused_before_a_job_starts(spark, wrong, message):
    arguments = {"key": "entity", "schema": NUMBERED, "instances": 2, **wrong}
    frame = numbered(spark, 10)
    with pytest.raises(PenstockError, match=f"(?s){message}"):
        frame.transform(penstock.balance(identity(), **arguments))


def test_aggregate_needs_a_grouping_with_costs_for_sizes():
    mean = Mean("n")
    with pytest.raises(PenstockError, match=r"size needs a grouping that learns costs.*'cg'"):
        penstock.aggregate(mean, key="entity", size="n", schema="mean double, count long")
    with pytest.raises(PenstockError, match="key must be a column"):
        penstock.aggregate(mean, key=None, size="n", grouping="posg", schema="mean double")


def expected_ms(op, sizes):
    """What the operator's grouping expects of records of these sizes and one key."""
    controller = op._plane.controllers(op.identity)[-1]
    grouping = op._make_grouping(2)
    grouping.restore(controller.snapshot("asked by a test").data)
    return grouping.expected_ms(np.zeros(len(sizes), dtype=np.int64), sizes)


def test_costs_follow_sizes_without_a_key(spark):
    def sleepy(record):
        time.sleep(record["n"] / 10_000)
        return record

    frame = numbered(spark, 200, partitions=2)
    size = sf.when(sf.col("n") % 50 == 7, None).when(sf.col("n") == 9, -1).otherwise(sf.col("n"))
    op = penstock.balance(sleepy, key=None, size=size, schema=NUMBERED, instances=2)
    found = frame.transform(op)
    assert bag(found.collect()) == bag(frame.collect())
    small, large = expected_ms(op, [20.0, 180.0])
    # However busy the machine, sleeping takes at least as long.
    assert large - small >= 12
    assert bag(found.collect()) == bag(frame.collect())
    (warning,) = [one for one in op.stats().warnings if "no size" in one]
    assert "count as records of mean size" in warning


def test_a_shedder_and_an_aggregation_take_sizes(spark):
    shed = LoadAware(average("1 hour"))
    op = penstock.balance(
        identity(),
        key="entity",
        size="n + 1",
        schema=f"{NUMBERED}, at timestamp",
        instances=2,
        shed=shed,
        arrival="at",
    )
    frame = numbered(spark, 40).withColumn("at", sf.current_timestamp())
    assert len(frame.transform(op).collect()) == 40
    summed = penstock.aggregate(
        Mean("n"),
        key="entity",
        size="n",
        schema="mean double, count long",
        grouping="posg",
        instances=2,
    )
    counts = {
        row["entity"]: row["count"] for row in numbered(spark, 70).transform(summed).collect()
    }
    assert counts == {f"e{i}": 10 for i in range(7)}


def test_a_size_is_computed_once_and_is_no_column_of_what_is_spilled(spark, tmp_path):
    timed = f"{NUMBERED}, at timestamp"
    op = penstock.balance(
        identity(),
        key="entity",
        size="octet_length(entity)",
        schema=timed,
        instances=2,
        shed=unwanted(spark, "e1"),
        arrival="at",
        spill=str(tmp_path / "spill"),
    )
    frame = numbered(spark, 70).withColumn("at", sf.current_timestamp())
    found = frame.transform(op)
    assert found._jdf.queryExecution().optimizedPlan().toString().count("octet_length") == 1
    assert found.columns == frame.columns
    assert {row["entity"] for row in found.collect()} == {f"e{i}" for i in range(7) if i != 1}
    spilled = penstock.replay(spark, str(tmp_path / "spill"))
    assert set(frame.columns) <= set(spilled.columns)
    assert not [name for name in spilled.columns if name.startswith("_penstock")]
