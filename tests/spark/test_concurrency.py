"""Several calls at a time, in threads or awaited: each record once, and errors name theirs."""

import asyncio
import itertools
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from flows import NUMBERED, bag, configured, hash_of, numbered
from pyspark.errors import PythonException
from pyspark.sql import Row
from pyspark.sql.types import StructType

import penstock
from penstock.errors import PenstockError
from penstock.policies.grouping import Factoring, Grouping
from penstock.shedding import LoadAware, average
from penstock.spark.executor.awaiting import Awaiting
from penstock.spark.executor.function import UserFunction
from penstock.spark.executor.records import joined
from penstock.spark.executor.threads import Threads

SCHEMA = StructType().add("entity", "string").add("n", "integer")


def rows(count):
    return [Row(entity=f"e{n}", n=n) for n in range(count)]


def outcomes(call, count, *, concurrency, goes_on=True, timeout_s=None):
    awaits = asyncio.iscoroutinefunction(call)
    function = UserFunction(
        "op",
        call,
        "dict",
        ("entity",),
        SCHEMA,
        SCHEMA,
        awaits=awaits,
        concurrency=concurrency,
        timeout_s=timeout_s,
    )
    kind = Awaiting if awaits else Threads
    return list(kind(goes_on=goes_on).calls(function, rows(count), range(count)))


def meeting(parties):
    """Functions that only end if so many calls are under way at a time, and never more."""
    barrier, running, most = threading.Barrier(parties), [0], [0]

    def in_threads(record):
        running[0] += 1
        most[0] = max(most[0], running[0])
        barrier.wait(60)
        running[0] -= 1
        barrier.wait(60)
        return record

    async def awaited(record):
        running[0] += 1
        most[0] = max(most[0], running[0])
        while most[0] < parties:
            await asyncio.sleep(0)
        running[0] -= 1
        return record

    return in_threads, awaited, most


@pytest.mark.parametrize("kind", [0, 1], ids=["threads", "awaited"])
def test_so_many_calls_are_under_way_at_a_time(kind):
    *calls, most = meeting(4)
    found = outcomes(calls[kind], 12, concurrency=4)
    assert sorted(number for number, _ in found) == list(range(12))
    assert all(one.returned == [rows(12)[number].asDict()] for number, one in found)
    assert most == [4]


def failing(record):
    if record["n"] == 5:
        raise ValueError("broken")
    return record


async def failing_async(record):
    if record["n"] == 5:
        raise ValueError("broken")
    await asyncio.sleep(0 if record["n"] < 5 else 3600)
    return record


@pytest.mark.parametrize("call", [failing, failing_async], ids=["threads", "awaited"])
def test_a_failed_record_ends_the_others_and_names_itself(call):
    found = outcomes(call, 40, concurrency=4, goes_on=False)
    number, last = found[-1]
    assert (number, str(last.error)) == (5, "broken")
    assert [n for n, one in found if one.error is not None] == [5]


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_exit_in_a_thread_is_an_error_of_its_record_and_not_a_hang(end):
    def leaving(record):
        if record["n"] == 5:
            raise end("done")
        return record

    found = dict(outcomes(leaving, 20, concurrency=2))
    errors = {number: str(one.error) for number, one in found.items() if one.error is not None}
    assert len(found) == 20
    assert errors == {5: f"the call ended with {end.__name__}: done"}


def lazily(record):
    yield record
    if record["n"] == 5:
        raise ValueError("broken half way")


@pytest.mark.parametrize("concurrency", [1, 4], ids=["one", "threads"])
def test_nothing_is_returned_of_a_generator_that_fails_half_way(concurrency):
    found = dict(outcomes(lazily, 20, concurrency=concurrency))
    assert {n: str(one.error) for n, one in found.items() if one.error is not None} == {
        5: "broken half way"
    }
    assert [len(one.returned) for _, one in sorted(found.items())] == [1] * 5 + [0] + [1] * 14


def test_the_event_loop_serves_one_thread_after_the_other():
    started, released = threading.Event(), threading.Event()

    async def closing():
        started.set()
        while not released.is_set():
            await asyncio.sleep(0.001)

    closer = threading.Thread(target=lambda: Awaiting.run(closing()), daemon=True)
    closer.start()
    assert started.wait(60)
    threading.Timer(0.05, released.set).start()
    found = outcomes(failing_async, 5, concurrency=2)
    closer.join(60)
    assert [one.error for _, one in found] == [None] * 5


def test_records_after_a_failed_one_are_called_if_failures_are_tolerated():
    found = dict(outcomes(failing, 40, concurrency=4))
    assert len(found) == 40
    assert [number for number, one in found.items() if one.error is not None] == [5]


@pytest.mark.parametrize("kind", ["threads", "awaited"])
def test_a_hanging_call_is_an_error_of_its_record(kind):
    released = threading.Event()

    def hanging(record):
        if record["n"] in (2, 3):
            released.wait(60)
        return record

    async def hanging_async(record):
        await asyncio.sleep(3600 if record["n"] in (2, 3) else 0)
        return record

    call = hanging if kind == "threads" else hanging_async
    try:
        found = dict(outcomes(call, 30, concurrency=2, timeout_s=0.3))
    finally:
        released.set()
    assert len(found) == 30
    errors = {number: str(one.error) for number, one in found.items() if one.error is not None}
    assert {2, 3} <= errors.keys()
    assert set(errors.values()) == {"no result within 0.3 s"}


