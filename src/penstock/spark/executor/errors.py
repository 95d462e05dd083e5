"""Records on which the function fails: they fail the task, are skipped, or are kept."""

import traceback
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import Row

from penstock.spark.channel import fetch
from penstock.spark.executor.function import UserFunction, cause, failure, key_of
from penstock.spark.executor.part_file import PartFile
from penstock.spark.executor.router import resolved_task
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import task_id
from penstock.spark.spill import ERROR_ADDED, Spill

Action = Literal["fail", "skip", "keep"]

# Failures of a task that the journal shows, and the longest text of one of them.
_SAMPLES = 3
_LONGEST = 500
_LONGEST_TRACEBACK = 20_000


@dataclass(frozen=True)
class OnError:
    """Actions for a record on which the function fails.

    Attributes:
        action: "fail" fails the query, "skip" counts the record, "keep" also writes it to a folder.
        folder: folder of kept records; None unless they are kept.
        most: largest share (below 1) or number of failed records in a batch; None for any number.
    """

    action: Action = "fail"
    folder: Spill | None = None
    most: float | None = None

    def allows(self, failed: int, received: int) -> bool:
        """Whether so many records of a batch may fail.

        Args:
            failed: number of failed records.
            received: number of records of the batch.
        """
        if self.most is None:
            return True
        return failed <= (self.most * received if self.most < 1 else self.most)


class _Failed(NamedTuple):
    """One failed record: its number in the Arrow batch, and its error."""

    number: int
    error: str
    traceback: str


class TaskErrors:
    """The failed records of one task.

    Attributes:
        count: number of failed records.
        samples: some of the failures, for the journal.

    Args:
        spec: spec of the operator.
        function: the user's function.
        on_error: what happens to failed records.
        instance: number of the task's partition in the plan.
    """

    def __init__(
        self, spec: OperatorSpec, function: UserFunction, on_error: OnError, *, instance: int
    ) -> None:
        self.count = 0
        self.samples: tuple[str, ...] = ()
        self._spec = spec
        self._function = function
        self._on_error = on_error
        self._instance = instance
        self._pending: list[_Failed] = []
        self._file: PartFile | None = None

    def __enter__(self) -> Self:
        if self._on_error.folder is not None:
            task, _ = resolved_task(self._spec, task_id(self._spec, self._instance))
            self._file = PartFile(self._on_error.folder, task)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is None:
            return
        if kind is None:
            self._file.complete()
        else:
            self._file.discard()

    @property
    def tolerated(self) -> bool:
        """Whether the task goes on after a failed record."""
        return self._on_error.action != "fail"

    def add(self, number: int, row: Row, error: Exception) -> None:
        """Note a failed record, or raise an error that names it.

        Args:
            number: number of the record in its Arrow batch.
            row: the record.
            error: error of the function.
        """
        if not self.tolerated:
            message = failure(self._function.operator, self._function.keys, row, error=error)
            raise RuntimeError(message) from error
        text = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
        self._pending.append(_Failed(number, cause(error), text))
        if len(self.samples) < _SAMPLES:
            sample = f"{key_of(row, self._function.keys)}: {cause(error)}"
            self.samples += (sample[:_LONGEST],)

    def flush(self, given: pa.RecordBatch) -> int:
        """Keep the failed records of an Arrow batch; return their number."""
        failed, self._pending = self._pending, []
        if failed and self._file is not None:
            self._file.write(self._described(given, failed))
        self.count += len(failed)
        return len(failed)

    def _described(self, given: pa.RecordBatch, failed: list[_Failed]) -> pa.RecordBatch:
        """Return failed records with their errors and where they happened."""
        rows = given.take(pa.array([one.number for one in failed]))
        more = [
            pa.array([one.error for one in failed]),
            pa.array([one.traceback for one in failed]),
            pa.repeat(self._function.operator, len(failed)),
            pa.array([self._instance] * len(failed), pa.int32()),
        ]
        names = [*rows.schema.names, *ERROR_ADDED]
        return pa.RecordBatch.from_arrays([*rows.columns, *more], names=names)

    def check(self, executed: int) -> None:
        """Fail if the batch has more failed records than it may have.

        The driver adds up the failures of all tasks. Each task asks before it succeeds, so the last
        one sees all of them. Without an answer a task knows its own failures only.

        Args:
            executed: number of records that this task has executed.
        """
        if not self.count or self._on_error.most is None:
            return
        failed, received = self._in_batch(executed)
        if not self._on_error.allows(failed, received):
            raise RuntimeError(
                f"penstock: operator {self._function.operator!r} failed on {failed} of {received} "
                f"records, and max_errors allows {self._on_error.most:g}; for example on "
                f"{self.samples[0]}"
            )

    def _in_batch(self, executed: int) -> tuple[int, int]:
        """Return the failed records of the batch so far, and all of its records."""
        asking = task_id(self._spec, self._instance)
        request = {
            "operator": asking.operator,
            "query": asking.query,
            "batch": asking.batch,
            "run": asking.run,
            "use": asking.use,
            "partition": asking.partition,
            "failed": self.count,
        }
        try:
            answer = fetch(self._spec.address, request, resolved_task(self._spec, asking)[1])
        except OSError:
            return self.count, executed
        return max(self.count, answer.failed), max(executed, answer.received)
