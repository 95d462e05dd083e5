"""`penstock.replay`: what was shed is answered later, when there is time."""

import logging
import threading
import time
from pathlib import Path

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.control import OperatorStats
from penstock.errors import PenstockError
from penstock.policies.validation import positive
from penstock.spark.operators import RoutedOperator
from penstock.spark.spill import ADDED, file_system

log = logging.getLogger("penstock")

_READY = "-replay"


def replay(
    spark: SparkSession,
    path: str,
    *,
    when: RoutedOperator | None = None,
    arrival: str | None = None,
    every: float = 1.0,
) -> DataFrame:
    """Return shed records as a stream, to be processed when there is time.

    The folder's files are moved, one by one, to a folder beside it (its name ends in "-replay"),
    from which Spark reads them like any stream of files: each once, also after a restart. They
    are moved when the operator has slack: it has shed nothing in its newest batch, and records
    have waited for half of the target at most. Union the stream with the live one, or write it
    by a query of its own.

    Args:
        spark: the session.
        path: folder that an operator spills to; something must have been spilled, so that the
            schema is known.
        when: the operator that must have slack; None moves everything at once.
        arrival: timestamp column that is set to the time of the replay, so that records are not
            shed at once for having waited; None leaves it as it is.
        every: seconds between two looks at the operator, > 0.

    Example:
        >>> late = replay(spark, "spill", when=op, arrival="timestamp")  # doctest: +SKIP
        >>> query = events.unionByName(late).transform(op).writeStream...  # doctest: +SKIP
    """
    positive("every", every)
    path = str(Path(path).absolute()) if "://" not in path else path.rstrip("/")
    files, root = file_system(path)
    known = [*_spilled(files, root), *_spilled(files, root + _READY)]
    if not known:
        raise PenstockError(f"path must be a folder with spilled records; {path!r} has none yet")
    schema = spark.read.parquet(_uri(path, root, known[0])).schema
    ready = path + _READY
    files.create_dir(root + _READY, recursive=True)
    if when is None:
        release(path)
    else:
        _Releaser(path, when, every).start()
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(ready)
    frame = frame.drop(*ADDED)
    return frame if arrival is None else frame.withColumn(arrival, sf.current_timestamp())


def _uri(path: str, root: str, name: str) -> str:
    """Return how Spark calls a file that Arrow has found."""
    return path.removesuffix(root) + name


def _spilled(files: fs.FileSystem, root: str) -> list[str]:
    """Return complete files of spilled records, oldest first."""
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    found = [one for one in files.get_file_info(selector) if one.is_file]
    complete = [one for one in found if not one.base_name.startswith((".", "_"))]
    return [one.path for one in sorted(complete, key=lambda one: (one.mtime_ns or 0, one.path))]


def release(path: str, most: int | None = None) -> int:
    """Let spilled files be read, the oldest first; return how many."""
    files, root = file_system(path)
    names = _spilled(files, root)[:most]
    for name in names:
        flat = name.removeprefix(root).strip("/").replace("/", "-")
        files.move(name, f"{root}{_READY}/{flat}")
    return len(names)


def has_slack(stats: OperatorStats, limit_ms: float | None) -> bool:
    """Whether an operator has time for more."""
    last = stats.last
    if last is None or last.shed:
        return False
    return limit_ms is None or not last.waiting_ms > limit_ms / 2


class _Releaser:
    """Moves one file at a time, whenever the operator has slack, until the operator is closed."""

    def __init__(self, path: str, operator: RoutedOperator, every_s: float) -> None:
        self._path = path
        self._operator = operator
        self._every_s = every_s
        self._batch = ""

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="penstock-replay", daemon=True).start()

    def _run(self) -> None:
        while not self._operator.closed:
            time.sleep(self._every_s)
            try:
                self._look()
            except Exception:
                # To replay late is better than to stop the query.
                log.exception("nothing can be replayed from %s at the moment", self._path)

    def _look(self) -> None:
        found = self._operator.all_stats()
        if not found or found[-1].last is None or found[-1].last.batch == self._batch:
            return  # one file for each batch with slack: the next one shows what it did
        if has_slack(found[-1], self._operator.limit_ms):
            self._batch = found[-1].last.batch
            release(self._path, most=1)