def test_costs_are_those_of_the_calls_and_not_of_waiting_for_a_thread():
    calls = {}  # thread, start and end of each call

    def slow(record):
        start_s = time.perf_counter()
        time.sleep(0.05)
        calls[record["n"]] = threading.get_ident(), start_s, time.perf_counter()
        return record

    free_s = {}  # since when each thread has been free
    for number, one in outcomes(slow, 8, concurrency=2):
        thread, start_s, end_s = calls[number]
        assert free_s.get(thread, 0) <= one.started_s <= start_s
        assert one.cost_ms >= 1000 * (end_s - start_s) >= 50
        free_s[thread] = end_s
    assert len(free_s) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"concurrency": 0}, "concurrency must be >= 1; got 0"),
        ({"concurrency": 2.5}, "concurrency must be a whole number; got 2.5"),
        ({"concurrency": 4, "form": "pandas"}, r"concurrency needs a function of single records"),
        ({"concurrency": 4, "form": "arrow_iterator"}, "concurrency needs a function of single"),
        ({"timeout": "5 s"}, "timeout needs an async function, or calls in threads"),
        (
            {"concurrency": 4, "shed": LoadAware(target=average("2 s")), "arrival": "ts"},
            "concurrency must be 1 with a shedder",
        ),
        (
            {"concurrency": 4, "grouping": Factoring(2)},
            r"concurrency must be the servers of the grouping \(1\); got 4",
        ),
    ],
    ids=["zero", "fraction", "pandas", "iterator", "timeout", "shed", "grouping"],
)
def test_mistakes_are_refused(wrong, message):
    with pytest.raises(PenstockError, match=message):
        penstock.balance(lambda record: record, key="entity", schema=NUMBERED, **wrong)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["threads", "awaited"])
def test_every_record_once_with_several_calls_at_a_time(spark, kind):
    def called(record):
        return record

    async def awaited(record):
        await asyncio.sleep(0.001)
        return record

    func = called if kind == "threads" else awaited
    op = penstock.balance(func, key="entity", schema=NUMBERED, instances=2, concurrency=8)
    frame = numbered(spark, 300)
    for _ in range(2):
        assert bag(frame.transform(op).collect()) == bag(frame.collect())
    assert (op.stats().processed, op.stats().failed) == (600, 0)


@pytest.mark.spark
def test_a_failed_record_fails_the_query_and_names_itself(spark):
    def failing(record):  # of its own: executors cannot import this module
        if record["n"] == 5:
            raise ValueError("broken")
        return record

    op = penstock.balance(failing, key="entity", schema=NUMBERED, instances=2, concurrency=4)
    message = r"'failing' failed on the record with key \{'entity': 'e5'\}: ValueError: broken"
    with pytest.raises(PythonException, match=message):
        numbered(spark, 60).transform(op).collect()


@pytest.mark.spark
def test_an_async_function_that_blocks_is_a_warning_with_the_name_of_the_operator(spark, caplog):
    async def blocking(record):
        if record["n"] == 5:
            time.sleep(1.3)
        return record

    op = penstock.balance(blocking, key="entity", schema=NUMBERED, instances=2, concurrency=4)
    assert numbered(spark, 20).transform(op).count() == 20
    [warning] = [one for one in op.stats().warnings if "blocked its event loop" in one]
    assert any("blocking" in record.getMessage() for record in caplog.records), warning


def by_hash():
    """A grouping of one instance that expects records to last as long as their hashes say."""

    # Inside of a function, so that executors get the class itself.
    class ByHash(Grouping):
        def route(self, keys, now_ms=None):
            return np.zeros(np.size(keys), dtype=np.int32)

        def possible_ms(self, keys):
            return 1.0 + (keys % 100)

    return ByHash(instances=1)


@pytest.mark.spark
@pytest.mark.parametrize("arrow", ["10000", "20"], ids=["one Arrow batch", "several"])
def test_a_task_starts_the_longest_records_of_all_arrow_batches_first(spark, arrow):
    class Counting:
        def open(self, context):
            self.calls = itertools.count()

        async def __call__(self, record):
            return {"entity": record["entity"], "n": next(self.calls)}

    op = penstock.balance(
        Counting(), key="entity", schema=NUMBERED, grouping=by_hash(), concurrency=3
    )
    with configured(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": arrow}):
        found = numbered(spark, 90, entities=30).transform(op).collect()
    started = [row["entity"] for row in sorted(found, key=lambda row: row["n"])]
    lengths = (hash_of(spark, *started) % 100).tolist()
    assert len(lengths) == 90
    assert lengths == sorted(lengths, reverse=True)


def test_small_arrow_batches_are_joined_up_to_a_limit(monkeypatch):
    def sizes(*records):
        batches = (pa.RecordBatch.from_pydict({"n": list(range(one))}) for one in records)
        return [len(batch) for batch in joined(batches)]

    monkeypatch.setattr("penstock.spark.executor.records._RECORDS", 100)
    assert sizes() == []
    assert sizes(5) == [5]
    assert sizes(40, 40, 40, 7) == [120, 7]
    assert sizes(250, 60) == [250, 60]
    monkeypatch.setattr("penstock.spark.executor.records._BYTES", 100)
    assert sizes(10, 10, 10) == [20, 10]
