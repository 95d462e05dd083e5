"""The operator stage: the user's function, and what its records cost."""

import contextlib
import re
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
from penstock.spark.internals import arrow_of_rows, arrow_schema, rows_of_arrow
from penstock.spark.meter import Meter
from penstock.spark.tasks import OperatorSpec, Reports

if TYPE_CHECKING:
    from pyspark import Accumulator

KEY = "_penstock_key"
INSTANCE = "_penstock_instance"
ARRIVAL = "_penstock_arrival_ms"

Form = Literal["dict", "row", "arrow"]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Work:
    """The user's part of an operator.

    Attributes:
        function: what is called.
        form: what it takes: a dict, a Row, or an Arrow RecordBatch.
        keys: how the key is called, for messages.
        given: schema of what it takes.
        returned: schema of what it returns.
    """

    function: Callable[..., Any]
    form: Form
    keys: tuple[str, ...]
    given: StructType
    returned: StructType


class Records(NamedTuple):
    """Records of one Arrow batch.

    Attributes:
        keys: hashes of their keys.
        arrival_ms: when they arrived, in milliseconds since 1970; None if nobody wants to know.
        given: what the user's function takes.
    """

    keys: Int64
    arrival_ms: Float64 | None
    given: pa.RecordBatch


def operator(
    spec: OperatorSpec, work: Work, reports: "Accumulator[Reports]"
) -> Callable[[Batches], Batches]:
    """Return the function that executes the records of one task."""

    def execute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        meter = Meter(spec, reports)
        run = _run_batches if work.form == "arrow" else _run_records
        for batch in batches:
            for returned in run(spec.name, work, meter, taken(work.given, batch)):
                meter.emitted += returned.num_rows
                yield returned
        meter.report()

    return execute


def taken(schema: StructType, batch: pa.RecordBatch) -> Records:
    """Take an Arrow batch apart: the user's columns come first, named by their numbers."""
    arrival_ms = None
    if ARRIVAL in batch.schema.names:
        arrival_ms = batch.column(ARRIVAL).to_numpy(zero_copy_only=False)
    given = batch.select(range(len(schema.names))).rename_columns(schema.names)
    return Records(batch.column(KEY).to_numpy(zero_copy_only=False), arrival_ms, given)


def _run_records(name: str, work: Work, meter: Meter, records: Records) -> list[pa.RecordBatch]:
    """Call the function record by record, each with a cost of its own."""
    rows = rows_of_arrow(records.given, work.given)
    started_s = np.empty(len(rows))
    costs_ms = np.empty(len(rows))
    returned: list[Any] = []
    for i, row in enumerate(rows):
        start = time.perf_counter()
        try:
            returned += records_of(work.function(row.asDict() if work.form == "dict" else row))
        except Exception as error:
            raise RuntimeError(failure(name, work.keys, row, error)) from error
        costs_ms[i] = 1000 * (time.perf_counter() - start)
        started_s[i] = start
    meter.one_by_one(records.keys, costs_ms)
    if records.arrival_ms is not None:
        since_1970_s = time.time() - time.perf_counter()
        meter.waited(records.arrival_ms, 1000 * (started_s + since_1970_s))
    return as_batches(name, work.returned, returned)


def records_of(result: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever it returned
    """Return the records of a function's result; None is none, alone and among others."""
    if isinstance(result, str | bytes):
        raise TypeError(f"a record must be a dict or a Row; got {result!r:.80}")
    several = (result,) if result is None or isinstance(result, dict | Row) else result
    return [_record(one) for one in several if one is not None]


def _record(one: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever it returned
    if isinstance(one, Row) and hasattr(one, "__fields__"):
        return one.asDict()
    if not isinstance(one, dict):
        raise TypeError(f"a record must be a dict or a Row with names; got {one!r:.80}")
    return one


def try_example(name: str, work: Work, example: dict[str, Any]) -> None:
    """Call the function with a record and refuse a result that does not fit the schema."""
    try:
        if work.form == "arrow":
            (batch,) = arrow_of_rows([example], work.given).combine_chunks().to_batches()
            batches_of(work.function(batch), work.returned)
        else:
            given = example if work.form == "dict" else Row(**example)
            as_batches(name, work.returned, records_of(work.function(given)))
    except Exception as error:
        raise PenstockError(f"example: {error}") from error


def failure(operator: str, keys: tuple[str, ...], row: Row, error: Exception) -> str:
    """Return a message that names operator, key and cause."""
    key = {name: _shown(row.asDict(), name) for name in keys}
    cause = f"{type(error).__name__}: {error}"
    return f"penstock: operator {operator!r} failed on the record with key {key}: {cause}"


def _shown(fields: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - whatever the key is
    """Return a key's value for a message: by its name, its first part, or in another case."""
    folded = {known.lower(): known for known in fields}
    for candidate in (name, name.split(".", maxsplit=1)[0]):
        if candidate.lower() in folded:
            return fields[folded[candidate.lower()]]
    return "(an expression)"


def as_batches(name: str, schema: StructType, returned: list[Any]) -> list[pa.RecordBatch]:
    """Return records as Arrow, if they fit the schema."""
    if not returned:
        return []
    names = set(schema.names)
    for row in returned:
        if not row.keys() <= names:
            wrong = ", ".join(sorted(map(str, row.keys() - names)))
            raise RuntimeError(
                f"penstock: operator {name!r} returned a record with {wrong}, "
                f"which is not in its schema ({schema.simpleString()})"
            )
    try:
        table = arrow_of_rows(returned, schema)
    except Exception as error:
        raise RuntimeError(
            f"penstock: operator {name!r} returned records that do not fit its schema "
            f"({schema.simpleString()}): {type(error).__name__}: {error}"
        ) from error
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


def _run_batches(name: str, work: Work, meter: Meter, records: Records) -> list[pa.RecordBatch]:
    """Call the function with the whole batch; its cost is shared equally by its records."""
    given = records.given
    if records.arrival_ms is not None:
        meter.waited(records.arrival_ms, 1000 * time.time())
    start = time.perf_counter()
    try:
        returned = batches_of(work.function(given), work.returned)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise RuntimeError(
            f"penstock: operator {name!r} failed on a batch of {given.num_rows} records: {cause}"
        ) from error
    meter.together(records.keys, 1000 * (time.perf_counter() - start))
    return returned


def batches_of(result: Any, schema: StructType) -> list[pa.RecordBatch]:  # noqa: ANN401
    """Return the batches of a batch function's result, if they fit the schema."""
    several = [result] if result is None or isinstance(result, pa.RecordBatch) else list(result)
    wanted = arrow_schema(schema)
    return [_fitting(one, wanted) for one in several]


def _fitting(one: Any, wanted: pa.Schema) -> pa.RecordBatch:  # noqa: ANN401 - whatever it returned
    if not isinstance(one, pa.RecordBatch):
        raise TypeError(f"a batch function must return pyarrow.RecordBatch; got {one!r:.80}")
    if one.schema.names == wanted.names:
        if [*map(_kind, one.schema.types)] == [*map(_kind, wanted.types)]:
            return one
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return one.cast(wanted)
    got = ", ".join(f"{field.name}: {field.type}" for field in one.schema)
    expected = ", ".join(f"{field.name}: {field.type}" for field in wanted)
    raise TypeError(f"the batch must have the schema ({expected}); got ({got})")


def _kind(kind: pa.DataType) -> str:
    """Return a type without what Spark does not look at: time zones, and what is nullable."""
    return re.sub(r", tz=[^\]]*| not null", "", str(kind))
