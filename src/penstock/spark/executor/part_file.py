"""A Parquet file that gets its name when it is complete."""

import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.control.reports import TaskId
from penstock.spark.spill import Spill, file_system, remove_file


class PartFile:
    """The file of one task in a folder; a task that runs again replaces its file.

    Args:
        folder: folder of the operator.
        task: identity of the task.
    """

    def __init__(self, folder: Spill, task: TaskId) -> None:
        self._files, root = file_system(folder.path)
        self._name = f"{root}/{folder.file(task)}"
        self._folder, _, last = self._name.rpartition("/")
        # Spark does not read files whose name begins with a dot.
        self._part = f"{self._folder}/.{last}.{uuid.uuid4().hex}"
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Write some rows; the first ones create the file."""
        if self._writer is None:
            self._files.create_dir(self._folder, recursive=True)
            self._writer = pq.ParquetWriter(self._part, rows.schema, filesystem=self._files)
        self._writer.write_batch(rows)

    def complete(self) -> None:
        """Name the file, in place of an older one; without rows an older one is removed."""
        if self._writer is None:
            remove_file(self._files, self._name)
            return
        self._writer.close()
        self._files.move(self._part, self._name)

    def discard(self) -> None:
        """Remove everything that was written."""
        if self._writer is not None:
            self._writer.close()
        remove_file(self._files, self._part)
