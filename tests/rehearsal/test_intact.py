"""Damaged files: each damage is skipped or refused with one line."""

import json
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made import NUMBERS, write_trace

from penstock.control.trace import METADATA
from penstock.errors import PenstockError
from penstock.rehearsal.compare_journals import read_journal
from penstock.rehearsal.intact import numbers_from_json
from penstock.rehearsal.recorded import recorded
from penstock.rehearsal.trace import read_trace


def fields(**more):
    return {**json.loads(json.dumps(asdict(NUMBERS))), **more}


@pytest.mark.parametrize(
    "damage",
    [
        {"duration_ms": 10**400},
        {"before": ["0", 10**400]},
        {"began_ms": float("nan")},
        {"batch": "9" * 5_000},
        {"instances": True},
        {"instances": -1},
        {"servers": 0},
        {"executors": {"a": "two"}},
        {"executors": ["a"]},
        {"trigger_ms": "10 s"},
        {"operator": None},
    ],
)
def test_impossible_numbers_of_a_batch_are_refused(damage):
    numbers_from_json(fields())
    with pytest.raises(pa.ArrowInvalid, match=f"its {next(iter(damage))} cannot be"):
        numbers_from_json(fields(**damage))


def changed(folder, column, value):
    """Replace a column in the first file of a trace."""
    file = min(folder.glob("*.parquet"))
    table = pq.read_table(file)
    at = table.schema.get_field_index(column)
    values = pa.array([value] * table.num_rows).cast(table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), values), file)


@pytest.mark.parametrize(
    ("column", "value"), [("weight", -1.0), ("cost_ms", np.inf), ("key", None), ("size", -2.0)]
)
def test_a_file_with_impossible_records_is_skipped_and_named(column, value, tmp_path):
    write_trace(tmp_path / "trace", batches=3)
    changed(tmp_path / "trace", column, value)
    trace = read_trace(tmp_path / "trace")
    assert len(trace.batches) == 2
    assert "cannot be read were skipped" in trace.notes[0]


@pytest.mark.parametrize("name", [None, "stranger"])
def test_records_of_an_unknown_executor_tell_nothing_of_its_speed(name, tmp_path):
    write_trace(tmp_path / "trace", batches=2)
    changed(tmp_path / "trace", "executor", name)
    assert len(recorded(read_trace(tmp_path / "trace")).workers) == 2


@pytest.mark.parametrize("weight", [0.0, 1e9])
def test_traces_without_records_and_with_huge_batches_are_refused(weight, tmp_path):
    write_trace(tmp_path / "trace", batches=1)
    changed(tmp_path / "trace", "weight", weight)
    with pytest.raises(PenstockError, match=r"must have records|can be rehearsed"):
        recorded(read_trace(tmp_path / "trace"))


def test_other_metadata_than_an_object_is_skipped(tmp_path):
    write_trace(tmp_path / "trace", batches=2)
    file = min((tmp_path / "trace").glob("*.parquet"))
    table = pq.read_table(file)
    pq.write_table(table.replace_schema_metadata({METADATA: b"[" * 100_000}), file)
    assert len(read_trace(tmp_path / "trace").batches) == 1


def test_lines_of_a_journal_that_are_nested_deeply_are_skipped(tmp_path):
    entry = {"time": 1, "kind": "observation", "operator": "o", "batch": "1"}
    good = json.dumps({**entry, "instance": 0, "busy_ms": 5, "records": 3})
    (tmp_path / "journal").write_text("\n".join(["[" * 100_000, good]))
    assert read_journal(tmp_path / "journal").busiest_s.tolist() == [0.005]
