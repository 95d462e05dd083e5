"""Mistakes in aggregations are refused before a job starts, and failures name place and reason."""

import threading

import pytest
from flows import NUMBERED, WAIT_S, drop, numbered, some_files, source
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count, Mean, TopK
from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin

pytestmark = pytest.mark.spark


def functions(**changed):
    """Functions that count, some of them changed."""
    counting = {
        "zero": lambda: 0,
        "update": lambda state, record: state + 1,
        "merge": lambda state, other: state + other,
    }
    return {**counting, **changed}


def without(method):
    """An aggregator that lacks a method."""

    class Half:
        pass

    for name in {"zero", "update", "merge", "finish"} - {method}:
        setattr(Half, name, getattr(Count(), name))
    return Half()


def guarded():
    class Guarded(Count):
        def __init__(self):
            object.__setattr__(self, "lock", threading.Lock())

    return Guarded()


def window():
    return sf.window("at", "10 minutes")


def hourly():
    return {"window": window(), "ttl": "2 hours"}


MAPPED = "map('a', n) AS named"

MISTAKES = {
    "no merge": (
        lambda: {"aggregator": without("merge")},
        "aggregator must have the methods zero, update, merge and finish; Half has no merge",
    ),
    "no finish": (lambda: {"aggregator": without("finish")}, "Half has no finish"),
    "no methods": (lambda: {"aggregator": 5}, "int has no zero, update, merge, finish"),
    "a class": (lambda: {"aggregator": Count}, r"must be an object, not a class; write Count\("),
    "nothing": (lambda: {"aggregator": None}, "zero must be a function; got None"),
    "zero": (
        lambda: {"aggregator": None, **functions(zero=0)},
        "zero must be a function; got 0",
    ),
    "merge": (
        lambda: {"aggregator": None, **functions(merge=None)},
        "merge must be a function; got None",
    ),
    "finish": (
        lambda: {"aggregator": None, **functions(finish="sum")},
        "finish must be a function; got 'sum'",
    ),
    "both": (functions, "zero must be left out if an aggregator is given"),
    "another finish": (lambda: {"finish": str}, "finish must be left out if an aggregator"),
    "lock": (
        lambda: {"aggregator": guarded()},
        "aggregator 'Guarded' cannot be sent to executors.*lock",
    ),
    "key twice": (
        lambda: {"schema": "Entity string, count long"},
        "schema must not repeat columns of the key.*got entity twice",
    ),
    "unknown key": (lambda: {"key": "entitty"}, "key must name columns.*entitty.*It has entity, n"),
    "no key": (lambda: {"key": []}, "key must be a column or a list of columns"),
    "same names": (
        lambda: {"key": ["n", sf.col("entity").alias("n")]},
        "key must have columns of different names",
    ),
    "map": (lambda: {"key": "named"}, "key must not hold a map.*got named"),
    "map inside": (
        lambda: {"key": sf.array(sf.struct("named")).alias("deep")},
        "key must not hold a map.*got deep",
    ),
    "window": (lambda: {"window": "10 minutes"}, "window must be a column.*got '10 minutes'"),
    "window's name": (
        lambda: {"window": window(), "key": sf.col("n").alias("window")},
        "key must not have a column 'window' beside a window",
    ),
    "sessions": (
        lambda: {"window": sf.session_window("at", "5 minutes")},
        "window must have a fixed length; session_window has none",
    ),
    "time": (
        lambda: {"window": sf.col("at")},
        "window must be that of pyspark.sql.functions.window; got timestamp",
    ),
    "both ends": (hourly, "ttl must be left out with a window"),
    "soon": (lambda: {"ttl": "soon"}, "ttl must be a duration, such as .*'2 hours'.*; got 'soon'"),
    "at once": (lambda: {"ttl": "0 seconds"}, "ttl must be > 0; got 0"),
    "before": (lambda: {"ttl": "-2 hours"}, "ttl must be a duration.*got '-2 hours'"),
    "no instances": (lambda: {"instances": 0}, "instances must be >= 1; got 0"),
    "other instances": (lambda: {"grouping": RoundRobin(3)}, r"that of the grouping \(3\).*got 2"),
    "grouping": (lambda: {"grouping": "cgg"}, "unknown grouping 'cgg'"),
    "schema": (lambda: {"schema": "count lnog"}, "schema cannot be read; got 'count lnog'"),
    "name": (lambda: {"name": "my count"}, "name must have letters.*my count"),
    "k": (lambda: {"aggregator": TopK("n", k=0)}, "k must be >= 1; got 0"),
}


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_refused_before_a_job_starts(spark, case):
    wrong, message = MISTAKES[case]
    frame = numbered(spark, 10).selectExpr("*", "timestamp_seconds(n) AS at", MAPPED)
    arguments = {"aggregator": Count(), "key": "entity", "schema": "count long", "instances": 2}
    with pytest.raises(PenstockError, match=f"(?s){message}"):
        frame.transform(penstock.aggregate(**{**arguments, **wrong()}))


