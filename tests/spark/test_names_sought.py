"""Names of keys that tasks find for the driver, without a session."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.control import Snapshot
from penstock.control.reports import TaskId
from penstock.spark.channel import Answer
from penstock.spark.executor import snapshots
from penstock.spark.executor.key_names import NamesSought

KEYS = np.array([5, 7, 5, 9], dtype=np.int64)
GIVEN = pa.RecordBatch.from_pydict(
    {
        "User": ["ann", None, "ann", "<b>bob</b>"],
        "at": [{"City": "Rome", "secret": 1}] * 3 + [None],
        "n": [1, 2, 3, 4],
        "a.b": ["dot"] * 4,
    }
)


def found(wanted, *columns):
    sought = NamesSought(wanted)
    sought.look(KEYS, GIVEN, columns)
    return dict(sought.found)


def test_only_the_wanted_keys_have_names():
    assert found((), "User") == {}
    assert found((9, 5, 11), "User") == {5: "ann", 9: "<b>bob</b>"}


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (("user",), "null"),
        (("n", "USER"), "2, null"),
        (("at.city",), "Rome"),
        (("a.b",), "dot"),
        (("`a.b`",), "dot"),
    ],
)
def test_names_have_the_values_of_the_key_only(columns, name):
    assert found((7,), *columns) == {7: name}


def test_a_field_of_nothing_is_null():
    assert found((9,), "at.city") == {9: "null"}


@pytest.mark.parametrize("column", ["n + 1", "lower(User)", "at.town", "n.city", "gone"])
def test_an_expression_has_no_name(column):
    assert found((5,), column) == {}


def test_names_are_sought_until_they_are_found():
    sought = NamesSought((5, 7))
    sought.look(KEYS[:1], GIVEN.slice(0, 1), ("n",))
    sought.look(KEYS, GIVEN, ("n",))
    assert dict(sought.found) == {5: "1", 7: "2"}


def test_tasks_read_what_is_wanted_from_the_answer_of_a_router(tmp_path, monkeypatch):
    answers = snapshots.Answers(None, tmp_path)
    task = TaskId("op", "q", "3", 1)
    assert answers.wanted(task) == ()
    answer = Answer("q", "3", Snapshot(1, 0.0, b"packed"), wanted=(-5, 2**62))
    monkeypatch.setattr(snapshots, "fetch", lambda *_: answer)
    answers.get(task)
    assert answers.wanted(task) == (-5, 2**62)
    assert answers.wanted(replace(task, run="another run")) == ()
    assert Answer.of(json.loads(json.dumps(answer.header())), b"packed") == answer
