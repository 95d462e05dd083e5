"""Conversions between Arrow and the Python values that Spark's own functions get."""

import contextlib
import re
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a schema; the time zone does not matter."""
    return to_arrow_schema(schema, timezone="UTC")


def rows_of_arrow(batch: pa.RecordBatch, schema: StructType) -> list[Row]:
    """Return rows with the Python values that Spark's own UDFs get."""
    return ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)


def arrow_of_rows(rows: list[dict[str, Any]], schema: StructType) -> pa.Table:
    """Return an Arrow table of records, with Spark's own conversions."""
    return LocalDataToArrowConversion.convert(rows, schema, False)


def batches_of_records(name: str, schema: StructType, records: list[Any]) -> list[pa.RecordBatch]:
    """Return an operator's records as Arrow batches, or fail if they do not fit the schema."""
    if not records:
        return []
    names = set(schema.names)
    for row in records:
        if not row.keys() <= names:
            wrong = ", ".join(sorted(map(str, row.keys() - names)))
            raise RuntimeError(
                f"penstock: operator {name!r} returned a record with {wrong}, "
                f"which is not in its schema ({schema.simpleString()})"
            )
    try:
        table = arrow_of_rows(records, schema)
    except Exception as error:
        raise RuntimeError(
            f"penstock: operator {name!r} returned records that do not fit its schema "
            f"({schema.simpleString()}): {type(error).__name__}: {error}"
        ) from error
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


def fitting_batches(result: Any, schema: StructType) -> list[pa.RecordBatch]:  # noqa: ANN401
    """Return the batches of a batch function's result, or fail if they do not fit the schema."""
    several = [result] if result is None or isinstance(result, pa.RecordBatch) else list(result)
    wanted = arrow_schema(schema)
    return [_fitting(one, wanted) for one in several]


def _fitting(one: Any, wanted: pa.Schema) -> pa.RecordBatch:  # noqa: ANN401 - a user's result
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
    """Return a type without the parts that Spark ignores: time zones and nullability."""
    return re.sub(r", tz=[^\]]*| not null", "", str(kind))
