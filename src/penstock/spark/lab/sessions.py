"""A Spark session for the demo, the experiments and the tests; users bring their own."""

import atexit
import contextlib
import os
import re
import sys
from importlib.resources import files

from pyspark.sql import SparkSession

from penstock.errors import PenstockError, first_line
from penstock.spark.environment import java_version

# The usual manager of checkpoint files starts a process (`readlink`) for each file that it looks at
# on a local disk, which takes a fifth of the time of short batches. This one starts none.
LOCAL_CHECKPOINTS = {
    "spark__sql__streaming__checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
_MASTER = re.compile(
    r"local(\[(\*|0*[1-9]\d*)(,0*[1-9]\d*)?\])?"
    r"|local-cluster\[0*[1-9]\d*,0*[1-9]\d*,0*[1-9]\d*\]|(spark|k8s)://.+|yarn"
)


def session(master: str = "local[*]", name: str = "penstock", **config: str) -> SparkSession:
    """Start (or get) a quiet session: no web page, only errors in the log.

    Args:
        master: master of the application, as Spark spells it.
        name: name of the application.
        config: further settings, with `__` for a dot: `spark__sql__shuffle__partitions="4"`.
    """
    checked_master(master)
    java_version()
    # A local master's Python workers are started by the JVM with its environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (_settings(master) | config).items():
        builder = builder.config(key.replace("__", "."), value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise PenstockError(
            f"no Spark session on master {master!r}: {first_line(error)}. "
            "Run `penstock doctor`, or try --master 'local[*]'"
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    atexit.register(_stop_quietly, spark)
    return spark


def _stop_quietly(spark: SparkSession) -> None:
    """Stop at the end of the process, without the complaints of a local cluster's executors."""
    with contextlib.suppress(Exception):
        spark.sparkContext.setLogLevel("OFF")
        spark.stop()


def checked_master(master: str) -> str:
    """Return the master, or refuse a form that Spark does not know."""
    if not _MASTER.fullmatch(master):
        raise PenstockError(
            f"master must be local[n], local-cluster[n,cores,mb], spark://host:port, yarn or "
            f"k8s://url; got {master!r}"
        )
    return master


def _settings(master: str) -> dict[str, str]:
    log4j = files("penstock.spark.lab") / "log4j2.properties"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.python.daemon.module": "penstock.spark.executor.daemon",
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile=file:{log4j}"',
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings
