"""Settings of a session that change what Python gets from Spark: results stay exact."""

import pandas as pd
import pyarrow as pa
import pytest
from aggregations import stream
from flows import (
    NUMBERED,
    OLD,
    bag,
    configured,
    drop,
    run,
    some_files,
    source,
    sunk,
    unwanted,
)
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count, Sum

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("few_partitions")]

ARROW = "spark.sql.execution.arrow"
SETTINGS = {
    "large types": {
        f"{ARROW}.useLargeVarTypes": "true",
        f"{ARROW}.pyspark.validateSchema.enabled": "true",
    },
    "a record a batch": {f"{ARROW}.maxRecordsPerBatch": "1"},
    "compressed, no limit": {
        f"{ARROW}.compression.codec": "zstd",
        f"{ARROW}.maxRecordsPerBatch": "0",
    },
    "other values": {
        "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype": "true",
        "spark.sql.execution.pyspark.binaryAsBytes": "false",
    },
}
MIXED = (
    "concat('e', id % 5) AS entity",
    "int(id) AS n",
    "unhex('00ff') AS raw",
    "array('x', null) AS texts",
    "named_struct('text', 'x', 'map', map('k', 'v')) AS pair",
    "if(id = 3, null, id) AS gap",
    "timestamp'2024-02-29' AS at",
)


@pytest.fixture(params=SETTINGS.values(), ids=SETTINGS)
def settings(request, spark):
    """A group of settings."""
    with configured(spark, request.param):
        yield


def identities():
    """Functions of records and of batches, which executors get with their code."""

    def as_record(record):
        return record

    def as_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def as_pandas(batch: pd.DataFrame) -> pd.DataFrame:
        return batch

    return as_record, as_arrow, as_pandas


@pytest.mark.usefixtures("settings")
def test_a_batch_job_is_exact_with_other_settings(spark):
    frame = spark.range(40).selectExpr(*MIXED)
    for function in identities():
        op = penstock.balance(function, key="entity", schema=frame.schema, instances=2)
        assert bag(frame.transform(op).collect()) == bag(frame.collect())
    key = ["entity", "at", "pair.text", "raw"]
    counted = penstock.aggregate(Count(), key=key, schema="count long")
    by_spark = frame.groupBy("entity", "at", "pair.text", "raw").count()
    assert bag(frame.transform(counted).collect()) == bag(by_spark.collect())


@pytest.mark.usefixtures("settings")
def test_a_stream_is_exact_with_other_settings(spark, tmp_path):
    drop(tmp_path / "in", *some_files())
    op = penstock.balance(
        identities()[0],
        key="entity",
        schema=NUMBERED,
        instances=2,
        shed=unwanted(spark, "e1"),
        arrival=sf.to_timestamp(sf.lit(OLD)),
        spill=str(tmp_path / "spill"),
    )
    run(source(spark, tmp_path / "in").transform(op), tmp_path)
    kept, shed = sunk(spark, tmp_path), spark.read.parquet(str(tmp_path / "spill")).collect()
    assert sorted(row.n for row in kept) == [n for n in range(60) if n % 4 != 1]
    assert sorted(row.n for row in shed) == list(range(1, 60, 4))
    stats = op.stats()
    assert (stats.received, stats.processed, stats.shed, stats.fallbacks) == (60, 45, 15, 0)


@pytest.mark.usefixtures("settings")
def test_totals_of_a_stream_are_exact_with_other_settings(spark, tmp_path):
    drop(tmp_path / "in", *some_files())
    totals = penstock.aggregate(Sum("n"), key="entity", schema="sum long")
    _, batches = stream(source(spark, tmp_path / "in").transform(totals), tmp_path)
    found = dict(row for rows in batches for row in rows)
    assert found == {f"e{i}": sum(range(i, 60, 4)) for i in range(4)}
