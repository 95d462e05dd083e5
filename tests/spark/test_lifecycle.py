"""Objects are opened once in a Python worker, used by its tasks, and closed."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
import time

import pytest
from flows import NUMBERED, drop, numbered, run, some_files, source, sunk
from pyspark.errors import PythonException
from pyspark.sql import Row
from pyspark.sql.types import StructType

import penstock
from penstock.errors import PenstockError
from penstock.spark.executor.example import try_example
from penstock.spark.executor.function import UserFunction
from penstock.spark.executor.lifecycle import Context, OpenObjects
from penstock.spark.forms import form_of, is_async, is_opened

HERE = Context("op", instance=3, batch="7", attempt=0)


class Noting:
    """An object that notes what happens to it."""

    def __init__(self):
        self.notes = []

    def open(self, context):
        self.notes.append(context)

    def __call__(self, record):
        return record

    def close(self):
        self.notes.append("closed")


class Awaited(Noting):
    async def open(self, context):
        await asyncio.sleep(0)
        super().open(context)

    async def close(self):
        super().close()


def patient():
    return OpenObjects(idle_s=3600, look_s=3600)


@pytest.mark.parametrize("kind", [Noting, Awaited])
def test_an_object_is_opened_once_and_used_again(kind):
    objects, one = patient(), kind()
    for _ in range(3):
        with objects.using("op", "query 1", lambda: one, context=HERE) as lent:
            assert lent is one
    assert one.notes == [HERE]
    objects.close_all()
    objects.close_all()
    assert one.notes == [HERE, "closed"]


def test_another_query_gets_another_object_and_closes_the_first():
    objects, first, second, other = patient(), Noting(), Noting(), Noting()
    with objects.using("op", "query 1", lambda: first, context=HERE):
        pass
    with objects.using("other", "query 1 of another", lambda: other, context=HERE):
        pass
    with objects.using("op", "query 2", lambda: second, context=HERE):
        assert first.notes == [HERE, "closed"]
    assert second.notes == other.notes == [HERE]


def test_an_object_is_closed_after_an_error_of_its_task():
    objects, one = patient(), Noting()
    with (
        pytest.raises(ValueError, match="broken"),
        objects.using("op", "query", lambda: one, context=HERE),
    ):
        raise ValueError("broken")
    assert one.notes == [HERE, "closed"]


def test_an_idle_object_is_closed():
    objects, one = OpenObjects(idle_s=0.0, look_s=0.01), Noting()
    with objects.using("op", "query", lambda: one, context=HERE):
        time.sleep(0.05)
        assert one.notes == [HERE]  # a task uses it
    end = time.monotonic() + 60
    while one.notes != [HERE, "closed"]:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_failing_close_is_logged(caplog):
    class Stuck(Noting):
        def close(self):
            raise OSError("gone")

    objects = patient()
    with objects.using("op", "query", Stuck, context=HERE):
        pass
    objects.close_all()
    assert "an object cannot be closed" in caplog.text


def test_a_failing_open_is_one_clear_error():
    class Closed(Noting):
        def open(self, context):
            raise OSError("no model")

    class Unmade(Noting):
        def __init__(self):
            raise OSError("no model")

    for kind in (Closed, Unmade):
        message = "^penstock: operator 'op' cannot be opened: OSError: no model$"
        with (
            pytest.raises(RuntimeError, match=message),
            patient().using("op", "query", kind, context=HERE),
        ):
            pass


WORKER = """
import sys, signal, time
from penstock.spark.executor.lifecycle import Context, OpenObjects

# As Spark's own workers do: a process that was started with `nohup` would ignore it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

class Noting:
    def close(self):
        print("closed", flush=True)

objects = OpenObjects()
with objects.using("op", "query", Noting, context=Context("op", 0, "1", 0)):
    pass
