"""Files of any Hadoop file system."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import java


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path as an object of Hadoop."""
    found = java(spark).org.apache.hadoop.fs.Path(path)
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    return found.getFileSystem(settings), found


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """Return the bytes of a file; None if it does not exist."""
    files, file = file_system(spark, path)
    if not files.exists(file):
        return None
    stream = files.open(file)
    try:
        return bytes(java(spark).org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a file whole or not at all."""
    files, file = file_system(spark, path)
    _, temporary = file_system(spark, f"{path}.tmp")
    files.mkdirs(file.getParent())
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
    context.rename(temporary, file, overwrite)


def folder_bytes(spark: SparkSession, path: str) -> float:
    """Return the bytes of all files in a folder; 0 if it does not exist."""
    files, file = file_system(spark, path)
    return float(files.getContentSummary(file).getLength()) if files.exists(file) else 0.0
