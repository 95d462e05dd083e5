"""Conversions between Arrow and the Python values that Spark's own functions get."""

import contextlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

# Spark 4.1 uses UTC unless it is told otherwise; from 4.2 on a time zone must be given.
_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a schema; the time zone does not matter."""
    return to_arrow_schema(schema, **_UTC)


def rows_of_arrow(batch: pa.RecordBatch, schema: StructType) -> list[Row]:
    """Return rows with the Python values that Spark's own UDFs get; binary values are bytes."""
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


def pandas_of_arrow(batch: pa.RecordBatch, zone: str) -> pd.DataFrame:
    """Return a batch as pandas, with timestamps as Spark's own pandas functions get them.

    Timestamps have no time zone: they are in the zone of the session.
    """
    frame = batch.to_pandas(maps_as_pydicts="strict")
    for number, kind in enumerate(batch.schema.types):
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            local = frame.iloc[:, number].dt.tz_convert(zone).dt.tz_localize(None)
            frame.isetitem(number, local)
    return frame


def fitting_batches(
    result: Any,  # noqa: ANN401 - a user's result
    schema: StructType,
    zone: str = "UTC",
) -> list[pa.RecordBatch]:
    """Return the batches of a batch function's result, or fail if they do not fit the schema.

    Args:
        result: a batch of any kind, or an iterable of them.
        schema: schema of the operator's result.
        zone: time zone of timestamps without one in pandas.
    """
    batch = isinstance(result, pa.RecordBatch | pa.Table | pd.DataFrame)
    whole = batch or isinstance(result, str) or not isinstance(result, Iterable)
    wanted = arrow_schema(schema)
    found: list[pa.RecordBatch] = []
    for one in (result,) if whole else result:
        if isinstance(one, pd.DataFrame):
            found.append(_of_pandas(one, wanted, zone))
        elif isinstance(one, pa.Table):
            found += _fitting(one, wanted).combine_chunks().to_batches()
        elif isinstance(one, pa.RecordBatch):
            found.append(_fitting(one, wanted))
        else:
            raise TypeError(
                "a batch function must return pandas.DataFrame, pyarrow.RecordBatch or "
                f"pyarrow.Table; got {one!r:.80}"
            )
    return found


def _fitting(one: Any, wanted: pa.Schema) -> Any:  # noqa: ANN401 - a batch or a table
    """Return a batch or table with the types that Spark expects."""
    if one.schema.names == wanted.names:
        fits = [*map(_kind, one.schema.types)] == [*map(_kind, wanted.types)]
        if fits and all(field.nullable for field in wanted):
            return one
        # A session may let Spark check which fields cannot be null.
        with contextlib.suppress(ValueError, pa.ArrowNotImplementedError):
            return one.cast(wanted)
        if fits:
            return one
    got = ", ".join(f"{field.name}: {field.type}" for field in one.schema)
    raise TypeError(f"the batch must have the schema ({_names(wanted)}); got ({got})")


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _of_pandas(frame: pd.DataFrame, wanted: pa.Schema, zone: str) -> pa.RecordBatch:
    """Return pandas as an Arrow batch; columns are found by name, in any order."""
    got = [str(name) for name in frame.columns]
    if sorted(got) != sorted(wanted.names):
        raise TypeError(f"the DataFrame must have columns ({_names(wanted)}); got {got}")
    columns = [_of_series(frame[field.name], field, zone) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _of_series(series: "pd.Series[Any]", field: pa.Field, zone: str) -> pa.Array:
    if pa.types.is_timestamp(field.type) and series.dtype.kind == "M":
        aware = getattr(series.dt, "tz", None) is not None
        if field.type.tz is not None and not aware:
            # Like Spark: an hour that the clock shows twice is the second one, and an hour that
            # it skips moves forward.
            series = series.dt.tz_localize(zone, ambiguous=False, nonexistent="shift_forward")
        elif field.type.tz is None and aware:
            series = series.dt.tz_convert(zone).dt.tz_localize(None)
    if pa.types.is_map(field.type):
        series = series.map(lambda one: [*one.items()] if isinstance(one, dict) else one)
    try:
        return pa.Array.from_pandas(series, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"column {field.name!r} does not fit {field.type}: {error}") from error


def _kind(kind: pa.DataType) -> str:
    """Return a type without the parts that Spark ignores: time zones and nullability."""
    return re.sub(r", tz=[^\]]*| not null", "", str(kind))
