"""The operator stage: calls the user's function, and measures the cost of each record."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from penstock.policies.grouping.base import order_by_length
from penstock.policies.kernels import Float64
from penstock.spark.executor.arrow import rows_of_arrow
from penstock.spark.executor.awaiting import Awaiting
from penstock.spark.executor.batch_forms import run_batches, run_iterator
from penstock.spark.executor.calls import Calls, one_by_one
from penstock.spark.executor.errors import OnError, TaskErrors
from penstock.spark.executor.forms import is_iterator_form, is_record_form
from penstock.spark.executor.function import UserFunction
from penstock.spark.executor.lifecycle import opened
from penstock.spark.executor.meter import Meter
from penstock.spark.executor.records import (
    Batches,
    Records,
    joined,
    partition_of,
    records_of_batch,
)
from penstock.spark.executor.reporting import Reports
from penstock.spark.executor.router import control_of, sizes_for
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import task_id
from penstock.spark.executor.threads import Threads

if TYPE_CHECKING:
    from pyspark import Accumulator

# Possible costs of records; None if nothing is known.
Expecting = Callable[[Records], Float64 | None]

# Returned records that a task holds before it passes them on.
_ROWS = 10_000


def executing(
    spec: OperatorSpec,
    function: UserFunction,
    reports: "Accumulator[Reports]",
    *,
    on_error: OnError,
) -> Callable[[Batches], Batches]:
    """Return the function that executes the records of one task."""

    def execute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        instance, batches = partition_of(batches)
        if instance is None:
            return
        meter = Meter(spec, instance, reports, servers=function.concurrency)
        several = function.concurrency > 1
        possible_ms = _expecting(spec, instance) if several else None
        taken = _taken(function, meter, joined(batches) if several else batches)
        with (
            opened(spec, function, instance) as called,
            TaskErrors(spec, function, on_error, instance=instance) as errors,
        ):
            for returned in _run(called, meter, errors, taken=taken, possible_ms=possible_ms):
                meter.emitted += returned.num_rows
                yield returned
            errors.check(meter.executed)
        meter.report()

    return execute


def _taken(function: UserFunction, meter: Meter, batches: Batches) -> Iterator[Records]:
    for batch in batches:
        records = records_of_batch(function.given, batch)
        meter.names.look(records.keys, records.given, function.keys)
        yield records


def _expecting(spec: OperatorSpec, instance: int) -> Expecting:
    """Return the function by which an instance with several servers orders its records."""
    grouping = control_of(spec, task_id(spec, instance)).policies.grouping

    def possible_ms(records: Records) -> Float64 | None:
        return grouping.possible_ms(records.keys, **sizes_for(grouping, records.sizes))

    return possible_ms


def _order(records: Records, possible_ms: Expecting | None, servers: int) -> Sequence[int]:
    """Return the order in which records are called: the longest first, if that is known.

    Short records come last, so that all servers end nearly together.
    """
    expected_ms = None if possible_ms is None else possible_ms(records)
    found = None
    if expected_ms is not None:
        found = order_by_length(expected_ms, float(expected_ms.sum()) / servers)
    return range(records.keys.size) if found is None else found.tolist()


def _run(
    function: UserFunction,
    meter: Meter,
    errors: TaskErrors,
    *,
    taken: Iterator[Records],
    possible_ms: Expecting | None,
) -> Batches:
    if is_iterator_form(function.form):
        return run_iterator(function, meter, taken)
    if is_record_form(function.form):
        return _run_records(function, meter, errors, taken=taken, possible_ms=possible_ms)
    return run_batches(function, meter, errors, taken=taken)


def _run_records(
    function: UserFunction,
    meter: Meter,
    errors: TaskErrors,
    *,
    taken: Iterator[Records],
    possible_ms: Expecting | None,
) -> Batches:
    """Call the function for each record, and measure each call."""
    awaiting = Awaiting(goes_on=errors.tolerated)
    calls: Calls = one_by_one
    if function.awaits:
        calls = awaiting.calls
    elif function.threaded:
        calls = Threads(goes_on=errors.tolerated).calls
    for records in taken:
        rows = rows_of_arrow(records.given, function.given)
        started_s = np.empty(len(rows))
        costs_ms = np.empty(len(rows))
        held = _Held(function, errors, rows)
        order = _order(records, possible_ms, function.concurrency)
        for i, outcome in calls(function, rows, order):
            started_s[i], costs_ms[i] = outcome.started_s, outcome.cost_ms
            if outcome.error is not None:
                errors.add(i, rows[i], outcome.error)
            elif held.add(i, outcome.returned) >= _ROWS:
                yield from held.converted()
        yield from held.converted()
        meter.one_by_one(records.keys, costs_ms, records.sizes, arrival_ms=records.arrival_ms)
        meter.stalled(awaiting.stalled_s)
        meter.failed(errors.flush(records.given), errors.samples)
        if records.arrival_ms is not None:
            since_1970_s = time.time() - time.perf_counter()
            meter.waited(records.arrival_ms, 1000 * (started_s + since_1970_s))


class _Held:
    """Returned records that wait to be passed on.

    Args:
        function: the user's function.
        errors: failed records of the task.
        rows: records of the Arrow batch.
    """

    def __init__(self, function: UserFunction, errors: TaskErrors, rows: list[Row]) -> None:
        self._function = function
        self._errors = errors
        self._rows = rows
        self._returned: list[dict[str, Any]] = []
        # Record of the Arrow batch that each returned record comes from.
        self._sources: list[int] = []

    def add(self, number: int, returned: list[dict[str, Any]]) -> int:
        """Add what a call has returned; return how many records are held."""
        self._returned += returned
        if self._errors.tolerated:
            self._sources += [number] * len(returned)
        return len(self._returned)

    def converted(self) -> list[pa.RecordBatch]:
        """Return all records as Arrow batches, and hold none of them any more."""
        returned, self._returned = self._returned, []
        sources, self._sources = self._sources, []
        try:
            return self._function.converted(returned)
        except RuntimeError:
            if not self._errors.tolerated:
                raise
        return self._fitting(returned, sources)

    def _fitting(self, returned: list[dict[str, Any]], sources: list[int]) -> list[pa.RecordBatch]:
        """Return the records that fit the schema; a call of which one does not fit has failed."""
        of_call: dict[int, list[dict[str, Any]]] = {}
        for number, record in zip(sources, returned, strict=True):
            of_call.setdefault(number, []).append(record)
        good: list[dict[str, Any]] = []
        for number, several in of_call.items():
            try:
                self._function.converted(several)
            except RuntimeError as error:
                self._errors.add(number, self._rows[number], error)
            else:
                good += several
        return self._function.converted(good)
