"""Stages that keep shed records: each task writes one Parquet file for each batch.

A file gets its name when it is complete. A task that runs again replaces its file by an equal one.
The decisions of a batch are pinned, also beyond a restart of the driver.
"""

from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.policies.kernels import Float64, Int64
from penstock.spark.destinations import SHED
from penstock.spark.executor.columns import DESTINATION
from penstock.spark.executor.part_file import PartFile
from penstock.spark.executor.records import Batches, partition_of, records_of_batch
from penstock.spark.executor.router import control_of
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import task_id
from penstock.spark.spill import ADDED, Spill


def executing_or_spilling(
    spec: OperatorSpec, spill: Spill, execute: Callable[[Batches], Batches]
) -> Callable[[Batches], Batches]:
    """Return a stage whose instances execute records, and whose spill tasks keep them."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, batches = partition_of(batches)
        if partition is None:
            return
        if spec.destinations.executes(partition):
            yield from execute(batches)
        else:
            _spill_all(spec, spill, partition, batches=batches)

    return run


def passing_or_spilling(spec: OperatorSpec, spill: Spill) -> Callable[[Batches], Batches]:
    """Return a stage that keeps shed records, and passes the others on."""
    width = len(spill.given.names)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, batches = partition_of(batches)
        if partition is None:
            return
        with _SpillFile(spec, spill, partition) as file:
            for batch in batches:
                rows = batch.select(range(width)).rename_columns(spill.given.names)
                is_shed = pc.equal(batch.column(DESTINATION), SHED)
                file.add(rows.filter(is_shed), None)
                yield rows.filter(pc.invert(is_shed))

    return run


def _spill_all(spec: OperatorSpec, spill: Spill, partition: int, *, batches: Batches) -> None:
    """Write the records of one spill task to its file."""
    with _SpillFile(spec, spill, partition) as file:
        for batch in batches:
            records = records_of_batch(spill.given, batch)
            file.add(records.given, records.keys, records.sizes)


class _SpillFile:
    """Writes one file, and names it when it is complete; an older file of that name goes.

    Args:
        spec: spec of the operator.
        spill: folder of the operator.
        partition: number of the task's partition in the plan.
    """

    def __init__(self, spec: OperatorSpec, spill: Spill, partition: int) -> None:
        control = control_of(spec, task_id(spec, partition))
        self._shedder = control.policies.shedder
        self._file = PartFile(spill, control.task)

    def __enter__(self) -> Self:
        return self

    def add(self, rows: pa.RecordBatch, keys: Int64 | None, sizes: Float64 | None = None) -> None:
        """Write some records, with the reason for shedding them and their expected cost."""
        if not rows.num_rows:
            return
        reason = str(self._shedder.target) if self._shedder and self._shedder.target else "shed"
        known = np.zeros(rows.num_rows, dtype=np.int64) if keys is None else keys
        cost_ms = self._expected_ms(known, sizes)
        more = [pa.repeat(reason, rows.num_rows), pa.array(cost_ms)]
        names = [*rows.schema.names, *ADDED]
        self._file.write(pa.RecordBatch.from_arrays([*rows.columns, *more], names=names))

    def _expected_ms(self, keys: Int64, sizes: Float64 | None) -> Float64:
        if self._shedder is None:
            return np.zeros(keys.size)
        more = {} if sizes is None or not self._shedder.sized else {"sizes": sizes}
        return self._shedder.expected_ms(keys, **more)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._file.complete()
        else:
            self._file.discard()
