"""Calls of a function that takes single records: one by one, in threads, or awaited."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Row

from penstock.spark.executor.function import UserFunction, returned_records


class Outcome(NamedTuple):
    """The outcome of one call.

    Attributes:
        started_s: time of its start, on the clock `time.perf_counter`.
        cost_ms: time that the call took.
        returned: records that it returned; empty if it failed.
        error: error with which it failed; None if it did not.
    """

    started_s: float
    cost_ms: float
    returned: list[dict[str, Any]]
    error: Exception | None = None


# Numbers of records with the outcomes of their calls.
Outcomes = Iterator[tuple[int, Outcome]]
# Calls of a function for all records, which start in the order of some numbers of records.
Calls = Callable[[UserFunction, list[Row], Sequence[int]], Outcomes]


def one_by_one(function: UserFunction, rows: list[Row], order: Sequence[int]) -> Outcomes:
    """Call the function for one record after the other."""
    for number in order:
        yield number, called(function, rows[number])


def called(function: UserFunction, row: Row) -> Outcome:
    """Call the function for one record."""
    returned: list[dict[str, Any]] = []
    failed: Exception | None = None
    start = time.perf_counter()
    try:
        returned = returned_records(function.call(function.argument_of(row)))
    except Exception as error:
        failed = error
    return Outcome(start, 1000 * (time.perf_counter() - start), returned, failed)


def timed_out(function: UserFunction) -> TimeoutError:
    """Return the error of a call that has taken too long."""
    return TimeoutError(f"no result within {function.timeout_s:g} s")
