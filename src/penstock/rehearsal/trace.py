"""Traces that operators have recorded, read from their Parquet files."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.control.trace import METADATA, SCHEMA, VERSION, BatchNumbers
from penstock.errors import PenstockError, first_line
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.rehearsal.intact import columns_of, numbers_from_json


@dataclass(frozen=True, eq=False)
class RecordedBatch:
    """The sampled records of one batch; one entry of each array for each.

    Attributes:
        numbers: numbers of the batch.
        keys: hash of the key.
        sizes: size; NaN if unknown.
        costs_ms: measured cost; NaN if the record was not executed.
        arrival_ms: time of arrival in milliseconds since 1970; NaN if unknown.
        shed: whether the record was shed.
        weight: number of records that it stands for.
        executors: name of the executor; empty if it was not executed.
    """

    numbers: BatchNumbers
    keys: Int64
    sizes: Float64
    costs_ms: Float64
    arrival_ms: Float64
    shed: Bool
    weight: Float64
    executors: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Trace:
    """The batches of one operator in one query, in their order.

    Attributes:
        operator: name of the operator.
        query: name of the query.
        batches: its batches.
        notes: sentences about data that is missing.
    """

    operator: str
    query: str
    batches: list[RecordedBatch]
    notes: list[str] = field(default_factory=list)


def read_trace(path: str | Path, operator: str | None = None) -> Trace:
    """Read the trace of an operator: that of its newest query.

    Args:
        path: folder that an operator has recorded to, or a URL that Arrow knows.
        operator: name of the operator, if the folder has several.

    Raises:
        PenstockError: if there is no trace, or one of another version.
    """
    files, names = _files(str(path))
    found: list[RecordedBatch] = []
    bad: list[str] = []
    for name in names:
        try:
            found.append(_read(files, name))
        except (OSError, pa.ArrowException) as error:
            bad.append(f"{Path(name).name} ({first_line(error)})")
    if not found:
        reason = f"; {bad[0]} cannot be read" if bad else ""
        raise PenstockError(
            f"TRACE must be a folder with a trace; {str(path)!r} has none{reason}. Record one with "
            "penstock.balance(..., record='path')"
        )
    operators = sorted({one.numbers.operator for one in found})
    if operator is None and len(operators) > 1:
        raise PenstockError(
            f"TRACE has several operators; give --operator with one of {', '.join(operators)}"
        )
    chosen = operator or operators[0]
    own = sorted(
        (one for one in found if one.numbers.operator == chosen),
        key=lambda one: (one.numbers.began_ms, one.numbers.number),
    )
    if not own:
        raise PenstockError(f"TRACE has no operator {chosen!r}; it has {', '.join(operators)}")
    query = own[-1].numbers.query
    newest = [one for one in own if one.numbers.query == query]
    notes = [f"Files that cannot be read were skipped: {', '.join(bad)}."] if bad else []
    if len(newest) < len(own):
        notes.append(f"Batches of older queries were skipped: {len(own) - len(newest)}.")
    return Trace(chosen, query, newest, notes)


def is_trace(path: str | Path) -> bool:
    """Whether a path is a folder with Parquet files, or one of them.

    Args:
        path: local path, or a URL; one that Arrow cannot read is none.
    """
    if "://" not in str(path):
        place = Path(path)
        return place.suffix == ".parquet" or (place.is_dir() and any(place.glob("*.parquet")))
    try:
        return bool(_files(str(path))[1])
    except PenstockError:
        return False


def _files(path: str) -> tuple[fs.FileSystem, list[str]]:
    """Return the file system of a trace, and the names of its files."""
    try:
        if "://" in path:
            files, root = fs.FileSystem.from_uri(path)
        else:
            files, root = fs.LocalFileSystem(), path
        info = files.get_file_info(root)
        if info.type == fs.FileType.File:
            return files, [root]
        if info.type == fs.FileType.NotFound:
            raise PenstockError(f"TRACE must be a folder with a trace; {path!r} does not exist")
        found = files.get_file_info(fs.FileSelector(root))
    except (OSError, pa.ArrowInvalid) as error:
        raise PenstockError(f"TRACE {path!r} cannot be read ({first_line(error)})") from None
    names = [one.path for one in found if one.base_name.endswith(".parquet")]
    return files, sorted(name for name in names if not Path(name).name.startswith("."))


def _read(files: fs.FileSystem, name: str) -> RecordedBatch:
    table = pq.read_table(name, filesystem=files)
    metadata = (table.schema.metadata or {}).get(METADATA)
    if metadata is None:
        raise pa.ArrowInvalid("it is not of a trace")
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise pa.ArrowInvalid("its numbers are no JSON object")
    if fields.get("version") != VERSION or not set(SCHEMA.names) <= set(table.schema.names):
        raise PenstockError(
            f"TRACE has form {fields.get('version')!r}, this version of Penstock reads {VERSION}; "
            "record again, or use the version that wrote it"
        )
    columns, numbers = columns_of(table), numbers_from_json(fields)
    return RecordedBatch(
        numbers=numbers,
        keys=columns["key"],
        sizes=columns["size"],
        costs_ms=columns["cost_ms"],
        arrival_ms=columns["arrival_ms"],
        shed=columns["shed"],
        weight=columns["weight"],
        executors=columns["executor"],
    )
