"""Stages that keep shed records: each task writes one Parquet file for each batch.

A file gets its name when it is complete. A task that runs again replaces its file by an equal one,
because the decisions of a batch are pinned, also beyond a restart of the driver.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.control.reports import TaskId
from penstock.policies.kernels import Int64
from penstock.policies.shedding import Shedder
from penstock.spark.destinations import SHED
from penstock.spark.executor.router import control_of
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import task_id
from penstock.spark.executor.work import Batches, records_of_batch
from penstock.spark.spill import ADDED, Spill, file_system, remove_file


def executing_or_spilling(
    spec: OperatorSpec, spill: Spill, execute: Callable[[Batches], Batches]
) -> Callable[[Batches], Batches]:
    """Return a stage whose instances execute records, and whose spill tasks keep them."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = task_id(spec)
        if spec.destinations.executes(task.partition):
            yield from execute(batches)
        else:
            _spill_all(spec, spill, task, batches=batches)

    return run


def passing_or_spilling(spec: OperatorSpec, spill: Spill) -> Callable[[Batches], Batches]:
    """Return a stage that keeps shed records, and passes the others on.

    The last column of its batches is the record's destination.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = task_id(spec)
        with _SpillFile(spec, spill, task, number=task.partition) as file:
            for batch in batches:
                rows = batch.select(range(batch.num_columns - 1))
                rows = rows.rename_columns(spill.given.names)
                is_shed = pc.equal(batch.column(batch.num_columns - 1), SHED)
                file.add(rows.filter(is_shed), None)
                yield rows.filter(pc.invert(is_shed))

    return run


def _spill_all(spec: OperatorSpec, spill: Spill, task: TaskId, *, batches: Batches) -> None:
    """Write the records of one spill task to its file."""
    number = spec.destinations.spill_task(task.partition)
    with _SpillFile(spec, spill, task, number=number) as file:
        for batch in batches:
            records = records_of_batch(spill.given, batch)
            file.add(records.given, records.keys)


class _SpillFile:
    """Writes one file, and names it when it is complete; an older file of that name goes."""

    def __init__(self, spec: OperatorSpec, spill: Spill, task: TaskId, *, number: int) -> None:
        self._spec, self._task = spec, task
        self._files, root = file_system(spill.path)
        self._name = f"{root}/{spill.file(task, number)}"
        self._folder, _, last = self._name.rpartition("/")
        # Spark does not read files whose name begins with a dot.
        self._part = f"{self._folder}/.{last}.{uuid.uuid4().hex}"
        self._writer: pq.ParquetWriter | None = None
        self._shedder: Shedder | None = None

    def __enter__(self) -> Self:
        return self

    def add(self, rows: pa.RecordBatch, keys: Int64 | None) -> None:
        """Write some records, with the reason for shedding them and their expected cost."""
        if not rows.num_rows:
            return
        if self._shedder is None:
            self._shedder = control_of(self._spec, self._task).policies.shedder
        reason = str(self._shedder.target) if self._shedder and self._shedder.target else "shed"
        known = np.zeros(rows.num_rows, dtype=np.int64) if keys is None else keys
        cost_ms = self._shedder.expected_ms(known) if self._shedder else np.zeros(known.size)
        more = [pa.repeat(reason, rows.num_rows), pa.array(cost_ms)]
        names = [*rows.schema.names, *ADDED]
        described = pa.RecordBatch.from_arrays([*rows.columns, *more], names=names)
        if self._writer is None:
            self._files.create_dir(self._folder, recursive=True)
            schema = described.schema
            self._writer = pq.ParquetWriter(self._part, schema, filesystem=self._files)
        self._writer.write_batch(described)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if kind is not None:
            remove_file(self._files, self._part)
        elif self._writer is not None:
            self._files.move(self._part, self._name)
        else:
            remove_file(self._files, self._name)
