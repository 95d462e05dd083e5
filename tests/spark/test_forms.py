"""The form of a function is found from its annotations, or refused before a query starts."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypedDict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import StructType
from user_functions import NUMBERED, doubled, fetched, function

import penstock
from penstock.errors import PenstockError
from penstock.spark.executor.example import try_example
from penstock.spark.executor.function import UserFunction
from penstock.spark.forms import form_of, is_async


class Event(TypedDict):
    entity: str
    n: int


def annotated(kind):
    """A function whose parameter has an annotation, as a type or as text."""

    def func(given):
        return given

    func.__annotations__ = {"given": kind, "return": "Unknown"}
    return func


@pytest.mark.parametrize(
    ("annotation", "form"),
    [
        (dict, "dict"),
        (dict[str, Any], "dict"),
        (Mapping[str, Any], "dict"),
        (Any, "dict"),
        (Event, "dict"),
        (Row, "row"),
        (pd.DataFrame, "pandas"),
        (Annotated[pd.DataFrame, "scored"], "pandas"),
        (pa.RecordBatch, "arrow"),
        (pa.Table, "table"),
        (Iterator[pd.DataFrame], "pandas_iterator"),
        (Iterable[pa.RecordBatch], "arrow_iterator"),
        (Iterator[pa.Table], "table_iterator"),
        ("dict", "dict"),
        ("dict[str, Any]", "dict"),
        ("Row", "row"),
        ("pd.DataFrame", "pandas"),
        ("pandas.DataFrame", "pandas"),
        ("pa.RecordBatch", "arrow"),
        ("Iterator[pd.DataFrame]", "pandas_iterator"),
        ("Iterator['pa.Table']", "table_iterator"),
        (Iterator["pa.RecordBatch"], "arrow_iterator"),
    ],
    ids=str,
)
def test_annotations_name_the_form(annotation, form):
    assert form_of(annotated(annotation), None) == form


def test_objects_partials_and_functions_in_c_have_forms():
    class Scorer:
        def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
            return frame

    def scaled(factor, row: Row):
        return row

    assert form_of(Scorer(), None) == "pandas"
    assert form_of(Scorer().__call__, None) == "pandas"
    assert form_of(functools.partial(scaled, 2), None) == "row"
    assert form_of(lambda *records: None, None) == "dict"
    assert form_of(annotated("Missing"), "row") == "row"


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        (int, "got int"),
        (str, "got str"),
        (pd.Series, "got pandas.*Series"),
        (np.ndarray, "got numpy.ndarray"),
        (DataFrame, "got pyspark.*DataFrame"),
        (Iterator[dict], "Iterator.dict"),
        (Iterator, "Iterator"),
        (list[Row], "list"),
        (dict | None, "None"),
        ("Unknown", "got 'Unknown'"),
        ("known_to_checkers.DataFrame", "got 'known_to_checkers.DataFrame'"),
        ("not an annotation", "got 'not an annotation'"),
    ],
    ids=str,
)
def test_other_annotations_are_refused_with_the_list(annotation, shown):
    message = f"(?s)'given' must be annotated with one of dict.*pandas.DataFrame.*{shown}.*form"
    with pytest.raises(PenstockError, match=message):
        penstock.balance(annotated(annotation), key="entity", schema="n int")


def test_functions_that_cannot_be_called_with_a_record_are_refused():
    for func in (lambda: None, lambda a, b: None):
        with pytest.raises(PenstockError, match="func must take one argument"):
            penstock.balance(func, key="entity", schema="n int")
    with pytest.raises(PenstockError, match="unknown form 'panda'; did you mean 'pandas'"):
        penstock.balance(lambda r: r, key="entity", schema="n int", form="panda")


def test_async_functions_take_single_records():
    async def fetch(record):
        return record

    async def batch(frame: pd.DataFrame):
        return frame

    async def several(record) -> AsyncIterator[dict]:
        yield record

    assert is_async(fetch)
    assert is_async(functools.partial(fetch))
    assert form_of(fetch, None) == "dict"
    with pytest.raises(PenstockError, match=r"async function must take single records.*'pandas'"):
        form_of(batch, None)
    with pytest.raises(PenstockError, match="must not be an async generator"):
        form_of(several, None)


@pytest.mark.parametrize(
    ("call", "form", "awaits"),
    [
        (lambda record: record, "dict", False),
        (lambda row: row, "row", False),
        (doubled("pandas"), "pandas", False),
        (doubled("table"), "table", False),
        (lambda batches: batches, "arrow_iterator", False),
        (lambda batches: map(doubled("pandas"), batches), "pandas_iterator", False),
        (fetched, "dict", True),
    ],
    ids=["dict", "row", "pandas", "table", "arrow_iterator", "pandas_iterator", "async"],
)
def test_examples_of_all_forms_are_tried(call, form, awaits):
    tried = function(call, form, awaits=awaits)
    try_example(tried, {"entity": "e1", "n": 1})
    unfit = UserFunction(
        "op", call, form, ("entity",), NUMBERED, StructType().add("x", "integer"), awaits=awaits
    )
    with pytest.raises(PenstockError, match="example: "):
        try_example(unfit, {"entity": "e1", "n": 1})
