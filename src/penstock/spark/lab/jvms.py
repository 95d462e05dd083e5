"""Options of JVMs that live for minutes, and share few cores with many others.

A cluster on one machine has a JVM for each executor, worker and driver. Their compilers would take
the cores from everything else. They share an archive of Spark's classes, so that they start faster.

A JVM of Spark loads and verifies some ten thousand classes, which takes most of its start. Java's
class data sharing keeps them ready in one file. It lies in the environment, belongs to one version
of Spark and of Java, and is made once. The job that makes it also compiles the kernels of the
default policies, which several processes would otherwise compile at the same time.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyspark

from penstock.errors import PenstockError
from penstock.spark.environment import java_version

# Hadoop starts a process for each file that it makes; on Linux VFORK needs no helper for that.
_FORK = " -Djdk.lang.Process.launchMechanism=VFORK" if sys.platform == "linux" else ""
_ANY = f"-XX:+UseSerialGC{_FORK}"
# The best code would come too late. Code that Spark once needed shall stay: by default this level
# has so little room for it that a JVM of some minutes drops and compiles the same code all the
# time.
SHORT_LIVED = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m {_ANY}"
# A session, a query, tasks in Python and operators: what almost all jobs need.
_LESSON = """
import penstock
from penstock.spark.lab import session
spark = session("local[1]", "penstock-class-archive")
frame = spark.range(0, 100, 1, 2).selectExpr("id % 5 AS key", "id AS n")
same = frame.repartition(2).mapInArrow(lambda batches: batches, frame.schema)
same.groupBy("key").count().collect()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
query = rows.writeStream.format("noop").trigger(once=True).start()
query.awaitTermination(60)
for grouping in ("factoring", "posg"):
    op = penstock.balance(lambda row: row, key="key", schema=frame.schema, grouping=grouping)
    for _ in range(3):
        frame.transform(op).collect()
totals = penstock.aggregate(penstock.aggregators.Sum("n"), key="key", schema="sum long")
frame.transform(totals).collect()
spark.stop()
"""
# A JVM that cannot use the archive, such as the launcher of Spark, goes on without it, in silence.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"


def start_fast() -> None:
    """Set the options of all JVMs to come, unless the caller has options of his own."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)


def run_long() -> None:
    """Set options for JVMs that run for an hour, and so need the best code."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", _ANY)


def share_classes() -> None:
    """Let all JVMs to come start fast and share classes, unless the caller has options of his own.

    The first call in an environment makes the archive of classes, which takes some ten seconds.
    """
    start_fast()
    if os.environ["JDK_JAVA_OPTIONS"] == SHORT_LIVED:
        os.environ["JDK_JAVA_OPTIONS"] = f"{SHORT_LIVED} {_shared_classes()}"


def _shared_classes() -> str:
    """Return the options with which a JVM uses the archive; make it first if there is none."""
    try:
        archive = Path(sys.prefix) / f"spark-{pyspark.__version__}-java-{java_version()}.jsa"
    except PenstockError:
        return ""
    if not archive.exists() and os.access(archive.parent, os.W_OK):
        _make(archive)
    return f"-XX:SharedArchiveFile={archive} {_SILENT}" if archive.exists() else ""


def _make(archive: Path) -> None:
    """Make the archive by a JVM that runs a small job."""
    hidden = archive.with_suffix(f".{os.getpid()}")
    options = f"{os.environ['JDK_JAVA_OPTIONS']} -XX:ArchiveClassesAtExit={hidden} {_SILENT}"
    # Java writes no archive if there is a folder with files on the class path.
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    # The JVM writes the archive after Python has ended; it holds the pipe open until then.
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603 - our own lesson
            [sys.executable, "-c", _LESSON],
            env=environment | {"JDK_JAVA_OPTIONS": options},
            capture_output=True,
            check=False,
            timeout=900,
        )
        if hidden.exists():
            hidden.rename(archive)
    hidden.unlink(missing_ok=True)
