"""Functions of batches: pandas, Arrow and iterators, and what they must return."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
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
from user_functions import NUMBERED, doubled, function

from penstock.spark.executor.arrow import arrow_schema, fitting_batches, pandas_of_arrow
from penstock.spark.executor.batch_forms import run_batches, run_iterator
from penstock.spark.executor.errors import OnError, TaskErrors
from penstock.spark.executor.records import Records


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
