"""The tasks of a keyed aggregation: make partial states, merge them, return their results.

Partial states travel as bytes, and so does the key of the result, in Arrow's format: Spark's
stateful operator passes both through pandas, which would change their types. The key's own
columns exist only for Spark to group by.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import (
    DataType,
    LongType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.aggregators import Aggregator, dumps, loads
from penstock.spark.executor.arrow import arrow_schema, batches_of_records, rows_of_arrow
from penstock.spark.executor.columns import KEY, RECORD
from penstock.spark.executor.function import failure
from penstock.spark.executor.meter import Meter
from penstock.spark.executor.records import Batches, partition_of, sizes_of_batch
from penstock.spark.executor.reporting import Reports, settle
from penstock.spark.executor.spec import OperatorSpec

if TYPE_CHECKING:
    from pyspark import Accumulator

WHO, STATE = "_penstock_who", "_penstock_state"
PAYLOAD = f"{WHO} binary, {STATE} binary"

# Rows of one Arrow batch of partial states, and keys that a task holds before it sends them on.
_ROWS = 10_000
_KEYS = 100_000
# Bytes of records that a task sorts at once.
_SORTED_BYTES = 256 * 1024 * 1024
_NAN = "NaN"


@dataclass(frozen=True)
class Keyed:
    """The user's part of an aggregation.

    Attributes:
        name: name of the operator.
        aggregator: functions that keep the state of a key.
        given: schema of the records.
        key: schema of the key's columns, which follow those of the record.
        returned: schema of the results of `finish`.
    """

    name: str
    aggregator: Aggregator[Any]
    given: StructType
    key: StructType
    returned: StructType

    @cached_property
    def arrow_key(self) -> pa.Schema:
        """Arrow schema of the key's columns; it is needed for every key."""
        return arrow_schema(self.key)


def partial(
    spec: OperatorSpec, work: Keyed, reports: "Accumulator[Reports]"
) -> Callable[[Batches], Batches]:
    """Return the function that makes partial states of the records of one task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        instance, batches = partition_of(batches)
        if instance is None:
            return
        meter = Meter(spec, instance, reports)
        states: dict[Hashable, Any] = {}
        keys: list[pa.RecordBatch] = []
        for batch in _in_order(batches):
            keys.append(_update(work, meter, batch, states=states))
            if len(states) >= _KEYS:
                yield from _flush(work, meter, keys, states=states)
        yield from _flush(work, meter, keys, states=states)
        meter.report()

    return run


def _in_order(batches: Batches) -> Batches:
    """Yield a task's records in an order that depends on the records only.

    A shuffle delivers records in another order each time. The state of a key may depend on it, if
    only in the last bits of a sum. A task that runs again must return the same states: Spark
    otherwise discards everything made from the first ones, and fails the job if it cannot.
    """
    parts: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        parts.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= _SORTED_BYTES:
            yield from _sorted(parts)
            parts, held_bytes = [], 0
    if parts:
        yield from _sorted(parts)


def _sorted(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(parts)
    order = np.argsort(table.column(RECORD).to_numpy(), kind="stable")
    found: list[pa.RecordBatch] = table.take(order).combine_chunks().to_batches(_ROWS)
    return found


def _update(
    work: Keyed, meter: Meter, batch: pa.RecordBatch, *, states: dict[Hashable, Any]
) -> pa.RecordBatch:
    """Update the states of a batch's keys; return the keys that had none."""
    hashed = batch.column(KEY).to_numpy(zero_copy_only=False)
    width = len(work.given)
    given = batch.select(range(width)).rename_columns(work.given.names)
    own = batch.select(range(width, width + len(work.key))).rename_columns(work.key.names)
    own = own.cast(work.arrow_key)
    meter.names.look(hashed, own, tuple(own.schema.names))
    costs_ms = np.empty(batch.num_rows)
    new: list[int] = []
    # Keys are compared as Arrow values: rows have local times, two of which may look alike.
    identities = zip(*(column.to_pylist() for column in own.columns), strict=True)
    rows = zip(rows_of_arrow(given, work.given), identities, strict=True)
    for i, (row, identity) in enumerate(rows):
        frozen = freeze(identity)
        record = row.asDict()
        start = time.perf_counter()
        try:
            if frozen not in states:
                states[frozen] = work.aggregator.zero()
                new.append(i)
            states[frozen] = work.aggregator.update(states[frozen], record)
        except Exception as error:
            key = rows_of_arrow(own.slice(i, 1), work.key)[0]
            raise RuntimeError(
                failure(work.name, tuple(work.key.names), key, error=error)
            ) from error
        costs_ms[i] = 1000 * (time.perf_counter() - start)
    meter.one_by_one(hashed, costs_ms, sizes_of_batch(batch))
    return own.take(pa.array(new, type=pa.int64()))


