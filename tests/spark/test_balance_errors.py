"""Mistakes are refused before a job starts, and failures name place and reason."""

import threading

import pyarrow as pa
import pytest
from flows import NUMBERED, bag, drop, numbered, run, some_files, source, sunk
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import Row

import penstock
from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin

pytestmark = pytest.mark.spark


def same():
    def same(record):
        return record

    return same


def holding_a_lock():
    lock = threading.Lock()

    def guarded(record):
        with lock:
            return record

    return guarded


def unfit():
    def unfit(record):
        return {"entity": record["entity"], "n": "many"}

    return unfit


def surplus():
    def surplus(record):
        return {**record, "colour": "red"}

    return surplus


def broken():
    def broken(record):
        return 1 // record["n"]

    return broken


def renamed():
    def renamed(batch):
        return batch.rename_columns(["name", "number"])

    return renamed


EXAMPLE = {"entity": "e1", "n": 0}


@pytest.mark.parametrize(
    ("func", "wrong", "message"),
    [
        (same(), {"key": "entitty"}, "key must name columns.*entitty.*It has entity, n"),
        (same(), {"key": ["entity", "missing"]}, "key must name columns.*missing"),
        (same(), {"key": "n.inner"}, "key must name columns.*n.inner"),
        (same(), {"key": []}, "key must be a column or a list of columns"),
        (same(), {"key": 3}, "key must be a column or a list of columns"),
        (same(), {"instances": 0}, "instances must be >= 1; got 0"),
        (same(), {"instances": 2.5}, "instances must be a whole number; got 2.5"),
        (same(), {"instances": 3, "grouping": RoundRobin(2)}, r"that of the grouping \(2\).*got 3"),
        (same(), {"grouping": "round_robbin"}, "unknown grouping.*did you mean 'round_robin'"),
        (same(), {"grouping": 5}, "grouping"),
        (same(), {"schema": "entity strng, n int"}, "schema cannot be read; got 'entity strng"),
        (same(), {"schema": "int"}, "schema"),
        (same(), {"schema": None}, "schema"),
        (same(), {"form": "rows"}, "unknown form 'rows'; did you mean 'row'"),
        (same(), {"name": "my operator/1"}, "name must have letters.*my operator/1"),
        (
            renamed(),
            {"form": "arrow", "example": EXAMPLE},
            "example: the batch must have the schema",
        ),
        (holding_a_lock(), {}, "'guarded' cannot be sent to executors.*lock.*inside the function"),
        (unfit(), {"example": EXAMPLE}, "example: .*'unfit'.*do not fit its schema"),
        (surplus(), {"example": EXAMPLE}, "example: .*'surplus'.*colour.*not in its schema"),
        (broken(), {"example": EXAMPLE}, "example: .*by zero"),
        ("not a function", {}, "func must be a function; got 'not a function'"),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_mistakes_are_refused_before_a_job_starts(spark, func, wrong, message):
    arguments = {"key": "entity", "schema": NUMBERED, "instances": 2}
    if isinstance(wrong.get("grouping"), RoundRobin):
        arguments.pop("instances")
    frame = numbered(spark, 10)
    with pytest.raises(PenstockError, match=f"(?s){message}"):
        frame.transform(penstock.balance(func, **{**arguments, **wrong}))


def test_a_frame_is_needed(spark):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2)
    with pytest.raises(PenstockError, match="a DataFrame is needed; got list"):
        op([{"entity": "e1", "n": 1}])


@pytest.mark.parametrize("taken", ["_penstock_key", "_penstock_destination"])
def test_names_that_are_needed_inside_are_refused(spark, taken):
    op = penstock.balance(same(), key="entity", schema=f"entity string, {taken} int", instances=2)
    with pytest.raises(PenstockError, match=taken):
        numbered(spark, 10).withColumnRenamed("n", taken).transform(op)


def test_stats_need_a_run(spark):
    op = penstock.balance(same(), key="entity", schema=NUMBERED, instances=2)
    for _ in range(2):
        assert op.all_stats() == []
        with pytest.raises(PenstockError, match="'same' has not run yet; start its query first"):
            op.stats()
        numbered(spark, 10).transform(op)  # planned, not run


def run_time_errors():
    def by_row(row: Row):
        return Row(entity=row.entity, n=1 // (row.n - 7))

    def lazily(record):
        yield {**record, "n": 1 // (record["n"] - 7)}

    def batches(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("by zero")

    where = r"failed on the record with key \{'entity': 'e0'\}: ZeroDivisionError: .*by zero"
    yield by_row, f"'by_row' {where}"
    yield lazily, f"'lazily' {where}"
    yield batches, r"'batches' failed on a batch of \d+ records: ValueError: by zero"
    yield surplus(), "'surplus' returned a record with colour, which is not in its schema.*entity"
    yield unfit(), "'unfit' returned records that do not fit its schema.*entity:string,n:int"
    yield (lambda record: record["n"]), "'_lambda_'.*'int' object is not iterable"
    yield (lambda record: [3]), "'_lambda_' failed.*a record must be a dict or a Row.*got 3"
    yield (lambda record: "text"), "'_lambda_' failed.*a record must be a dict.*got 'text'"


@pytest.mark.parametrize(("func", "message"), list(run_time_errors()))
def test_failures_say_where_and_why(spark, func, message):
    op = penstock.balance(func, key="entity", schema=NUMBERED, instances=2)
    with pytest.raises(PythonException, match=f"(?s)penstock: operator {message}"):
        numbered(spark, 20).transform(op).collect()


@pytest.mark.parametrize(
    ("key", "value"), [("pair.inner", "x"), ("dotted.name", "y"), (["n", "pair.inner"], 3)]
)
def test_failures_name_keys_of_all_kinds(spark, key, value):
    def fail(record):
        raise KeyError("gone")

    frame = spark.createDataFrame(
        [(("x",), "y", 3)], "pair struct<inner: string>, `dotted.name` string, n int"
    )
    op = penstock.balance(fail, key=key, schema="n int", instances=2)
    with pytest.raises(PythonException) as caught:
        frame.transform(op).collect()
    [line] = [one for one in str(caught.value).splitlines() if "RuntimeError: penstock" in one]
    assert repr(value) in line
    assert "'gone'" in line


def test_a_batch_function_that_does_not_keep_its_schema_is_told(spark):
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns(["entity", "colour"])

    def retyped(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(1, "n", pa.array(["x"] * batch.num_rows))

    for func in (renamed, retyped):
        op = penstock.balance(func, key="entity", schema=NUMBERED, instances=2)
        with pytest.raises(PythonException, match=f"(?s)penstock: operator '{func.__name__}'"):
            numbered(spark, 20).transform(op).collect()


def test_after_a_failure_and_a_fix_nothing_is_lost_and_nothing_doubled(spark, tmp_path):
    files = some_files(4)
    drop(tmp_path / "in", *files)

    def reciprocal(record):
        if record["n"] == 33:
            raise ValueError("cannot do 33")
        return record

    def attempt(func):
        op = penstock.balance(func, key="entity", schema=NUMBERED, instances=2, name="careful")
        run(source(spark, tmp_path / "in").transform(op), tmp_path)
        return op

    message = r"operator 'careful' failed on the record with key \{'entity': 'e1'\}.*cannot do 33"
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=f"(?s){message}"):
            attempt(reciprocal)
    assert bag(sunk(spark, tmp_path)) == bag(Row(**record) for record in files[0])
    fixed = attempt(same())
    assert bag(sunk(spark, tmp_path)) == bag(Row(**one) for records in files for one in records)
    assert (fixed.stats().batches, fixed.stats().processed) == (3, 60)
