"""The session of the application that runs in this process."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark import internals


def running_session(what: str) -> SparkSession:
    """Return the session of the application that runs in this process.

    Args:
        what: name of the function that needs it, for messages.
    """
    try:
        spark = SparkSession.active()
    except PySparkException:
        spark = None
    if spark is not None and "connect" in type(spark).__module__:
        raise PenstockError(
            f"{what} needs a classic session: the driver of a Spark Connect session is in another "
            "process"
        )
    if spark is None or internals.is_stopped(spark):
        raise PenstockError(f"no Spark session runs; start one first, then call {what}")
    return spark
