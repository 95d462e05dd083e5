"""Files of any file system that Spark knows, copied to this machine."""

from pathlib import Path

from penstock.errors import PenstockError, first_line
from penstock.spark import internals
from penstock.spark.lab.sessions import session
from penstock.spark.paths import path_of_spark


def copied(url: str, folder: Path) -> Path:
    """Copy a file or folder of any Hadoop file system; a local Spark is started for it.

    Settings of file systems are those of Spark and Hadoop on this machine, such as
    `spark-defaults.conf` and `core-site.xml`.

    Args:
        url: URL of the file or folder, such as `hdfs://namenode/logs/app-1`.
        folder: existing folder of this machine.

    Returns:
        The copy; it has the name of the source.

    Raises:
        PenstockError: if there is no such file, or the file system cannot be read.
    """
    source = path_of_spark(url.rstrip("/"))
    target = folder / source.rpartition("/")[2]
    spark = session("local[1]", "penstock-copy")
    try:
        found = internals.copy_to_local(spark, source, str(target))
    except internals.JvmError as error:
        reason = first_line(getattr(error, "java_exception", None) or error)
        raise PenstockError(f"{url} cannot be read through Spark ({reason})") from None
    if not found:
        raise PenstockError(f"{url} does not exist")
    return target
