"""What was shed is kept, exactly once, and can be fed back later.

Shed records go to a few tasks of their own in the operator's stage. Each of them writes one
Parquet file a batch, under a name that depends on query, batch and task only, and gives it that
name when it is complete. A task that runs again replaces its file by an equal one: the decisions
of a batch are pinned, also beyond a restart of the driver.
"""

import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.types import StructType

from penstock.control.reports import Place
from penstock.errors import PenstockError
from penstock.policies.kernels import Int64
from penstock.policies.shedding import Shedder
from penstock.spark.execution import Batches, taken
from penstock.spark.router import control_of
from penstock.spark.tasks import OperatorSpec, place

log = logging.getLogger("penstock")

REASON, COST = "penstock_reason", "penstock_cost_ms"
ADDED = (REASON, COST)
# What the folders of batches are named by, which Spark takes for a column.
BATCH = "penstock_batch"


@dataclass(frozen=True)
class Spill:
    """Where shed records are kept.

    Attributes:
        path: folder, of any file system that Arrow knows: local, s3://, gs://, abfs://, hdfs://.
        given: schema of the records.
        operator: name of the operator, which several of a query may share the folder with.
        application: identity of the application; tells batch jobs apart.
    """

    path: str
    given: StructType
    operator: str
    application: str

    def file(self, here: Place, number: int) -> str:
        """Return the name of a task's file, below the folder."""
        batch = here.batch.replace(" ", "-")
        return f"{BATCH}={batch}/{self._prefix(here.query)}{number}.parquet"

    def _prefix(self, query: str) -> str:
        return f"{self.operator}-{query.replace('-', '')[:12] or self.application}-"

    def remove(self, query: str, batch: int) -> None:
        """Remove what a batch has spilled: it will run again."""
        files, root = file_system(self.path)
        selector = fs.FileSelector(f"{root}/{BATCH}={batch}", allow_not_found=True)
        for found in files.get_file_info(selector):
            if found.base_name.lstrip(".").startswith(self._prefix(query)):
                files.delete_file(found.path)


def absolute(path: str) -> str:
    """Return a folder as executors can find it: they have other working folders."""
    return str(Path(path).absolute()) if "://" not in path else path.rstrip("/")


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and how the folder is called there."""
    try:
        if "://" not in path:
            return fs.LocalFileSystem(), path
        files, root = fs.FileSystem.from_uri(path)
        return files, str(root).rstrip("/")
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise PenstockError(
            f"spill must be a folder of a file system that Arrow knows; got {path!r} ({error})"
        ) from None


def refuse_unwritable(path: str, *, local: bool) -> None:
    """Do what tasks will do, before anything is dropped."""
    files, root = file_system(path)
    if isinstance(files, fs.LocalFileSystem) and not local:
        log.warning("spill: %s must be a folder that all executors share", path)
    name = f"{root}/.penstock-{uuid.uuid4().hex}"
    try:
        files.create_dir(root, recursive=True)
        for part in (name, f"{name}.part"):
            with files.open_output_stream(part) as stream:
                stream.write(b"penstock")
        files.move(f"{name}.part", name)
        remove(files, name)
        remove(files, name)
    except OSError as error:
        raise PenstockError(
            f"spill must be a folder that can be written; got {path!r} ({error})"
        ) from None


def remove(files: fs.FileSystem, name: str) -> None:
    """Remove a file, if it is there."""
    if files.get_file_info(name).type != fs.FileType.NotFound:
        files.delete_file(name)


def with_spill(
    spec: OperatorSpec, spill: Spill, execute: Callable[[Batches], Batches]
) -> Callable[[Batches], Batches]:
    """Return a stage whose last tasks keep what is shed, and whose others execute."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = place(spec)
        if here.partition < spec.instances:
            yield from execute(batches)
        else:
            keep(spec, spill, here, batches)

    return run


def keep_shed(spec: OperatorSpec, spill: Spill) -> Callable[[Batches], Batches]:
    """Return a stage that keeps what is shed, and lets the rest pass.

    Its batches have the instance in their last column, which is negative for shed records.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = place(spec)
        with _Keeper(spec, spill, here, here.partition) as keeper:
            for batch in batches:
                rows = batch.select(range(batch.num_columns - 1))
                rows = rows.rename_columns(spill.given.names)
                is_shed = pc.less(batch.column(batch.num_columns - 1), 0)
                keeper.add(rows.filter(is_shed), None)
                yield rows.filter(pc.invert(is_shed))

    return run


def keep(spec: OperatorSpec, spill: Spill, here: Place, batches: Batches) -> None:
    """Write the records of one task to its file."""
    with _Keeper(spec, spill, here, here.partition - spec.instances) as keeper:
        for batch in batches:
            records = taken(spill.given, batch)
            keeper.add(records.given, records.keys)


class _Keeper:
    """Writes one file, and gives it its name when all is well; an old one of that name goes."""

    def __init__(self, spec: OperatorSpec, spill: Spill, here: Place, number: int) -> None:
        self._spec, self._here = spec, here
        self._files, root = file_system(spill.path)
        self._name = f"{root}/{spill.file(here, number)}"
        self._folder, _, last = self._name.rpartition("/")
        # Spark does not read files whose name begins with a dot.
        self._part = f"{self._folder}/.{last}.{uuid.uuid4().hex}"
        self._writer: pq.ParquetWriter | None = None
        self._shedder: Shedder | None = None

    def __enter__(self) -> Self:
        return self

    def add(self, rows: pa.RecordBatch, keys: Int64 | None) -> None:
        """Write some records, with why they were shed and what they were expected to cost."""
        if not rows.num_rows:
            return
        if self._shedder is None:
            self._shedder = control_of(self._spec, self._here).policies.shedder
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
            remove(self._files, self._part)
        elif self._writer is not None:
            self._files.move(self._part, self._name)
        else:
            remove(self._files, self._name)
