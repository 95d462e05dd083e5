"""The writer of traces: sampled records of each finished batch, in one Parquet file a batch."""

import threading
import uuid
from collections import OrderedDict, deque
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession

from penstock.control import FinishedBatch
from penstock.control.newest import trim
from penstock.control.reports import Report
from penstock.control.trace import numbers_of, table_of
from penstock.errors import PenstockError
from penstock.spark import internals
from penstock.spark.paths import absolute
from penstock.spark.spill import file_system, refuse_unwritable, remove_file

# Records of a batch and batches that a trace has at most; older batches are deleted.
MOST_RECORDS = 10_000
MOST_BATCHES = 500
# Records that each task may sample at least.
_LEAST_RECORDS = 64
# Batches whose reports are awaited; a failed query never completes its last ones.
_PENDING = 8


class Recorder:
    """Writes the trace of one operator, on the driver.

    Samples arrive with the reports of tasks, which Spark delivers for successful tasks only. The
    first report of each task counts, so a task that runs again or twice is recorded once. A file is
    written when its batch is complete, and a batch that runs again replaces its file. A batch whose
    reports are incomplete is not written. Thread safe: reports arrive on the thread of the control
    plane, and files are written on that of notices.

    Args:
        path: folder of the trace.
        operator: name of the operator.
    """

    def __init__(self, path: str, operator: str) -> None:
        self.path = path
        self.operator = operator
        self._lock = threading.Lock()
        self._pending: OrderedDict[str, dict[tuple[str, str, int], Report]] = OrderedDict()
        self._names: deque[str] | None = None
        self._spark: SparkSession | None = None
        self._grouping = ""
        self._in_front = False

    @classmethod
    def of(cls, path: Path | str | None, operator: str) -> "Recorder | None":
        """Return the recorder for the user's folder; None without one."""
        if path is None:
            return None
        if not isinstance(path, str | Path) or not str(path):
            raise PenstockError(f"record must be the path of a folder; got {path!r}")
        return cls(absolute(str(path)), operator)

    def begin(self, spark: SparkSession, grouping: str, *, in_front: bool) -> None:
        """Get ready for a query, or refuse a folder that cannot be written.

        Args:
            spark: session of the query.
            grouping: name of the grouping.
            in_front: whether the operator only sheds.
        """
        refuse_unwritable(self.path, argument="record")
        self._spark, self._grouping, self._in_front = spark, grouping, in_front

    @staticmethod
    def limit(tasks: int) -> int:
        """Return the largest number of records that each of some tasks samples."""
        return max(_LEAST_RECORDS, MOST_RECORDS // tasks)

    def add(self, report: Report) -> None:
        """Keep the report of a task until its batch is complete."""
        if not report.sample:
            return
        task = report.task
        with self._lock:
            own = self._pending.setdefault(_batch_key(task.query, task.batch), {})
            own.setdefault((type(report).__name__, task.use, task.partition), report)
            trim(self._pending, _PENDING)

    def forget(self, query: str) -> None:
        """Forget incomplete batches of a query that starts again."""
        with self._lock:
            for key in [key for key in self._pending if key.startswith(_batch_key(query, ""))]:
                del self._pending[key]

    def write(self, batch: FinishedBatch) -> None:
        """Write the file of a complete batch, and delete the oldest one if there are too many."""
        with self._lock:
            taken = self._pending.pop(_batch_key(batch.query, batch.batch), {})
        reports = [*taken.values()]
        if not reports:
            return
        trigger_ms, before = self._times(batch.query)
        numbers = numbers_of(
            batch,
            reports,
            grouping=self._grouping,
            in_front=self._in_front,
            trigger_ms=trigger_ms,
            before=before,
        )
        files, root = file_system(self.path, argument="record")
        name = f"{self.operator}-{self._run_name(batch)}-{numbers.number:012}.parquet"
        part = f"{root}/.{name}.{uuid.uuid4().hex}"
        try:
            pq.write_table(table_of(numbers, reports), part, filesystem=files, compression="zstd")
            files.move(part, f"{root}/{name}")
        except BaseException:
            remove_file(files, part)
            raise
        self._keep_newest(files, root, name)

    def _run_name(self, batch: FinishedBatch) -> str:
        """Return the part of a file's name that tells queries and applications apart."""
        application = self._spark.sparkContext.applicationId if self._spark is not None else ""
        return batch.query.replace("-", "")[:12] or application

    def _times(self, query: str) -> tuple[float | None, tuple[str, float] | None]:
        """Return the interval of the trigger, and number and duration of the batch before."""
        if self._spark is None or not query:
            return None, None
        done = internals.last_batch(self._spark, query)
        interval_ms = internals.trigger_interval_ms(self._spark, query)
        return interval_ms, None if done is None else (done.batch, done.duration_ms)

    def _keep_newest(self, files: fs.FileSystem, root: str, name: str) -> None:
        if self._names is None:
            own = [
                one
                for one in files.get_file_info(fs.FileSelector(root))
                if one.base_name.startswith(f"{self.operator}-")
                and one.base_name.endswith(".parquet")
            ]
            own.sort(key=lambda one: one.mtime_ns or 0)
            self._names = deque(one.base_name for one in own if one.base_name != name)
        elif name in self._names:
            self._names.remove(name)
        self._names.append(name)
        while len(self._names) > MOST_BATCHES:
            remove_file(files, f"{root}/{self._names.popleft()}")


def _batch_key(query: str, batch: str) -> str:
    return f"{query}/{batch}"
