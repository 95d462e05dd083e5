"""Folders of kept records: shed or failed ones, exactly once, which can be replayed later.

Each task that keeps records writes one Parquet file for each batch, under a name that depends only
on query, run, batch and task. A small file for each query names its checkpoint, which shows
whether a batch is final.
"""

import hashlib
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.types import StructType

from penstock.control.reports import TaskId
from penstock.errors import PenstockError
from penstock.spark.paths import is_url

REASON, COST = "penstock_reason", "penstock_cost_ms"
ADDED = (REASON, COST)
ERROR, TRACEBACK = "penstock_error", "penstock_traceback"
OPERATOR, INSTANCE = "penstock_operator", "penstock_instance"
ERROR_ADDED = (ERROR, TRACEBACK, OPERATOR, INSTANCE)
# The folder of a batch is `penstock_batch=N`, which Spark reads as a column of that name.
BATCH = "penstock_batch"


# What follows the query in the name of a file: the mark of a run, frame and partition.
_MARK = re.compile(r"([0-9a-f]{8})-[0-9a-f]+-\d+\.")
# Spark does not read folders whose name begins with an underscore.
NOTES = "_penstock"


def short(query: str) -> str:
    """Return the part of a query's identity that names of files have."""
    return query.replace("-", "")[:12]


def _mark(run: str) -> str:
    """Return the part of names of files that tells runs apart."""
    return hashlib.sha256(run.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Spill:
    """The folder in which an operator keeps shed records, or failed ones.

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

    def file(self, task: TaskId) -> str:
        """Return the name of a task's file, relative to the folder."""
        batch = task.batch.replace(" ", "-")
        # A task of a stopped run may still end: it must not touch files of the next run.
        mark = f"{_mark(task.run)}-" if task.query and task.run else ""
        name = f"{self._prefix(task.query)}{mark}{task.use}-{task.partition}.parquet"
        return f"{BATCH}={batch}/{name}"

    def _prefix(self, query: str) -> str:
        return f"{self.operator}-{short(query) or self.application}-"

    def note_query(self, query: str, checkpoint: str) -> None:
        """Write down where the checkpoint of a query is."""
        files, root = file_system(self.path)
        files.create_dir(f"{root}/{NOTES}", recursive=True)
        with files.open_output_stream(f"{root}/{NOTES}/{short(query)}") as stream:
            stream.write(checkpoint.encode())

    def files_of_others(self, query: str, batch: str, run: str, *, unmarked: bool) -> set[str]:
        """Return paths of the files of a batch that other runs of the query wrote.

        Args:
            query: identity of the query.
            batch: number of the batch.
            run: run of the query that executes the batch.
            unmarked: whether files count as well whose tasks did not know their run.
        """
        prefix, found = self._prefix(query), set()
        for name, path in self._files_of(query, batch):
            mark = _MARK.match(name.removeprefix(prefix))
            if unmarked if mark is None else mark[1] != _mark(run):
                found.add(path)
        return found

    def files_of(self, query: str, batch: str, runs: Collection[str]) -> set[str]:
        """Return paths of the files of a batch that some runs of the query wrote."""
        prefixes = tuple(f"{self._prefix(query)}{_mark(run)}-" for run in runs)
        return {path for name, path in self._files_of(query, batch) if name.startswith(prefixes)}

    def delete(self, path: str) -> None:
        """Remove a file, if it is still there."""
        remove_file(file_system(self.path)[0], path)

    def _files_of(self, query: str, batch: str) -> list[tuple[str, str]]:
        """Return names and paths of a batch's files, also of those that are being written."""
        files, root = file_system(self.path)
        selector = fs.FileSelector(f"{root}/{BATCH}={batch}", allow_not_found=True)
        found = [(one.base_name.lstrip("."), one.path) for one in files.get_file_info(selector)]
        return [one for one in found if one[0].startswith(self._prefix(query))]


def file_system(path: str, *, argument: str = "spill") -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and the folder's name on it."""
    try:
        if not is_url(path):
            return fs.LocalFileSystem(), path
        files, root = fs.FileSystem.from_uri(path)
        return files, str(root).rstrip("/")
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise PenstockError(
            f"{argument} must be a folder of a file system that Arrow knows, such as s3://, gs://, "
            f"abfs://, hdfs:// or file:///; got {path!r} ({error})"
        ) from None


def refuse_unshared(path: str, hosts: set[str], *, argument: str = "spill") -> None:
    """Refuse a folder of one machine if executors run on several ones.

    Args:
        path: folder.
        hosts: machines of the driver and of the executors.
        argument: name of the argument that the folder is given by.
    """
    if not is_url(path) and len(hosts) > 1:
        raise PenstockError(
            f"{argument} must be a folder that all executors share; got {path!r}, a local folder, "
            f"on a cluster of {len(hosts)} machines. Give a URL such as s3://bucket/spill, or "
            f"file://{path} if all machines mount this folder"
        )


def refuse_unwritable(path: str, *, argument: str = "spill") -> None:
    """Try every file operation of tasks that keep records, before anything is kept."""
    files, root = file_system(path, argument=argument)
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
            f"{argument} must be a folder that can be written; got {path!r} ({error})"
        ) from None


def remove_file(files: fs.FileSystem, name: str) -> None:
    """Remove a file, if it exists."""
    if files.get_file_info(name).type != fs.FileType.NotFound:
        files.delete_file(name)
