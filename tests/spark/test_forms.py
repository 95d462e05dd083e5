"""The form of a function is found from its annotations, or refused before a query starts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import penstock
from penstock.errors import PenstockError
from penstock.spark.executor.arrow import arrow_schema, fitting_batches, pandas_of_arrow
from penstock.spark.executor.awaiting import Awaiting
from penstock.spark.executor.batch_forms import run_batches, run_iterator
from penstock.spark.executor.calls import one_by_one
from penstock.spark.executor.errors import OnError, TaskErrors
from penstock.spark.executor.example import try_example
from penstock.spark.executor.function import UserFunction
from penstock.spark.executor.records import Records
from penstock.spark.forms import form_of, is_async

if TYPE_CHECKING:
    pass


class Event(TypedDict):
    entity: str
    n: int


NUMBERED = StructType().add("entity", "string").add("n", "integer")


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


def function(call, form="dict", schema=NUMBERED, **more):
    return UserFunction("op", call, form, ("entity",), schema, schema, **more)


class Counts:
    """Takes the place of a task's meter: keeps what it is told."""

    def __init__(self):
        self.batches = []

    def together(self, keys, cost_ms, sizes=None, *, arrival_ms=None):
        assert (sizes, arrival_ms) == (None, None)
        self.batches.append((keys.size, cost_ms))

    def failed(self, count, samples):
        assert (count, samples) == (0, ())

    def waited_since(self, arrival_ms):
        pass


def strict(call):
    return TaskErrors(None, function(call), OnError(), instance=0)


def records(*sizes):
    start = 0
    for size in sizes:
        numbers = pa.array(range(start, start + size), pa.int32())
        entities = pa.array([f"e{n % 3}" for n in range(start, start + size)])
        batch = pa.RecordBatch.from_arrays([entities, numbers], names=["entity", "n"])
        yield Records(np.arange(size), None, batch)
        start += size


def numbers(batches):
    return [n for batch in batches for n in batch.column("n").to_pylist()]


def doubled(kind):
    """Functions that double numbers, for each kind of batch."""
    return {
        "pandas": lambda frame: frame.assign(n=2 * frame["n"])[["n", "entity"]],
        "arrow": lambda batch: batch.set_column(
            1, "n", pa.array([2 * n for n in batch.column("n").to_pylist()])
        ),
        "table": lambda table: table.set_column(
            1, "n", pa.array([2 * n for n in table.column("n").to_pylist()])
        ),
    }[kind]


@pytest.mark.parametrize("kind", ["pandas", "arrow", "table"])
def test_batch_functions_take_batches_of_their_kind(kind):
    meter, double = Counts(), doubled(kind)
    for call in (double, lambda batch: [double(batch)], lambda batch: iter([double(batch)])):
        found = run_batches(function(call, kind), meter, strict(call), taken=records(3, 2))
        assert numbers(found) == [0, 2, 4, 6, 8]
    assert [size for size, _ in meter.batches] == [3, 2] * 3


@pytest.mark.parametrize("kind", ["pandas", "arrow", "table"])
def test_iterator_functions_load_once_and_see_all_batches(kind):
    loaded = []

    def score(batches):
        loaded.append("model")
        for batch in batches:
            yield doubled(kind)(batch)

    meter = Counts()
    found = run_iterator(function(score, f"{kind}_iterator"), meter, records(3, 2, 4))
    assert numbers(found) == [2 * n for n in range(9)]
    assert loaded == ["model"]
    assert [size for size, _ in meter.batches] == [3, 2, 4]
    assert all(cost_ms >= 0 for _, cost_ms in meter.batches)


def test_an_iterator_function_may_collect_batches_first():
    def at_once(batches):
        return [pa.Table.from_batches(list(batches))]

    meter = Counts()
    found = run_iterator(function(at_once, "arrow_iterator"), meter, records(3, 2))
    assert numbers(found) == [0, 1, 2, 3, 4]
    assert [size for size, _ in meter.batches] == [3, 2]


def half_way(batches):
    yield next(batches)
    next(batches)
    raise ValueError("lost the model")


def at_the_end(batches):
    yield from batches
    raise ValueError("lost the model")


def at_once(batches):
    raise ValueError("no model")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (half_way, "'op' failed on batch 2 of its task, of 2 records: ValueError: lost the model"),
        (at_the_end, "'op' failed after its last batch: ValueError: lost the model"),
        (at_once, "'op' failed before its first batch: ValueError: no model"),
        (next, "iterator function must yield batches; it returned"),
        (lambda batches: None, "iterator function must yield batches; it returned None"),
        (lambda batches: iter([3]), "a batch function must return pandas.DataFrame.*got 3"),
        (lambda batches: iter([next(batches)]), "'op' ended after 1 batches.*left others"),
    ],
    ids=["half_way", "at_the_end", "at_once", "one_batch", "nothing", "a_number", "early"],
)
def test_a_generator_that_fails_names_the_batch(call, message):
    with pytest.raises(RuntimeError, match=f"(?s)penstock: operator .*{message}|{message}"):
        list(run_iterator(function(call, "arrow_iterator"), Counts(), records(3, 2, 1)))


