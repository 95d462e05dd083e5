"""Files of any Hadoop file system."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import java


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path for it."""
    place = java(spark).org.apache.hadoop.fs.Path(path)
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    return place.getFileSystem(settings), place


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """Read a file of any Hadoop file system; None if there is none."""
    files, place = file_system(spark, path)
    if not files.exists(place):
        return None
    stream = files.open(place)
    try:
        return bytes(java(spark).org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a file of any Hadoop file system whole or not at all."""
    files, place = file_system(spark, path)
    _, temporary = file_system(spark, f"{path}.tmp")
    files.mkdirs(place.getParent())
    stream = files.create(temporary, True)
    try:
        stream.write(bytearray(data))
    finally:
        stream.close()
    hadoop = java(spark).org.apache.hadoop.fs
    gateway: Any = spark.sparkContext._gateway
    overwrite = gateway.new_array(hadoop.Options.Rename, 1)
    overwrite[0] = hadoop.Options.Rename.OVERWRITE
    context = hadoop.FileContext.getFileContext(files.getUri(), files.getConf())
    context.rename(temporary, place, overwrite)


def folder_bytes(spark: SparkSession, path: str) -> float:
    """Return how much is in a folder; 0 if it is not there."""
    files, place = file_system(spark, path)
    return float(files.getContentSummary(place).getLength()) if files.exists(place) else 0.0
