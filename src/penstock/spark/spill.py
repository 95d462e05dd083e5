"""The spill folder: shed records are kept there exactly once, and can be replayed later.

Each spill task writes one Parquet file for each batch, under a name that depends only on query,
batch and task.
"""

import logging
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.types import StructType

from penstock.control.reports import TaskId
from penstock.errors import PenstockError

log = logging.getLogger("penstock")

REASON, COST = "penstock_reason", "penstock_cost_ms"
ADDED = (REASON, COST)
# The folder of a batch is `penstock_batch=N`, which Spark reads as a column of that name.
BATCH = "penstock_batch"


@dataclass(frozen=True)
class Spill:
    """The folder in which an operator keeps shed records.

    Attributes:
        path: folder, on any file system that Arrow knows: local, s3://, gs://, abfs://, hdfs://.
        given: schema of the records.
        operator: name of the operator; several operators of a query may share the folder.
        application: identity of the application, for the file names of batch jobs.
    """

    path: str
    given: StructType
    operator: str
    application: str

    def file(self, task: TaskId, number: int) -> str:
        """Return the name of a task's file, relative to the folder."""
        batch = task.batch.replace(" ", "-")
        return f"{BATCH}={batch}/{self._prefix(task.query)}{number}.parquet"

    def _prefix(self, query: str) -> str:
        return f"{self.operator}-{query.replace('-', '')[:12] or self.application}-"

    def remove(self, query: str, batch: int) -> None:
        """Remove the files of a batch that will run again."""
        files, root = file_system(self.path)
        selector = fs.FileSelector(f"{root}/{BATCH}={batch}", allow_not_found=True)
        for found in files.get_file_info(selector):
            if found.base_name.lstrip(".").startswith(self._prefix(query)):
                files.delete_file(found.path)


def absolute(path: str) -> str:
    """Return a folder as executors can find it: they have other working folders."""
    return str(Path(path).absolute()) if "://" not in path else path.rstrip("/")


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and the folder's name on it."""
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
    """Try every file operation of spill tasks, before anything is shed."""
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
        remove_file(files, name)
        remove_file(files, name)
    except OSError as error:
        raise PenstockError(
            f"spill must be a folder that can be written; got {path!r} ({error})"
        ) from None


def remove_file(files: fs.FileSystem, name: str) -> None:
    """Remove a file, if it exists."""
    if files.get_file_info(name).type != fs.FileType.NotFound:
        files.delete_file(name)