def _flush(
    work: Keyed, meter: Meter, keys: list[pa.RecordBatch], *, states: dict[Hashable, Any]
) -> Iterator[pa.RecordBatch]:
    """Send the partial states on, and forget them: Spark merges any number of them per key."""
    if not states:
        return
    table = pa.Table.from_batches(keys).combine_chunks()
    values = list(states.values())
    keys.clear()
    states.clear()
    for start in range(0, len(values), _ROWS):
        (part,) = table.slice(start, _ROWS).combine_chunks().to_batches()
        meter.emitted += part.num_rows
        yield _as_partials(work, part, values[start : start + _ROWS])


def freeze(value: Any) -> Hashable:  # noqa: ANN401 - of any type
    """Return a hashable value that is equal for equal keys."""
    if isinstance(value, list | tuple):
        return tuple(freeze(one) for one in value)
    if isinstance(value, dict):
        return frozenset((freeze(k), freeze(v)) for k, v in value.items())
    if isinstance(value, bytearray):
        return bytes(value)
    if value != value:  # noqa: PLR0124 - NaN is one key, as it is for Spark
        return _NAN
    return value if isinstance(value, Hashable) else repr(value)


def _as_partials(work: Keyed, keys: pa.RecordBatch, states: list[Any]) -> pa.RecordBatch:
    data = []
    for i, state in enumerate(states):
        try:
            data.append(dumps(work.aggregator, state))
        except Exception as error:
            row = rows_of_arrow(keys.slice(i, 1), work.key)[0]
            raise RuntimeError(
                failure(work.name, tuple(work.key.names), row, error=error)
            ) from error
    who = [keys.slice(i, 1).serialize().to_pybytes() for i in range(keys.num_rows)]
    numbered = [str(i) for i in range(keys.num_columns)]
    columns = [
        *map(_groupable, keys.columns),
        pa.array(who, pa.binary()),
        pa.array(data, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*numbered, WHO, STATE])


