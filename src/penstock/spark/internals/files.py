"""Files of any Hadoop file system, written in the way of Spark's own checkpoints."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import java


def _hadoop_path(spark: SparkSession, path: str) -> Any:  # noqa: ANN401 - a py4j object
    return java(spark).org.apache.hadoop.fs.Path(path)


def _settings(spark: SparkSession) -> Any:  # noqa: ANN401 - a py4j object
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def _manager(spark: SparkSession, path: Any) -> Any:  # noqa: ANN401 - a py4j object
    """Return what Spark writes checkpoints with, on any file system that it supports."""
    streaming = java(spark).org.apache.spark.sql.execution.streaming
    return streaming.checkpointing.CheckpointFileManager.create(path, _settings(spark))


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """Return the bytes of a file; None if it does not exist."""
    file = _hadoop_path(spark, path)
    files = file.getFileSystem(_settings(spark))
    if not files.exists(file):
        return None
    stream = files.open(file)
    try:
        return bytes(java(spark).org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def create_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a new file whole or not at all; its folder is made if it is missing."""
    file = _hadoop_path(spark, path)
    manager = _manager(spark, file.getParent())
    manager.mkdirs(file.getParent())
    stream = manager.createAtomic(file, False)
    try:
        stream.write(bytearray(data))
    except BaseException:
        stream.cancel()
        raise
    stream.close()


def delete_file(spark: SparkSession, path: str) -> None:
    """Delete a file, if it exists."""
    file = _hadoop_path(spark, path)
    _manager(spark, file.getParent()).delete(file)


def file_names(spark: SparkSession, folder: str) -> list[str]:
    """Return the names of the files in a folder; none if it does not exist."""
    path = _hadoop_path(spark, folder)
    files = path.getFileSystem(_settings(spark))
    if not files.exists(path):
        return []
    return [str(status.getPath().getName()) for status in files.listStatus(path)]


def folder_bytes(spark: SparkSession, path: str) -> float:
    """Return the bytes of all files in a folder; 0 if it does not exist."""
    file = _hadoop_path(spark, path)
    files = file.getFileSystem(_settings(spark))
    return float(files.getContentSummary(file).getLength()) if files.exists(file) else 0.0


def copy_to_local(spark: SparkSession, path: str, target: str) -> bool:
    """Copy a file, or a folder with all that it has, to this machine.

    Args:
        spark: session whose file systems are used.
        path: path on any file system of Hadoop.
        target: new file or folder of this machine.

    Returns:
        Whether the path exists.
    """
    source = _hadoop_path(spark, path)
    files = source.getFileSystem(_settings(spark))
    if not files.exists(source):
        return False
    # Neither is the source deleted, nor are files with checksums left beside the copies.
    files.copyToLocalFile(False, source, _hadoop_path(spark, f"file://{target}"), True)
    return True
