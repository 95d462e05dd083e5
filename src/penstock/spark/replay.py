"""`penstock.replay`: what was shed is answered later, when there is time."""

import logging
import re
import threading
import time

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from penstock.control import BatchStats
from penstock.errors import PenstockError
from penstock.policies.validation import positive
from penstock.spark.operators import RoutedOperator
from penstock.spark.spill import ADDED, BATCH, absolute, file_system

log = logging.getLogger("penstock")

_READY = "-replay"


def replay(
    spark: SparkSession,
    path: str,
    *,
    when: RoutedOperator | None = None,
    arrival: str | None = None,
    schema: StructType | str | None = None,
    every: float = 1.0,
) -> DataFrame:
    """Return shed records as a stream, to be processed when there is time.

    The folder's files are moved, one by one, to a folder beside it (its name ends in "-replay"),
    from which Spark reads them like any stream of files: each once, also after a restart. They
    are moved when the operator has slack: it has shed nothing in its newest batch and records
    have waited for half of the target at most, or nothing has come for a while. Union the stream
    with the live one, or write it by a query of its own.

    Args:
        spark: the session.
        path: folder that an operator spills to.
        when: the operator that must have slack; None moves everything at once, and is for queries
            that have ended.
        arrival: timestamp column that is set to the time of the replay, so that records are not
            shed at once for having waited; None leaves it as it is.
        schema: of the records, as `events.schema`; needed if nothing has been spilled yet.
        every: seconds between two looks at the operator, > 0.

    Example:
        >>> late = replay(
        ...     spark, "spill", when=op, arrival="timestamp", schema=events.schema
        ... )  # doctest: +SKIP
        >>> query = events.unionByName(late).transform(op).writeStream...  # doctest: +SKIP
    """
    positive("every", every)
    path = absolute(path)
    files, root = file_system(path)
    files.create_dir(root + _READY, recursive=True)
    if schema is None:
        schema = _known_schema(spark, path, files, root)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(_of_spark(path + _READY)).drop(*ADDED)
    if arrival is not None and arrival not in frame.columns:
        raise PenstockError(
            f"arrival must be a column of the spilled records; got {arrival!r}. They have "
            f"{', '.join(frame.columns)}"
        )
    if when is None:
        release(path)
    else:
        _Releaser(path, when, every).start()
    if arrival is None:
        return frame
    return frame.withColumn(arrival, sf.current_timestamp().cast(frame.schema[arrival].dataType))


def _known_schema(spark: SparkSession, path: str, files: fs.FileSystem, root: str) -> StructType:
    known = [*_spilled(files, root), *_spilled(files, root + _READY)]
    if not known:
        raise PenstockError(
            f"path: {path!r} has nothing spilled yet, so give the schema of the records, as "
            "schema=events.schema"
        )
    return spark.read.parquet(_of_spark(path.removesuffix(root) + known[0])).schema


def _of_spark(path: str) -> str:
    """Return how Spark calls what Arrow calls s3://."""
    return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path


def _spilled(files: fs.FileSystem, root: str) -> list[str]:
    """Return complete files of spilled records, oldest first."""
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    found = [one for one in files.get_file_info(selector) if one.is_file]
    complete = [one for one in found if not one.base_name.startswith((".", "_"))]
    return [one.path for one in sorted(complete, key=lambda one: (one.mtime_ns or 0, one.path))]


_NUMBER = re.compile(rf"/{BATCH}=(\d+)/")


def release(path: str, most: int | None = None, before: int | None = None) -> int:
    """Let spilled files be read, the oldest first; return how many.

    Args:
        path: folder that was spilled to.
        most: how many files; None for all.
        before: only of batches before this one, which are over; None for all.
    """
    files, root = file_system(path)
    names = _spilled(files, root)
    if before is not None:
        numbered = [(name, _NUMBER.search(name)) for name in names]
        names = [name for name, batch in numbered if batch and int(batch[1]) < before]
    for name in names[:most]:
        flat = name.removeprefix(root).strip("/").replace("/", "-")
        files.move(name, f"{root}{_READY}/{flat}")
    return len(names[:most])


def has_slack(last: BatchStats, limit_ms: float | None) -> bool:
    """Whether an operator that has done such a batch has time for more."""
    return not last.shed and (limit_ms is None or not last.waiting_ms > limit_ms / 2)


class _Releaser:
    """Moves one file at a time, whenever the operator has slack, until the operator is closed."""

    def __init__(self, path: str, operator: RoutedOperator, every_s: float) -> None:
        self._path = path
        self._operator = operator
        self._every_s = every_s
        # An operator that has done nothing for so long has nothing to do.
        self._idle_s = max(2 * every_s, 2 * (operator.limit_ms or 0.0) / 1000)
        self._batch = ""
        self._since_s = time.monotonic()

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
        last = found[-1].last if found else None
        if last is None:
            return
        new = last.batch != self._batch
        idle = time.monotonic() - self._since_s > self._idle_s
        if not new and not idle:
            return  # one file for each batch with slack: the next one shows what it did
        self._batch, self._since_s = last.batch, time.monotonic()
        if idle or has_slack(last, self._operator.limit_ms):
            # The newest batch may not be committed yet.
            over = int(last.batch) if last.batch.isdigit() else None
            release(self._path, most=1, before=over)
