"""Functions that take whole batches: their records share the cost equally, or by their sizes."""

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.spark.executor.arrow import rows_of_arrow
from penstock.spark.executor.errors import TaskErrors
from penstock.spark.executor.function import UserFunction, cause, returned_by_iterator
from penstock.spark.executor.meter import Meter
from penstock.spark.executor.records import Batches, Records


def run_batches(
    function: UserFunction, meter: Meter, errors: TaskErrors, *, taken: Iterator[Records]
) -> Batches:
    """Call the function with each batch."""
    for records in taken:
        meter.waited_since(records.arrival_ms)
        start = time.perf_counter()
        if errors.tolerated:
            returned = _without_failures(function, errors, records.given)
        else:
            returned = _whole(function, records.given)
        cost_ms = 1000 * (time.perf_counter() - start)
        meter.together(records.keys, cost_ms, records.sizes, arrival_ms=records.arrival_ms)
        meter.failed(errors.flush(records.given), errors.samples)
        yield from returned


def _whole(function: UserFunction, given: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Call the function with a batch, or fail with its size."""
    try:
        return function.fitting(function.call(function.batch_of(given)))
    except Exception as error:
        raise RuntimeError(_on_batch(function, given, error)) from error


def _without_failures(
    function: UserFunction, errors: TaskErrors, given: pa.RecordBatch, *, start: int = 0
) -> list[pa.RecordBatch]:
    """Call the function with a batch, and with its halves if it fails, down to single records.

    Args:
        function: the user's function.
        errors: failed records of the task.
        given: the batch, or a part of it.
        start: number of its first record in the whole batch.
    """
    try:
        return function.fitting(function.call(function.batch_of(given)))
    except Exception as error:
        if given.num_rows <= 1:
            [row] = rows_of_arrow(given, function.given)
            errors.add(start, row, error)
            return []
    half = given.num_rows // 2
    first = _without_failures(function, errors, given.slice(0, half), start=start)
    return first + _without_failures(function, errors, given.slice(half), start=start + half)


def _on_batch(function: UserFunction, given: pa.RecordBatch, error: Exception) -> str:
    return (
        f"penstock: operator {function.operator!r} failed on a batch of {given.num_rows} "
        f"records: {cause(error)}"
    )


def run_iterator(function: UserFunction, meter: Meter, taken: Iterator[Records]) -> Batches:
    """Call the function once, with an iterator over all batches of the task.

    The time that the function spends after it has taken a batch, and before it takes the next one,
    is the cost of that batch. Time before the first batch, such as for loading a model, is not a
    cost of records.
    """
    feed = _Feed(function, meter, taken)
    try:
        with feed.watch:
            results = returned_by_iterator(function.call(feed))
        while True:
            with feed.watch:
                result = next(results, _END)
                returned = [] if result is _END else function.fitting(result)
            if result is _END:
                break
            yield from returned
    except Exception as error:
        if error is feed.broken:
            raise
        raise RuntimeError(feed.failure(error)) from error
    feed.finish()


_END: Any = object()


class _Watch:
    """Measures the time that is spent inside of its `with` blocks."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._start_s = 0.0

    def __enter__(self) -> None:
        self._start_s = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.spent_s += time.perf_counter() - self._start_s


class _Feed:
    """The batches of a task, as an iterator function takes them.

    Attributes:
        watch: time that the function has spent since it took the current batch.
        broken: error of Spark while it read records; None if there was none.

    Args:
        function: the user's function.
        meter: meter of the task.
        taken: records of the task.
    """

    def __init__(self, function: UserFunction, meter: Meter, taken: Iterator[Records]) -> None:
        self.watch = _Watch()
        self.broken: Exception | None = None
        self._function = function
        self._meter = meter
        self._taken = taken
        self._current: Records | None = None
        self._batches = 0
        self._exhausted = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - a batch of any kind
        """Return the next batch. Called by the function, so the watch is running."""
        self.watch.__exit__()
        try:
            self._count()
            self._current = self._pull()
        finally:
            self.watch.__enter__()
        if self._current is None:
            raise StopIteration
        return self._function.batch_of(self._current.given)

    def _pull(self) -> Records | None:
        """Read a batch from Spark: this takes no time of the function."""
        try:
            found = next(self._taken, None)
        except Exception as error:
            self.broken = error
            raise
        if found is None:
            self._exhausted = True
            return None
        self._batches += 1
        self._meter.waited_since(found.arrival_ms)
        return found

    def _count(self) -> None:
        """Count the current batch, with all time that the function has spent since it took it."""
        if self._current is not None:
            current, cost_ms = self._current, 1000 * self.watch.spent_s
            self._meter.together(
                current.keys, cost_ms, current.sizes, arrival_ms=current.arrival_ms
            )
        self._current = None
        self.watch.spent_s = 0.0

    def finish(self) -> None:
        """Count the last batch, and fail if the function has left batches."""
        self._count()
        if not self._exhausted and self._pull() is not None:
            read = self._batches - 1
            raise RuntimeError(
                f"penstock: operator {self._function.operator!r} ended after {read} batches of "
                "its task, and left others; iterate over all of them"
            )

    def failure(self, error: Exception) -> str:
        """Return a message that names the batch on which the function failed."""
        if self._current is not None:
            found = _on_batch(self._function, self._current.given, error)
            return found.replace(" a batch of ", f" batch {self._batches} of its task, of ", 1)
        where = "after its last batch" if self._batches else "before its first batch"
        return f"penstock: operator {self._function.operator!r} failed {where}: {cause(error)}"
