"""Moves spilled files to the folder that a replay reads, when their operator has slack."""

import contextlib
import logging
import math
import re
import threading
import time
from collections.abc import Callable
from typing import ClassVar

from pyarrow import fs
from pyspark.sql import SparkSession

from penstock.control import BatchStats, OperatorStats
from penstock.errors import first_line
from penstock.spark import internals
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.internals import JvmError
from penstock.spark.spill import BATCH, NOTES, file_system, short

log = logging.getLogger("penstock")

READY = "-replay"
# Files that a batch reads at most.
MOST_FILES = 64
# Releases after which the first of them has shown its effect.
_SHOWN = 2
# Folder of a batch of a streaming query; file of one of its tasks: operator, query, run (older
# versions had none), frame, task.
_RUN = "(?:[0-9a-f]{8}-)?"
_FILE = re.compile(rf"/{BATCH}=(\d+)/.*-([0-9a-f]{{12}})-{_RUN}[0-9a-f]+-\d+\.parquet$")


def spilled_files(files: fs.FileSystem, root: str) -> list[str]:
    """Return the complete files of spilled records, oldest first."""
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    found = [one for one in files.get_file_info(selector) if one.is_file]
    complete = [one for one in found if one.base_name.endswith(".parquet")]
    visible = [one for one in complete if not one.base_name.startswith((".", "_"))]
    return [one.path for one in sorted(visible, key=lambda one: (one.mtime_ns or 0, one.path))]


def release(path: str, most: int | None = None, final: Callable[[str], bool] | None = None) -> int:
    """Move spilled files to the folder that Spark reads, the oldest first; return their number.

    Args:
        path: folder that an operator spills to.
        most: largest number of files; None for all.
        final: function that returns whether a file may be moved; None moves all of them.
    """
    files, root = file_system(path)
    moved = 0
    for name in spilled_files(files, root):
        if moved == most:
            break
        if final is not None and not final(name):
            continue
        flat = name.removeprefix(root).strip("/").replace("/", "-")
        files.move(name, f"{root}{READY}/{flat}")
        moved += 1
    return moved


def release_all(spark: SparkSession, path: str) -> None:
    """Move the files of all batches but those that will run again, and log why some stay."""
    files = CommittedFiles(spark, path)
    release(path, final=lambda name: not files.unfinished(name))
    for checkpoint in sorted(files.unfinished_in):
        log.warning(
            "files of %s stay there: their batch was not committed and will run again. Start the "
            "query with the checkpoint %s again, and replay them when it has ended; or delete that "
            "checkpoint, if you give the query up",
            path,
            checkpoint,
        )