def test_a_window_of_a_stream_needs_a_watermark(spark, tmp_path):
    drop(tmp_path / "in", *some_files(1))
    stream = source(spark, tmp_path / "in").selectExpr(
        "*", "timestamp_seconds(n) AS at", "timestamp_seconds(n) AS seen"
    )
    op = penstock.aggregate(Count(), key="entity", schema="count long", window=window())
    with pytest.raises(PenstockError, match=r"window needs a watermark.*withWatermark"):
        stream.transform(op)
    with pytest.raises(PenstockError, match="window needs a watermark on its time column"):
        stream.withWatermark("seen", "1 hour").transform(op)
    assert stream.withWatermark("at", "1 hour").transform(op).columns == [
        "entity",
        "window",
        "count",
    ]


@pytest.mark.parametrize("taken", ["_penstock_key", "_penstock_destination"])
def test_names_that_are_needed_inside_are_refused(spark, taken):
    op = penstock.aggregate(Count(), key="entity", schema="count long", instances=2)
    with pytest.raises(PenstockError, match=taken):
        numbered(spark, 10).withColumnRenamed("n", taken).transform(op)


def test_stats_need_a_run(spark):
    op = penstock.aggregate(Count(), key="entity", schema="count long", instances=2)
    with pytest.raises(PenstockError, match="'Count' has not run yet; start its query first"):
        op.stats()


def failing():
    """Aggregations that fail at run time, and what is said of them."""

    def seven(state, record):
        return state + 1 // (record["n"] - 7)

    def lazy(state, record):
        return lambda: record

    def never(state, other):
        raise ValueError("cannot merge")

    def never_finish(state):
        raise KeyError("gone")

    key = r"\{'entity': 'e\d'\}"
    yield (
        "update",
        functions(update=seven),
        r"operator 'careful' failed on the record with key \{'entity': 'e0'\}: ZeroDivisionError",
    )
    yield (
        "state",
        functions(update=lazy),
        f"operator 'careful' failed on the record with key {key}: .*a state of type function "
        r"cannot be serialised.*dump\(state\) -> bytes",
    )
    yield (
        "merge",
        functions(merge=never),
        f"merge of 'careful' failed for the key {key}: ValueError: cannot merge",
    )
    yield (
        "finish",
        functions(finish=never_finish),
        f"finish of 'careful' failed for the key {key}: KeyError: 'gone'",
    )
    yield (
        "column",
        functions(finish=lambda state: {"colour": state}, schema="n long, m long"),
        "operator 'careful' returned a record with colour, which is not in its schema.*n:bigint",
    )
    yield (
        "type",
        functions(finish=lambda state: {"n": "many"}),
        "operator 'careful' returned records that do not fit its schema.*n:bigint",
    )
    yield (
        "columns",
        functions(finish=lambda state: state, schema="n long, m long"),
        "finish of 'careful' must return a dict with n, m; got ",
    )


FAILING = {name: (given, message) for name, given, message in failing()}


@pytest.mark.parametrize("case", FAILING)
def test_failures_say_where_and_why(spark, case):
    given, message = FAILING[case]
    arguments = {"key": "entity", "schema": "n long", "instances": 2, "name": "careful", **given}
    with pytest.raises(PythonException, match=f"(?s)penstock: {message}"):
        numbered(spark, 20).transform(penstock.aggregate(**arguments)).collect()


def test_a_missing_column_is_told(spark):
    op = penstock.aggregate(Mean("price"), key="entity", schema="mean double, count long")
    with pytest.raises(PythonException, match=r"(?s)operator 'Mean' failed.*KeyError: 'price'"):
        numbered(spark, 20).transform(op).collect()


def test_after_a_failure_and_a_fix_nothing_is_lost_and_nothing_doubled(spark, tmp_path):
    files = some_files(3)
    drop(tmp_path / "in", *files)
    totals = {}

    def keep(rows, number):
        totals.update({row.entity: row["count"] for row in rows.collect()})

    def attempt(update):
        op = penstock.aggregate(
            key="entity",
            schema="count long",
            instances=2,
            name="careful",
            **functions(update=update),
        )
        query = source(spark, tmp_path / "in").transform(op).writeStream.outputMode("update")
        query = query.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "c"))
        query = query.trigger(availableNow=True).start()
        try:
            query.awaitTermination(WAIT_S)
        finally:
            query.stop()
        return op

    def picky(state, record):
        if record["n"] == 33:
            raise ValueError("cannot do 33")
        return state + 1

    message = r"operator 'careful' failed on the record with key \{'entity': 'e1'\}.*cannot do 33"
    with pytest.raises(StreamingQueryException, match=f"(?s){message}"):
        attempt(picky)
    assert totals == dict.fromkeys(["e0", "e1", "e2", "e3"], 5)
    fixed = attempt(lambda state, record: state + 1)
    assert totals == dict.fromkeys(["e0", "e1", "e2", "e3"], 15)
    assert (fixed.stats().batches, fixed.stats().processed) == (2, 40)


def test_an_operator_may_be_used_after_its_mistake(spark):
    op = penstock.aggregate(Count(), key="entity", schema="count long", instances=2)
    with pytest.raises(PenstockError, match="key must name columns"):
        spark.range(3).transform(op)
    assert numbered(spark, 14).transform(op).count() == 7
    assert numbered(spark, 0).select(NUMBERED.split()[0]).transform(op).collect() == []
