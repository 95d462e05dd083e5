"""Checks that this machine can run Spark, with advice if it cannot."""

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("penstock")

LEAST_JAVA = 17
LEAST_SPARK = (4, 1)
_PYTHON_OF_PATH = "python3"
# Applications that were told about their Python.
_told: set[str] = set()
_WAY_OUT = (
    f"install a Java runtime {LEAST_JAVA} or newer (Debian and Ubuntu: openjdk-17-jre-headless; "
    "macOS: temurin; conda: openjdk) or set JAVA_HOME to one"
)


def refuse_old_spark(version: str) -> None:
    """Refuse a PySpark that cannot route records.

    Example:
        >>> refuse_old_spark("4.3.0")
        >>> refuse_old_spark("3.5.1")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: PySpark must be >= 4.1 (it has repartitionById); got 3.5.1...
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < LEAST_SPARK:
        raise PenstockError(
            f"PySpark must be >= 4.1 (it has repartitionById); got {version}. "
            "Run: pip install 'pyspark>=4.1'"
        )


def refuse_unfit_arrow(spark: str, arrow: str) -> None:
    """Refuse a PyArrow with which Spark's own keyed state in Python does not work.

    Args:
        spark: version of PySpark.
        arrow: version of PyArrow.

    Example:
        >>> refuse_unfit_arrow("4.1.4", "25.0.1")
        >>> refuse_unfit_arrow("4.1.4", "26.0.1")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: PyArrow must be < 26 for a keyed stream on Spark 4.1...
    """
    if spark.startswith("4.1.") and int(arrow.split(".", maxsplit=1)[0]) >= 26:
        raise PenstockError(
            f"PyArrow must be < 26 for a keyed stream on Spark 4.1, whose applyInPandasWithState "
            f"fails with newer ones; got {arrow}. Run: pip install 'pyarrow<26'"
        )


def use_own_python(spark: "SparkSession") -> None:
    """Let executors on this machine start the Python of this process, unless users chose another.

    Spark would start `python3` from the PATH, which may be another one, without Penstock.
    """
    context = spark.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if chosen or context.pythonExec != _PYTHON_OF_PATH:
        return
    if str(context.master).startswith("local"):
        context.pythonExec = sys.executable
    elif context.applicationId not in _told:
        _told.add(context.applicationId)
        log.warning(
            "executors start %s from their PATH; if that is not the Python with Penstock, set "
            "PYSPARK_PYTHON or spark.pyspark.python",
            _PYTHON_OF_PATH,
        )


def java_command() -> str:
    """Return the `java` that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        if candidate.is_file():
            return str(candidate)
        raise PenstockError(f"JAVA_HOME has no bin/java; got {home!r}. Please {_WAY_OUT}")
    found = shutil.which("java")
    if found is None:
        raise PenstockError(f"Spark needs Java and none was found on the PATH. Please {_WAY_OUT}")
    return found


def java_version() -> int:
    """Return the major version of Java; refuse one that Spark cannot use."""
    command = java_command()
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own java
            [command, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PenstockError(f"{command} does not run ({error}). Please {_WAY_OUT}") from None
    major = parse_java_version(answer.stderr + answer.stdout)
    if major < LEAST_JAVA:
        raise PenstockError(f"Spark needs Java >= {LEAST_JAVA}; got {major}. Please {_WAY_OUT}")
    return major


def parse_java_version(text: str) -> int:
    """Return the major version from the output of `java -version`.

    Example:
        >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
        17
        >>> parse_java_version('java version "1.8.0_392"')
        8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        raise PenstockError(f"cannot read Java's version from {text!r}. Please {_WAY_OUT}")
    return int(found[1])
