"""DataFrames, their schemas and their tasks."""

from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from penstock.errors import PenstockError


def supported_session(frame: DataFrame) -> SparkSession:
    """Return the session of a DataFrame if Penstock can work with it."""
    if not isinstance(frame, DataFrame):
        raise PenstockError(f"a DataFrame is needed; got {type(frame).__name__}")
    if "connect" in type(frame).__module__:
        raise PenstockError(
            "Spark Connect sessions cannot be balanced: the driver is in another process. "
            "Use a classic session (SparkSession.builder.master(...))"
        )
    return frame.sparkSession


_WATERMARK = "spark.watermarkDelayMs"


def is_event_time(field: StructField) -> bool:
    """Whether a column is one that a watermark is about."""
    return _WATERMARK in field.metadata


def as_event_time(column: Column, name: str) -> Column:
    """Mark a column as the one that the query's watermark is about.

    Python stages lose the mark, and Spark does not let a watermark be defined twice.
    """
    return column.alias(name, metadata={_WATERMARK: 0})


_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


def protect_from_partial_retries(spark: SparkSession) -> None:
    """Let Spark run consumers again if a map task that is run again routes otherwise.

    From 4.2 on that is Spark's default. Routing is the same for the same batch and the same
    records, so this is for sources that give their records in another order each time.
    """
    for key in (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch"):
        if spark.conf.get(key, "false") != "true":
            spark.conf.set(key, "true")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what Spark expects of Arrow for a schema; the time zone is any."""
    return to_arrow_schema(schema, timezone="UTC")


def rows_of_arrow(batch: pa.RecordBatch, schema: StructType) -> list[Row]:
    """Return rows with the Python values that Spark's own UDFs get."""
    return ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)


def arrow_of_rows(rows: list[dict[str, Any]], schema: StructType) -> pa.Table:
    """Return an Arrow table of records, with Spark's own conversions."""
    return LocalDataToArrowConversion.convert(rows, schema, False)


def batch_of(context: TaskContext) -> tuple[str, str]:
    """Return a task's streaming query (empty if it has none), and what its batch is called.

    Stages will not do for batch jobs: one that is run again gets another number.
    """
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query and batch is not None:
        return query, batch
    execution = context.getLocalProperty("spark.sql.execution.id")
    return "", f"execution {execution}" if execution else f"stage {context.stageId()}"


def driver_addresses(spark: SparkSession) -> tuple[str, str]:
    """Return where the driver listens, and the address by which executors reach it."""
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host", "127.0.0.1"))
    return str(settings.get("spark.driver.bindAddress", host)), host
