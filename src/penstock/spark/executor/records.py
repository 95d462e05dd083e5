"""The records of a task, as they come out of the shuffle."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.policies.kernels import Float64, Int64
from penstock.spark.executor.columns import ARRIVAL, KEY, PARTITION, SIZE

Batches = Iterator[pa.RecordBatch]

# Joined Arrow batches have at least so many records or bytes: what Spark's own ones have at most.
_RECORDS, _BYTES = 10_000, 16 << 20


class Records(NamedTuple):
    """The records of one Arrow batch.

    Attributes:
        keys: hashes of their keys.
        arrival_ms: times of arrival, in milliseconds since 1970; None if the operator does not
            shed.
        given: the user's columns.
        sizes: sizes of the records; None if costs do not follow sizes.
    """

    keys: Int64
    arrival_ms: Float64 | None
    given: pa.RecordBatch
    sizes: Float64 | None = None


def partition_of(batches: Batches) -> tuple[int | None, Batches]:
    """Return the number of a task's partition in the plan, and its batches with the first one.

    The number is None if the partition is empty: such a task has nothing to do or to report.
    """
    first = next(batches, None)
    if first is None:
        return None, batches
    return int(first.column(PARTITION)[0].as_py()), itertools.chain([first], batches)


def joined(batches: Batches) -> Batches:
    """Join small Arrow batches, so that several calls at a time seldom wait for the last ones."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _RECORDS or sum(one.nbytes for one in held) >= _BYTES:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def records_of_batch(schema: StructType, batch: pa.RecordBatch) -> Records:
    """Take an Arrow batch apart: the user's columns come first, named by their numbers."""
    arrival_ms = None
    if ARRIVAL in batch.schema.names:
        arrival_ms = batch.column(ARRIVAL).to_numpy(zero_copy_only=False)
    given = batch.select(range(len(schema.names))).rename_columns(schema.names)
    keys = batch.column(KEY).to_numpy(zero_copy_only=False)
    return Records(keys, arrival_ms, given, sizes_of_batch(batch))


def sizes_of_batch(batch: pa.RecordBatch) -> Float64 | None:
    """Return the sizes of the records of an Arrow batch, NaN for null; None without sizes."""
    if SIZE not in batch.schema.names:
        return None
    sizes: Float64 = batch.column(SIZE).to_numpy(zero_copy_only=False)
    return sizes
