"""The operator stage: calls the user's function, and measures the cost of each record."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.policies.kernels import Float64, Int64
from penstock.spark.executor.arrow import (
    arrow_of_rows,
    batches_of_records,
    fitting_batches,
    rows_of_arrow,
)
from penstock.spark.executor.columns import ARRIVAL, KEY
from penstock.spark.executor.meter import Meter
from penstock.spark.executor.reporting import Reports
from penstock.spark.executor.spec import OperatorSpec

if TYPE_CHECKING:
    from pyspark import Accumulator

Form = Literal["dict", "row", "arrow"]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class UserFunction:
    """The user's part of an operator.

    Attributes:
        operator: name of the operator, for messages.
        call: the function itself.
        form: what the function takes: a dict, a Row, or an Arrow RecordBatch.
        keys: names of the key's columns, for messages.
        given: schema of the records that the function takes.
        returned: schema of the records that the function returns.
    """

    operator: str
    call: Callable[..., Any]
    form: Form
    keys: tuple[str, ...]
    given: StructType
    returned: StructType


class Records(NamedTuple):
    """The records of one Arrow batch.

    Attributes:
        keys: hashes of their keys.
        arrival_ms: times of arrival, in milliseconds since 1970; None if the operator does not
            shed.
        given: the user's columns.
    """

    keys: Int64
    arrival_ms: Float64 | None
    given: pa.RecordBatch


def executing(
    spec: OperatorSpec, function: UserFunction, reports: "Accumulator[Reports]"
) -> Callable[[Batches], Batches]:
    """Return the function that executes the records of one task."""

    def execute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        meter = Meter(spec, reports)
        run = _run_batch if function.form == "arrow" else _run_records
        for batch in batches:
            for returned in run(function, meter, records_of_batch(function.given, batch)):
                meter.emitted += returned.num_rows
                yield returned
        meter.report()

    return execute


def records_of_batch(schema: StructType, batch: pa.RecordBatch) -> Records:
    """Take an Arrow batch apart: the user's columns come first, named by their numbers."""
    arrival_ms = None
    if ARRIVAL in batch.schema.names:
        arrival_ms = batch.column(ARRIVAL).to_numpy(zero_copy_only=False)
    given = batch.select(range(len(schema.names))).rename_columns(schema.names)
    return Records(batch.column(KEY).to_numpy(zero_copy_only=False), arrival_ms, given)


def _run_records(function: UserFunction, meter: Meter, records: Records) -> list[pa.RecordBatch]:
    """Call the function for each record, and measure each call."""
    rows = rows_of_arrow(records.given, function.given)
    started_s = np.empty(len(rows))
    costs_ms = np.empty(len(rows))
    returned: list[Any] = []
    for i, row in enumerate(rows):
        start = time.perf_counter()
        try:
            returned += returned_records(
                function.call(row.asDict() if function.form == "dict" else row)
            )
        except Exception as error:
            message = failure(function.operator, function.keys, row, error=error)
            raise RuntimeError(message) from error
        costs_ms[i] = 1000 * (time.perf_counter() - start)
        started_s[i] = start
    meter.one_by_one(records.keys, costs_ms)
    if records.arrival_ms is not None:
        since_1970_s = time.time() - time.perf_counter()
        meter.waited(records.arrival_ms, 1000 * (started_s + since_1970_s))
    return batches_of_records(function.operator, function.returned, returned)


def _run_batch(function: UserFunction, meter: Meter, records: Records) -> list[pa.RecordBatch]:
    """Call the function with the whole batch; its records share the cost equally."""
    given = records.given
    if records.arrival_ms is not None:
        meter.waited(records.arrival_ms, 1000 * time.time())
    start = time.perf_counter()
    try:
        returned = fitting_batches(function.call(given), function.returned)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise RuntimeError(
            f"penstock: operator {function.operator!r} failed on a batch of {given.num_rows} "
            f"records: {cause}"
        ) from error
    meter.together(records.keys, 1000 * (time.perf_counter() - start))
    return returned


def returned_records(result: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a user's result
    """Return the records of a function's result; None stands for no record."""
    if isinstance(result, str | bytes):
        raise TypeError(f"a record must be a dict or a Row; got {result!r:.80}")
    several = (result,) if result is None or isinstance(result, dict | Row) else result
    return [_record(one) for one in several if one is not None]


def _record(one: Any) -> dict[str, Any]:  # noqa: ANN401 - a user's result
    if isinstance(one, Row) and hasattr(one, "__fields__"):
        return one.asDict()
    if not isinstance(one, dict):
        raise TypeError(f"a record must be a dict or a Row with names; got {one!r:.80}")
    return one


def try_example(function: UserFunction, example: dict[str, Any]) -> None:
    """Call the function with a record, and refuse a result that does not fit the schema."""
    try:
        if function.form == "arrow":
            (batch,) = arrow_of_rows([example], function.given).combine_chunks().to_batches()
            fitting_batches(function.call(batch), function.returned)
        else:
            given = example if function.form == "dict" else Row(**example)
            records = returned_records(function.call(given))
            batches_of_records(function.operator, function.returned, records)
    except Exception as error:
        raise PenstockError(f"example: {error}") from error


def failure(operator: str, keys: tuple[str, ...], row: Row, *, error: Exception) -> str:
    """Return a message with the operator, the record's key and the cause."""
    key = {name: _value_of(row.asDict(), name) for name in keys}
    cause = f"{type(error).__name__}: {error}"
    return f"penstock: operator {operator!r} failed on the record with key {key}: {cause}"


def _value_of(fields: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - of any type
    """Return a key's value for a message: by its name, its first part, or in another case."""
    folded = {known.lower(): known for known in fields}
    for candidate in (name, name.split(".", maxsplit=1)[0]):
        if candidate.lower() in folded:
            return fields[folded[candidate.lower()]]
    return "(an expression)"
