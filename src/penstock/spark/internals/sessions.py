"""Sessions and their settings."""

from pyspark.sql import DataFrame, SparkSession

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


def is_stopped(spark: SparkSession) -> bool:
    """Whether the application of a session has been stopped."""
    return spark.sparkContext._jsc is None


_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


def protect_from_partial_retries(spark: SparkSession) -> None:
    """Let Spark run consumers again if a map task returns other records when it runs again.

    This is Spark's default from 4.2 on.
    """
    for key in (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch"):
        if spark.conf.get(key, "false") != "true":
            spark.conf.set(key, "true")


def driver_addresses(spark: SparkSession) -> tuple[str, str]:
    """Return the address on which the driver listens, and the one that executors connect to."""
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host", "127.0.0.1"))
    listen = str(settings.get("spark.driver.bindAddress", host))
    return listen.strip("[]"), host.strip("[]")  # IPv6 is written in brackets


def control_ports(spark: SparkSession) -> tuple[int, int]:
    """Return the port of the control channel (0 for any), and how many ports to try from it on."""
    settings = spark.sparkContext.getConf()
    given = str(settings.get(PORT, "0"))
    if not given.isdigit() or int(given) > 65_535:
        raise PenstockError(f"{PORT} must be a port from 1 to 65535, or 0 for any; got {given!r}")
    return int(given), int(str(settings.get("spark.port.maxRetries", "16"))) + 1


PORT = "spark.penstock.port"