class CommittedFiles:
    """Finds files of batches that are committed: they will not be written again.

    Args:
        spark: session to read checkpoints with.
        path: folder that an operator spills to.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._files, self._root = file_system(path)
        self._committed: dict[str, int] = {}
        self._unfinished: dict[str, float] = {}
        # Checkpoints of batches that will run again.
        self.unfinished_in: set[str] = set()

    def __call__(self, name: str) -> bool:
        """Whether a file is of a committed batch of a streaming query."""
        found = _FILE.search(name)
        if found is None:
            return False
        batch, query = int(found[1]), found[2]
        if query not in self._committed:
            self._committed[query] = self._newest_of(query)
        return batch <= self._committed[query]

    def unfinished(self, name: str) -> bool:
        """Whether a file is of a batch that will run again, as far as is known."""
        found = _FILE.search(name)
        if found is None:
            return False
        query = found[2]
        if query not in self._unfinished:
            self._unfinished[query] = self._unfinished_of(query)
        return int(found[1]) >= self._unfinished[query]

    def _newest_of(self, query: str) -> int:
        """Return the newest committed batch of a query; -1 if that is unknown."""
        try:
            return internals.committed_batch(self._spark, self._checkpoint(query))
        except (OSError, JvmError, UnicodeDecodeError) as error:
            log.debug("files of query %s stay: %s", query, error)
            return -1

    def _unfinished_of(self, query: str) -> float:
        """Return the first batch of a query that will run again; infinite without one.

        All files stay if the checkpoint cannot be read, but not if nothing says where it is.
        """
        try:
            checkpoint = self._checkpoint(query)
            if short(internals.query_of(self._spark, checkpoint)) != query:
                return math.inf  # the query was given up
            if internals.unfinished_batch(self._spark, checkpoint) is None:
                return math.inf
            self.unfinished_in.add(checkpoint)
            return internals.committed_batch(self._spark, checkpoint) + 1
        except FileNotFoundError:
            return math.inf
        except (OSError, JvmError, KeyError, ValueError) as error:
            log.warning(
                "files of query %s in %s stay, as its checkpoint cannot be read: %s. If you have "
                "given the query up, delete %s/%s",
                query,
                self._root,
                first_line(error),
                f"{self._root}/{NOTES}",
                query,
            )
            return -1

    def _checkpoint(self, query: str) -> str:
        with self._files.open_input_stream(f"{self._root}/{NOTES}/{query}") as stream:
            return str(stream.read().decode())


def has_slack(last: BatchStats, limit_ms: float | None) -> bool:
    """Whether an operator whose last batch was this one has time for more records."""
    return not last.shed and (limit_ms is None or not last.waiting_ms > limit_ms / 2)


class Pace:
    """How many released files may wait to be read: one at first, then twice as many, and so on.

    A file that is released during a batch is read by the next one. So the number doubles after two
    releases. A batch without slack starts again from one file.

    Example:
        >>> pace = Pace()
        >>> pace.released(), pace.released(), pace.files
        (None, None, 2)
        >>> pace.no_slack()
        >>> pace.files
        1
    """

    def __init__(self) -> None:
        self._releases = 0

    @property
    def files(self) -> int:
        """Largest number of files that may wait."""
        return int(2 ** (self._releases // _SHOWN))

    def released(self) -> None:
        """Count a release."""
        if self.files < MOST_FILES:
            self._releases += 1

    def no_slack(self) -> None:
        """Start again: the operator has too little time."""
        self._releases = 0


class Releaser:
    """Moves files when the operator has slack, few at first.

    A batch with slack releases files, and so does a query that works on no batch for a while.
    `Pace` has their number.

    Args:
        spark: session of the replay.
        path: folder that the operator spills to.
        stats: function that returns the operator's stats; None when the operator is closed.
        limit_ms: limit of the operator's target; None without one.
        every_s: time between two looks at the operator.
    """

    _of_folder: ClassVar[dict[str, "Releaser"]] = {}

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        stats: Callable[[], list[OperatorStats] | None],
        *,
        limit_ms: float | None,
        every_s: float,
    ) -> None:
        self._spark = spark
        self._path = path
        self._stats = stats
        self._limit_ms = limit_ms
        self._every_s = every_s
        self._batch = ""
        self._pace = Pace()
        self._quiet_since_s = time.monotonic()
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the thread that looks at the operator; an earlier one of the same folder ends."""
        before = self._of_folder.get(self._path)
        if before is not None:
            before.stop()
        self._of_folder[self._path] = self
        threading.Thread(target=self._run, name="penstock-replay", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                found = self._stats()
                if found is None or not self._has_session():
                    break
                if found:
                    self._look(found[-1])
            except Exception:
                # A late replay is better than a failed query.
                log.exception("files of %s cannot be replayed now; trying again", self._path)
        if self._of_folder.get(self._path) is self:
            del self._of_folder[self._path]

    def _has_session(self) -> bool:
        with contextlib.suppress(Exception):
            return not self._spark.sparkContext._jsc.sc().isStopped()
        return False

    def _look(self, stats: OperatorStats) -> None:
        """Release files if the newest batch had slack, or if the query is idle."""
        last, busy = stats.last, internals.is_busy(self._spark, stats.query)
        if last is None or busy is None:
            return  # nothing has run yet, or the query has ended
        new = last.batch != self._batch
        if busy or new:
            self._quiet_since_s = time.monotonic()
        self._batch = last.batch
        idle = time.monotonic() - self._quiet_since_s > self._idle_s(stats.query)
        slack = has_slack(last, self._limit_ms)
        if new and not slack:
            self._pace.no_slack()
        if idle or (new and slack):
            self._quiet_since_s = time.monotonic()
            plane = ControlPlane.running(self._spark)
            if plane is not None:
                plane.stale_files.look(now=True)
            self._release(idle=idle)

    def _release(self, *, idle: bool) -> None:
        """Release files, as many as may wait beside those that Spark has not removed yet.

        Spark removes what it has read with the batch after that. An idle query has read everything.
        """
        files, root = file_system(self._path)
        waiting = 0 if idle else len(spilled_files(files, root + READY))
        most = self._pace.files - waiting
        final = CommittedFiles(self._spark, self._path)
        if most > 0 and release(self._path, most=most, final=final):
            self._pace.released()

    def _idle_s(self, query: str) -> float:
        """Return the time without a batch after which a query has nothing to do."""
        interval_ms = internals.trigger_interval_ms(self._spark, query) or 0.0
        return 2 * max(self._every_s, (self._limit_ms or 0.0) / 1000, interval_ms / 1000)