print("open", flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, None], ids=str)
def test_objects_are_closed_when_the_worker_ends(end):
    how = "go" if end is None else "wait"
    with subprocess.Popen(  # noqa: S603 - a script of this file
        [sys.executable, "-c", WORKER, how], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "open\n"
        if end is not None:
            process.send_signal(end)
        assert process.stdout.readline() == "closed\n"
        assert process.wait(60) == (0 if end is None else -end)


def test_classes_and_objects_have_forms():
    class Scorer:
        def __init__(self, model="small"):
            self.model = model

        async def __call__(self, row: Row):
            return row

    class Plain:
        def __call__(self, record):
            return record

    assert (form_of(Scorer, None), is_async(Scorer), is_opened(Scorer)) == ("row", True, True)
    assert (form_of(Scorer(), None), is_async(Scorer())) == ("row", True)
    assert (is_opened(Noting()), is_opened(Plain()), is_opened(Plain)) == (True, False, True)
    assert not is_opened(functools.partial(Noting()))


def test_classes_that_cannot_be_used_are_refused():
    class Needy:
        def __init__(self, model):
            pass

        def __call__(self, record):
            return record

    class Silent:
        pass

    class Strange:
        def __call__(self):
            pass

    for kind, message in (
        (Needy, r"class Needy must be made without arguments.*model.*object, such as Needy\(...\)"),
        (Silent, "class Silent must have a method __call__"),
        (Strange, "func must take one argument"),
    ):
        with pytest.raises(PenstockError, match=message):
            penstock.balance(kind, key="entity", schema="n int")


@pytest.mark.parametrize("kind", [Noting, Awaited])
def test_an_example_opens_and_closes(kind):
    class Kind(kind):
        async def __call__(self, record):
            assert self.notes
            return record

    one = Kind() if kind is Awaited else kind()
    schema = StructType().add("n", "integer")
    function = UserFunction(
        "op", one, "dict", ("n",), schema, schema, opens=True, awaits=kind is Awaited
    )
    try_example(function, {"n": 1})
    assert one.notes == [Context("op", 0, "", 0), "closed"]


def writing(folder):
    """A class whose objects note in files what happens to them."""

    class Writing:
        def open(self, context):
            self.calls = 0
            note = f"{context.operator} {context.attempt}"
            (folder / f"open-{os.getpid()}-{context.instance}-{context.batch}").write_text(note)

        def __call__(self, record):
            self.calls += 1
            if record["n"] == 1_000:
                raise ValueError("broken record")
            return {**record, "n": self.calls}

        def close(self):
            (folder / f"close-{os.getpid()}").touch()

    return Writing


@pytest.mark.spark
def test_tasks_of_a_query_share_the_object_of_their_worker(spark, tmp_path):
    op = penstock.balance(
        writing(tmp_path),
        key="entity",
        schema=NUMBERED,
        instances=8,
        grouping="round_robin",
        name="op",
    )
    calls = [row.n for row in numbered(spark, 80).transform(op).collect()]
    opened = list(tmp_path.glob("open-*"))
    workers = {file.name.split("-")[1] for file in opened}
    assert len(opened) == len(workers) < 8  # once in each worker, for eight tasks
    assert {file.read_text() for file in opened} == {"op 0"}
    assert len(calls) == 80
    assert len(list(counts(calls))) == len(opened)


@pytest.mark.spark
def test_objects_live_longer_than_a_batch(spark, tmp_path):
    """A slow machine may have pauses after which objects are opened again."""
    notes = tmp_path / "notes"
    notes.mkdir()
    drop(tmp_path / "in", *some_files(4))
    op = penstock.balance(writing(notes), key="entity", schema=NUMBERED, instances=2)
    run(source(spark, tmp_path / "in").transform(op), tmp_path)
    calls = [row.n for row in sunk(spark, tmp_path)]
    assert len(calls) == 80
    assert len(list(counts(calls))) == len(list(notes.glob("open-*")))


def counts(calls):
    """How many records each object has seen, from the numbers of all calls."""
    left = sorted(calls, reverse=True)
    while left:
        top = left[0]
        yield top
        for n in range(1, top + 1):
            left.remove(n)


@pytest.mark.spark
def test_objects_are_closed_after_a_failed_task(spark, tmp_path):
    op = penstock.balance(writing(tmp_path), key="entity", schema=NUMBERED, instances=1)
    frame = numbered(spark, 10).selectExpr("entity", "n * 1000 / 5 AS n")
    with pytest.raises(PythonException, match="broken record"):
        frame.transform(op).collect()
    [opened] = tmp_path.glob("open-*")
    assert (tmp_path / f"close-{opened.name.split('-')[1]}").exists()


@pytest.mark.spark
def test_an_object_that_cannot_be_opened_fails_the_query(spark):
    class Closed:
        def open(self, context):
            raise OSError(f"no model for {context.operator}")

        def __call__(self, record):
            return record

    op = penstock.balance(Closed, key="entity", schema=NUMBERED, instances=1)
    message = "operator 'Closed' cannot be opened: OSError: no model for Closed"
    with pytest.raises(PythonException, match=message):
        numbered(spark, 10).transform(op).collect()
