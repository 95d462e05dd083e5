"""Files of kept records that earlier runs of a query have left, or still write."""

import contextlib
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql.types import StructType

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import TaskId
from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin
from penstock.spark import spill
from penstock.spark.driver import stale_files
from penstock.spark.driver.registry import Registration
from penstock.spark.driver.stale_files import StaleFiles
from penstock.spark.executor.part_file import PartFile
from penstock.spark.spill import Spill

QUERY = "5d0f7c3e-8a5b-4b0e-9d53-0f2f35a0c7a1"


class Query:
    """An operator that keeps records, in a query whose batch 4 is not committed."""

    def __init__(self, folder):
        policies = OperatorPolicies(RoundRobin(2))
        self.folder = Spill(str(folder), StructType(), "work", "app")
        self.registration = Registration(
            None, "work", "work", policies, Journal(), errors=self.folder
        )
        self.controller = Controller("work", QUERY, policies, journal=Journal())
        self.unfinished, self.ended = 4, set()
        files = SimpleNamespace(
            checkpoint=lambda *_: "/checkpoint",
            batch_to_repeat=lambda *_: self.unfinished,
            looks=[],
        )
        self.stale = StaleFiles(files, SimpleNamespace(ended_of=lambda _: {*self.ended}))

    def keep(self, run, partition, batch="4", number=0):
        """Keep a record, as a task of a run does."""
        file = PartFile(self.folder, TaskId("work", QUERY, batch, partition, "aa", run))
        if number is not None:
            file.write(pa.RecordBatch.from_pydict({"n": [number]}))
        file.complete()

    def begin(self, run, earlier="", batch="4", unmarked=True):
        """Let a task of a run ask or report, the first one that the driver hears of."""
        self.ended |= {earlier} - {""}
        task = TaskId("work", QUERY, batch, 0, "aa", run)
        self.stale.begin(self.registration, self.controller, task, unmarked=unmarked)


@pytest.fixture
def query(tmp_path):
    return Query(tmp_path / "errors")


def kept(query):
    """Numbers of the kept records."""
    files = fs.LocalFileSystem().get_file_info(
        fs.FileSelector(query.folder.path, recursive=True, allow_not_found=True)
    )
    found = [one.path for one in files if one.base_name.endswith(".parquet")]
    return sorted(n for one in found for n in pq.ParquetFile(one).read()["n"].to_pylist())


def test_files_of_the_run_before_go_and_files_of_this_run_stay(query):
    query.keep("first", 0, batch="3", number=30)  # committed
    query.keep("first", 0, number=1)
    query.keep("first", 7, number=2)
    query.keep("second", 0, number=3)  # its task ended before the driver heard of the run
    query.begin("second", earlier="first")
    assert kept(query) == [3, 30]


def test_a_task_of_a_stopped_run_touches_no_file_of_the_next_one(query):
    query.begin("second", earlier="first")
    query.keep("second", 0, number=3)
    query.keep("first", 0, number=None)  # it has nothing to keep, and would remove its own file
    query.keep("first", 1, number=9)
    assert 3 in kept(query)
    query.stale.look(now=True)
    assert kept(query) == [3]


def test_files_that_come_late_are_looked_for_some_times(query, monkeypatch):
    now = 100.0
    monkeypatch.setattr(stale_files.time, "monotonic", lambda: now)
    query.begin("second", earlier="first")
    for later_s in (0.5, 2.0, 4.0, 11.0, 31.0):
        query.keep("first", 0, number=9)
        now = 100 + later_s
        query.stale.look()
        assert kept(query) == ([9] if later_s < 1 else [])
    query.keep("first", 0, number=9)
    now = 1000.0
    query.stale.look()  # no task lives that long
    assert kept(query) == [9]


def test_tasks_of_several_earlier_runs_are_remembered(query):
    query.begin("second", earlier="first")
    query.begin("third", earlier="second")
    query.keep("first", 0, number=1)
    query.keep("second", 0, number=2)
    query.keep("third", 0, number=3)
    query.stale.look(now=True)
    assert kept(query) == [3]


def test_a_batch_that_the_run_before_has_committed_keeps_its_files(query):
    query.begin("second", earlier="first")
    query.keep("second", 0, number=2)
    query.unfinished = 5
    query.begin("third", earlier="second", batch="5")
    query.keep("first", 0, number=1)
    query.stale.look(now=True)
    assert kept(query) == [2]