def test_errors_of_spark_pass_through_a_generator():
    def broken():
        yield from records(3)
        raise OSError("the shuffle is gone")

    with pytest.raises(OSError, match=r"^the shuffle is gone$"):
        list(run_iterator(function(lambda b: b, "arrow_iterator"), Counts(), broken()))


TYPED = StructType(
    [
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("day", DateType()),
        StructField("price", DecimalType(10, 2)),
        StructField("tags", ArrayType(StringType())),
        StructField("by_name", MapType(StringType(), IntegerType())),
        StructField("pair", StructType().add("x", "integer")),
        StructField("n", IntegerType()),
        StructField("flag", BooleanType()),
    ]
)


def test_pandas_values_are_those_of_spark():
    """Timestamps have no zone: they are in that of the session, as in mapInPandas."""
    given = pa.RecordBatch.from_pylist(
        [
            {
                "at": pd.Timestamp("2024-07-01 10:00", tz="UTC"),
                "local": pd.Timestamp("2024-07-01 10:00"),
                "day": pd.Timestamp("2024-07-01").date(),
                "price": 3,
                "tags": ["a", None],
                "by_name": [("a", 1)],
                "pair": {"x": 1},
                "n": None,
                "flag": True,
            },
            dict.fromkeys(TYPED.names),
        ],
        schema=arrow_schema(TYPED),
    )
    frame = pandas_of_arrow(given, "Europe/Berlin")
    assert frame["at"][0] == pd.Timestamp("2024-07-01 12:00")
    assert frame["local"][0] == pd.Timestamp("2024-07-01 10:00")
    assert frame["by_name"][0] == {"a": 1}
    [back] = fitting_batches(frame, TYPED, "Europe/Berlin")
    assert back.equals(given)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"n": [1]}), r"must have columns \(entity: string, n: int32\); got \['n'\]"),
        (pd.DataFrame({"entity": ["a"], "n": [1], "x": [1]}), "must have columns"),
        (pd.DataFrame([["a", 1]]), "must have columns"),
        (pd.DataFrame({"entity": ["a"], "n": ["many"]}), "column 'n' does not fit int32"),
        (pd.DataFrame({"entity": ["a"], "n": [1.5]}), "column 'n' does not fit int32"),
        (None, "must return pandas.DataFrame.*got None"),
    ],
    ids=["missing", "surplus", "unnamed", "text", "fraction", "none"],
)
def test_pandas_that_does_not_fit_is_refused(frame, message):
    with pytest.raises(TypeError, match=message):
        fitting_batches(frame, NUMBERED)


def test_missing_numbers_of_pandas_are_null():
    [batch] = fitting_batches(pd.DataFrame({"n": [1.0, None], "entity": ["a", "b"]}), NUMBERED)
    assert batch.to_pylist() == [{"entity": "a", "n": 1}, {"entity": "b", "n": None}]


def rows(count):
    return [Row(entity=f"e{n}", n=n) for n in range(count)]


async def fetched(record):
    return {"entity": record["entity"], "n": 10 // record["n"]}


def awaited(call, count, goes_on=True, **more):
    awaiting = Awaiting(goes_on=goes_on)
    return list(awaiting.calls(function(call, awaits=True, **more), rows(count), range(count)))


def test_awaited_records_have_outcomes_in_their_order():
    found = awaited(fetched, 3)
    assert [number for number, _ in found] == [0, 1, 2]
    assert isinstance(found[0][1].error, ZeroDivisionError)
    assert [one.returned for _, one in found[1:]] == [
        [{"entity": "e1", "n": 10}],
        [{"entity": "e2", "n": 5}],
    ]
    [(number, failed)] = awaited(fetched, 3, goes_on=False)
    assert (number, type(failed.error)) == (0, ZeroDivisionError)


async def hanging(record):
    await asyncio.sleep(3600)


async def impatient(record):
    raise TimeoutError("of the service")


async def cancelled(record):
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (hanging, "no result within 0.01 s"),
        (impatient, "of the service"),
        (cancelled, "the call was cancelled"),
    ],
    ids=["hanging", "impatient", "cancelled"],
)
def test_a_call_that_does_not_end_is_an_error_of_its_record(call, message):
    found = awaited(call, 2, timeout_s=0.01)
    assert [str(one.error) for _, one in found] == [message] * 2


def test_called_records_have_outcomes_in_their_order():
    found = list(one_by_one(function(lambda row: [row, row], "row"), rows(2), range(2)))
    assert [one.returned for _, one in found] == [[row.asDict()] * 2 for row in rows(2)]
    [(_, failed)] = one_by_one(function(lambda record: 3), rows(1), range(1))
    assert isinstance(failed.error, TypeError)


def test_a_blocking_call_is_noticed():
    import time

    async def blocking(record):
        time.sleep(0.3)
        return record

    awaiting = Awaiting(goes_on=True)
    list(awaiting.calls(function(blocking, awaits=True), rows(1), range(1)))
    assert awaiting.stalled_s > 0.15


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
