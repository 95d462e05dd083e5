"""Sessions and their settings, and the marks that watermarks leave on columns."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructField

from penstock.errors import PenstockError


def supported_session(frame: DataFrame) -> SparkSession:
    """Return the session of a DataFrame if Penstock can work with it."""
    if not isinstance(frame, DataFrame):
        raise PenstockError(f"a DataFrame is needed; got {type(frame).__name__}")
    if "connect" in type(frame).__module__:
        raise PenstockError(
            "Spark Connect sessions cannot be balanced: their driver is in another process. "
            "Use a classic session (SparkSession.builder.master(...))"
        )
    return frame.sparkSession


_WATERMARK = "spark.watermarkDelayMs"


def is_event_time(field: StructField) -> bool:
    """Whether a column carries a watermark."""
    return _WATERMARK in field.metadata


def as_event_time(column: Column, name: str) -> Column:
    """Mark a column as the one that carries the query's watermark.

    Python stages lose the mark, and Spark refuses a second definition of the watermark.
    """
    return column.alias(name, metadata={_WATERMARK: 0})


_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


def protect_from_partial_retries(spark: SparkSession) -> None:
    """Let Spark run consumers again if a map task routes differently when it runs again.

    This is Spark's default from 4.2 on. Routing depends only on the batch and its records, so this
    protects from sources that return their records in another order each time.
    """
    for key in (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch"):
        if spark.conf.get(key, "false") != "true":
            spark.conf.set(key, "true")


def driver_addresses(spark: SparkSession) -> tuple[str, str]:
    """Return the address on which the driver listens, and the one that executors connect to."""
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host", "127.0.0.1"))
    return str(settings.get("spark.driver.bindAddress", host)), host