def test_a_batch_that_was_committed_meanwhile_is_cleaned_too(query):
    """Without a control channel the driver hears of a run by reports, which may come late."""
    query.unfinished = 5
    query.keep("first", 0, number=1)
    query.keep("second", 1, number=2)
    query.keep("second", 0, batch="5", number=3)
    query.begin("second", earlier="first", batch="4")
    assert kept(query) == [2, 3]


def test_files_of_another_process_and_of_an_older_version_go(query):
    query.keep("unknown", 0, number=1)
    query.keep("", 0, number=2)
    query.keep("second", 0, number=3)
    query.begin("second")
    assert kept(query) == [3]


@pytest.fixture
def read_only(monkeypatch):
    """A way to let the removal of files fail."""

    def fails(*_):
        raise OSError("Read-only file system")

    @contextlib.contextmanager
    def failing():
        with monkeypatch.context() as patched:
            patched.setattr(Spill, "delete", fails)
            yield

    return failing


def test_a_folder_that_cannot_be_written_is_cleaned_later(query, read_only, caplog):
    query.keep("first", 0, number=1)
    with read_only():
        query.begin("second")
        query.stale.look(now=True)
    assert kept(query) == [1]
    query.stale.look(now=True)
    assert kept(query) == []
    assert "old files of kept records stay for now: Read-only file system" in caplog.text


def test_other_queries_and_operators_keep_their_files(query):
    other = Spill(query.folder.path, StructType(), "other", "app")
    one = PartFile(other, TaskId("other", QUERY, "4", 0, "aa", "first"))
    one.write(pa.RecordBatch.from_pydict({"n": [5]}))
    one.complete()
    other = PartFile(query.folder, TaskId("work", QUERY[::-1], "4", 0, "aa", "first"))
    other.write(pa.RecordBatch.from_pydict({"n": [6]}))
    other.complete()
    query.begin("second", earlier="first")
    assert kept(query) == [5, 6]


def test_a_batch_job_has_no_runs(query):
    name = query.folder.file(TaskId("work", "", "execution 3", 0, "aa", "a group"))
    assert name == "penstock_batch=execution-3/work-app-aa-0.parquet"


def test_files_that_could_not_be_removed_do_not_take_those_of_the_next_run_along(query, read_only):
    query.keep("first", 0, number=1)
    with read_only():
        query.begin("second", earlier="first")
    query.keep("second", 0, number=2)  # committed
    query.unfinished = 5
    query.begin("third", earlier="second", batch="5")
    query.keep("third", 0, batch="5", number=3)
    query.stale.look(now=True)
    assert kept(query) == [2, 3]


def test_a_batch_that_runs_a_third_time_is_looked_after_for_the_newest_run(query, read_only):
    query.keep("first", 0, number=1)
    with read_only():
        query.begin("second", earlier="first")
    query.keep("second", 0, number=2)
    another = Query(query.folder.path)
    query.controller, query.registration = another.controller, another.registration
    query.begin("third", earlier="second")
    query.keep("third", 0, number=3)
    query.keep("second", 1, number=4)
    query.stale.look(now=True)
    assert kept(query) == [3]


def test_files_of_tasks_that_do_not_know_their_run_stay_if_the_driver_hears_of_them_late(query):
    query.keep("", 0, number=1)
    query.begin("second", unmarked=False)
    assert kept(query) == [1]


def test_without_a_run_nothing_is_removed(query):
    query.keep("first", 0, number=1)
    query.begin("")
    assert kept(query) == [1]


def test_a_look_that_fails_is_repeated_and_touches_no_file_of_a_later_run(query, read_only):
    query.keep("first", 0, number=1)
    with read_only():
        query.begin("second", earlier="first")
    query.keep("third", 0, number=3)  # before the driver hears of the third run
    query.stale.look(now=True)
    assert kept(query) == [3]


def test_a_store_that_cannot_be_reached_is_no_failure_of_the_loop(query, monkeypatch):
    def fails(*_, **__):
        raise PenstockError("spill must be a folder; the store does not answer")

    query.begin("second", earlier="first")
    query.keep("first", 0, number=1)
    with monkeypatch.context() as patched:
        patched.setattr(spill, "file_system", fails)
        query.stale.look(now=True)
        query.begin("third", earlier="second")
    query.stale.look(now=True)
    assert kept(query) == []


def test_batches_that_cannot_be_cleaned_are_not_remembered_for_ever(query, read_only):
    for batch in range(200):
        query.keep("first", 0, batch=str(batch))
        with read_only():
            query.begin("second", earlier="first", batch=str(batch))
    assert len(query.stale._chases) <= 64
