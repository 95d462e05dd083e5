"""Everything that touches Spark's internals, in one place."""

import re
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PenstockError

LEAST_SPARK = (4, 1)
_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


def version() -> tuple[int, int]:
    """Return Spark's version as numbers."""
    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def supported_session(frame: DataFrame) -> SparkSession:
    """Return the session of a DataFrame if Penstock can work with it."""
    if version() < LEAST_SPARK:
        raise PenstockError(
            f"Spark must be >= 4.1 (repartitionById); got {pyspark.__version__}. "
            "Run: pip install 'pyspark>=4.1'"
        )
    if not isinstance(frame, DataFrame):
        raise PenstockError(f"a DataFrame is needed; got {type(frame).__name__}")
    if "connect" in type(frame).__module__:
        raise PenstockError(
            "Spark Connect sessions cannot be balanced: the driver is in another process. "
            "Use a classic session (SparkSession.builder.master(...))"
        )
    return frame.sparkSession


def protect_from_partial_retries(spark: SparkSession) -> None:
    """Let Spark run consumers again if a map task that is run again routes otherwise.

    From 4.2 on that is Spark's default. Routing is the same for the same batch and the same
    records, so this is for sources that give their records in another order each time.
    """
    for key in (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch"):
        if spark.conf.get(key, "false") != "true":
            spark.conf.set(key, "true")


def driver_host(spark: SparkSession) -> str:
    """Return the address by which executors reach the driver."""
    return str(spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))


def checkpoint_of(spark: SparkSession, query: str) -> str | None:
    """Return the checkpoint folder of an active streaming query."""
    try:
        found = spark.streams.get(query)
        if found is None:
            return None
        execution = found._jsq
        if hasattr(execution, "streamingQuery"):
            execution = execution.streamingQuery()
        return str(execution.resolvedCheckpointRoot())
    except (Py4JError, AttributeError):
        return None


def _java(spark: SparkSession) -> Any:  # noqa: ANN401 - whatever py4j has
    return spark._jvm


def _file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    place = _java(spark).org.apache.hadoop.fs.Path(path)
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    return place.getFileSystem(settings), place


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """Read a file of any Hadoop file system; None if there is none."""
    files, place = _file_system(spark, path)
    if not files.exists(place):
        return None
    stream = files.open(place)
    try:
        return bytes(_java(spark).org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a file of any Hadoop file system whole or not at all."""
    files, place = _file_system(spark, path)
    _, temporary = _file_system(spark, f"{path}.tmp")
    files.mkdirs(place.getParent())
    stream = files.create(temporary, True)
    try:
        stream.write(bytearray(data))
    finally:
        stream.close()
    hadoop = _java(spark).org.apache.hadoop.fs
    gateway: Any = spark.sparkContext._gateway
    overwrite = gateway.new_array(hadoop.Options.Rename, 1)
    overwrite[0] = hadoop.Options.Rename.OVERWRITE
    hadoop.FileContext.getFileContext(files.getUri()).rename(temporary, place, overwrite)
