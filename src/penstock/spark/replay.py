"""`penstock.replay`: shed records are processed later, when the operator has slack."""

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
from penstock.policies.validation import seconds
from penstock.spark.routed import RoutedOperator
from penstock.spark.spill import ADDED, BATCH, absolute, file_system

log = logging.getLogger("penstock")

_READY = "-replay"
_SHORTEST_S = 0.05


def replay(
    spark: SparkSession,
    path: str,
    *,
    when: RoutedOperator | None = None,
    arrival: str | None = None,
    schema: StructType | str | None = None,
    every: float | str = "1 s",
) -> DataFrame:
    """Return shed records as a stream, to be processed when the operator has slack.

    Files are moved, one by one, to a second folder, whose name ends in "-replay". Spark reads that
    folder like any stream of files: each file once, also after a restart. An operator has slack if
    it has shed nothing in its newest batch and records have waited at most half of the target, or
    if nothing has arrived for a while. Union the stream with the live one, or write it in a query
    of its own.

    Args:
        spark: session to read with.
        path: folder that an operator spills to.
        when: operator that must have slack; None moves everything at once, for queries that have
            ended.
        arrival: timestamp column that is set to the time of the replay, so that records are not
            shed again for their age; None leaves it unchanged.
        schema: schema of the records, such as `events.schema`; needed if nothing has been spilled
            yet.
        every: time between two looks at the operator, such as "1 s"; a number is in milliseconds.

    Example:
        >>> late = replay(
        ...     spark, "spill", when=op, arrival="timestamp", schema=events.schema
        ... )  # doctest: +SKIP
        >>> query = events.unionByName(late).transform(op).writeStream...  # doctest: +SKIP
    """
    every_s = seconds("every", every, least=_SHORTEST_S)
    path = absolute(path)
    files, root = file_system(path)
    files.create_dir(root + _READY, recursive=True)
    if schema is None:
        schema = _known_schema(spark, path)
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
        _Releaser(path, when, every_s).start()
    if arrival is None:
        return frame
    return frame.withColumn(arrival, sf.current_timestamp().cast(frame.schema[arrival].dataType))


def _known_schema(spark: SparkSession, path: str) -> StructType:
    files, root = file_system(path)
    known = [*_spilled(files, root), *_spilled(files, root + _READY)]
    if not known:
        raise PenstockError(
            f"path: {path!r} has no spilled records yet, so give their schema, such as "
            "schema=events.schema"
        )
    return spark.read.parquet(_of_spark(path.removesuffix(root) + known[0])).schema


def _of_spark(path: str) -> str:
    """Return a path as Spark spells it: Arrow's s3:// is Spark's s3a://."""
    return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path


def _spilled(files: fs.FileSystem, root: str) -> list[str]:
    """Return the complete files of spilled records, oldest first."""
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    found = [one for one in files.get_file_info(selector) if one.is_file]
    complete = [one for one in found if not one.base_name.startswith((".", "_"))]
    return [one.path for one in sorted(complete, key=lambda one: (one.mtime_ns or 0, one.path))]


_NUMBER = re.compile(rf"/{BATCH}=(\d+)/")


def release(path: str, most: int | None = None, before: int | None = None) -> int:
    """Move spilled files to the folder that Spark reads, the oldest first; return their number.

    Args:
        path: folder that an operator spills to.
        most: largest number of files; None for all.
        before: number of a batch; only files of earlier batches are moved. None for all.
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
    """Whether an operator whose last batch was this one has time for more records."""
    return not last.shed and (limit_ms is None or not last.waiting_ms > limit_ms / 2)


class _Releaser:
    """Moves one file at a time, when the operator has slack, until the operator is closed."""

    def __init__(self, path: str, operator: RoutedOperator, every_s: float) -> None:
        self._path = path
        self._operator = operator
        self._every_s = every_s
        # An operator without a new batch for so long has nothing to do.
        self._idle_s = max(2 * every_s, 2 * (operator.limit_ms or 0.0) / 1000)
        self._batch = ""
        self._since_s = time.monotonic()

    def start(self) -> None:
        """Start the thread that looks at the operator."""
        threading.Thread(target=self._run, name="penstock-replay", daemon=True).start()

    def _run(self) -> None:
        while not self._operator.closed:
            time.sleep(self._every_s)
            try:
                self._look()
            except Exception:
                # A late replay is better than a failed query.
                log.exception("files of %s cannot be replayed now; trying again", self._path)

    def _look(self) -> None:
        found = self._operator.all_stats()
        last = found[-1].last if found else None
        if last is None:
            return
        new = last.batch != self._batch
        idle = time.monotonic() - self._since_s > self._idle_s
        if not new and not idle:
            return  # one file for each batch with slack: the next batch shows its effect
        self._batch, self._since_s = last.batch, time.monotonic()
        if idle or has_slack(last, self._operator.limit_ms):
            # The newest batch may still run again.
            over = int(last.batch) if last.batch.isdigit() else None
            release(self._path, most=1, before=over)