def _groupable(column: pa.Array) -> pa.Array:
    """Return a column that Spark groups by: pandas has no times before 1678 and after 2262."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def grouped_by(kind: DataType) -> DataType:
    """Return the type of the column that Spark groups by."""
    return LongType() if isinstance(kind, TimestampType | TimestampNTZType) else kind


def merged(
    work: Keyed, parts: Iterable[tuple[bytes, bytes]], before: bytes | None
) -> tuple[bytes, bytes]:
    """Merge pairs of one key and its partial states into its state; return both."""
    who, doing = b"", "load"
    try:
        whole = None if before is None else loads(work.aggregator, before)
        doing = "zero"
        whole = work.aggregator.zero() if before is None else whole
        # A shuffle delivers them in any order.
        for key, data in sorted((bytes(key), bytes(data)) for key, data in parts):
            who, doing = key, "load"
            part = loads(work.aggregator, data)
            doing = "merge"
            whole = work.aggregator.merge(whole, part)
        return who, dumps(work.aggregator, whole)
    except Exception as error:
        raise RuntimeError(_merge_failure(work, who, doing=doing, error=error)) from error


def merge_all(work: Keyed) -> Callable[[pa.Table], pa.Table]:
    """Return the function that merges the partial states of one key of a batch job."""

    def run(table: pa.Table) -> pa.Table:
        parts = zip(table[WHO].to_pylist(), table[STATE].to_pylist(), strict=True)
        who, data = merged(work, parts, None)
        # Spark checks the types, which a setting of the session makes large.
        schema = table.select([WHO, STATE]).schema
        return pa.table({WHO: [who], STATE: [data]}, schema=schema)

    return run


Merge = Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def merge_into_state(work: Keyed, ttl_ms: int | None, window: int | None) -> Merge:
    """Return the function that merges partial states of one key into what Spark keeps of it.

    Args:
        work: the aggregation.
        ttl_ms: time without a record after which a key is forgotten; None to keep it.
        window: number of the key column that is a window; the key is forgotten at its end.
    """

    def run(
        key: Any,  # noqa: ANN401 - of any type
        frames: Iterator[pd.DataFrame],
        state: GroupState,
    ) -> Iterator[pd.DataFrame]:
        settle("merge")
        if state.hasTimedOut:
            state.remove()
            return
        parts = (part for f in frames for part in zip(f[WHO], f[STATE], strict=True))
        who, data = merged(work, parts, bytes(state.get[0]) if state.exists else None)
        end_ms = None if window is None else _end_ms(work, who, window)
        if end_ms is not None and end_ms <= state.getCurrentWatermarkMs():
            # The last records of a closed window count, as they do in Spark's own windows.
            state.remove()
        else:
            state.update((data,))
            if ttl_ms is not None:
                state.setTimeoutDuration(ttl_ms)
            if end_ms is not None:
                # Spark's own windows end with the watermark; time-outs fire just after it.
                state.setTimeoutTimestamp(max(end_ms - 1, state.getCurrentWatermarkMs() + 1))
        yield pd.DataFrame({WHO: [who], STATE: [data]})

    return run


def _end_ms(work: Keyed, who: bytes, window: int) -> int:
    column = _key_of(work, who).column(window)
    return int(column.field("end").cast(pa.int64())[0].as_py()) // 1000


def _key_of(work: Keyed, who: bytes) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(who), work.arrow_key)


def finish(work: Keyed) -> Callable[[Batches], Batches]:
    """Return the function that makes records of merged states."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys: list[pa.RecordBatch] = []
            values: list[dict[str, Any]] = []
            for who, data in zip(batch.column(0), batch.column(1), strict=True):
                value = _finished(work, who.as_py(), data.as_py())
                if value is not None:
                    keys.append(_key_of(work, who.as_py()))
                    values.append(value)
            if not keys:
                continue
            key = pa.Table.from_batches(keys).combine_chunks().to_batches()[0]
            (out,) = batches_of_records(work.name, work.returned, values)
            # With the fields that cannot be null: a session may let Spark check that.
            schema = pa.schema([*key.schema, *out.schema])
            settle("finish")
            yield pa.RecordBatch.from_arrays([*key.columns, *out.columns], schema=schema)

    return run


def _finished(work: Keyed, who: bytes, data: bytes) -> dict[str, Any] | None:
    try:
        value = work.aggregator.finish(loads(work.aggregator, data))
    except Exception as error:
        raise RuntimeError(_merge_failure(work, who, doing="finish", error=error)) from error
    if value is None:
        return None
    names = work.returned.names
    fields = value.asDict() if isinstance(value, Row) and hasattr(value, "__fields__") else value
    one = len(names) == 1
    # The only column may itself hold maps or structs.
    if isinstance(fields, dict) and (not one or fields.keys() <= {*names}):
        return fields
    if one:
        return {names[0]: value}
    raise RuntimeError(
        f"penstock: finish of {work.name!r} must return a dict with {', '.join(names)}; "
        f"got {value!r:.80}"
    )


def _merge_failure(work: Keyed, who: bytes, *, doing: str, error: Exception) -> str:
    key = rows_of_arrow(_key_of(work, who), work.key)[0].asDict() if who else "(unknown)"
    cause = f"{type(error).__name__}: {error}"
    return f"penstock: {doing} of {work.name!r} failed for the key {key}: {cause}"
