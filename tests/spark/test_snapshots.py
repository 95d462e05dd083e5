"""The workers of an executor share the driver's answers; no Spark needed."""

import json
import threading
from dataclasses import replace

import pytest

from penstock.control import Snapshot
from penstock.control.reports import TaskId
from penstock.spark.channel import Address, Answer, ControlServer, RefusedError
from penstock.spark.executor import snapshots
from penstock.spark.executor.snapshots import Answers, shared_folder


@pytest.fixture
def asked():
    return []


@pytest.fixture
def server(asked):
    def handler(request):
        asked.append(request)
        if request["operator"] == "closed":
            raise RefusedError("the operator was closed")
        number = int(request["batch"])
        return Answer("query", request["batch"], Snapshot(number // 2, 1.0, b"x" * 10_000))

    started = ControlServer("127.0.0.1", handler)
    yield started
    started.close()


def task(batch="4", operator="op"):
    return TaskId(operator, "query", batch, 0, run="run")


@pytest.fixture
def workers(server, tmp_path):
    """Eight Python workers of one executor."""
    return [Answers(server.address, tmp_path) for _ in range(8)]


def test_one_worker_asks_and_the_others_share(workers, asked):
    found = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(one.get(task()))) for one in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(one == found[0] for one in found)
    assert len(asked) == 1


def test_executors_share_nothing(server, tmp_path, asked):
    for executor in ("a", "b"):
        folder = tmp_path / executor
        folder.mkdir()
        Answers(server.address, folder).get(task())
    assert len(asked) == 2


def test_a_task_that_does_not_know_its_run_asks(workers, asked):
    """A stored answer may be of an earlier run: files get the run of the answer in their name."""
    for worker in workers[:3]:
        worker.get(replace(task(), run=""))
    assert len(asked) == 3


def test_a_batch_of_another_run_is_announced(workers, asked):
    for run in ("one", "one", "two", "one"):
        workers[0].get(replace(task(), run=run))
    assert [request["run"] for request in asked] == ["one", "two"]


def test_policies_that_are_at_hand_are_not_sent_again(workers, asked):
    first = workers[0].get(task("4"))
    second = workers[1].get(task("5"))  # the same version
    assert (second.batch, second.snapshot) == ("5", first.snapshot)
    workers[2].get(task("6"))
    assert [request["version"] for request in asked] == [None, 2, 2]


def test_old_answers_are_removed(workers, tmp_path):
    for batch in range(50):
        workers[batch % 8].get(task(str(batch)))
    files = [one for one in tmp_path.glob("*/*") if not one.name.startswith(".")]
    assert len(files) == 4


def test_damaged_answers_are_fetched_again(workers, tmp_path, asked):
    workers[0].get(task())
    (file,) = [one for one in tmp_path.glob("*/*") if not one.name.startswith(".")]
    for damaged in (b"", b"garbage", b"{}\n", file.read_bytes()[:20]):
        file.write_bytes(damaged)
        assert workers[1].get(task()).snapshot.packed == b"x" * 10_000
    assert len(asked) == 5


def test_an_unreachable_driver_is_tried_by_one_worker(tmp_path, monkeypatch):
    tried = []

    def fetch(address, request, have):
        tried.append(request)
        raise ConnectionError("refused")

    monkeypatch.setattr(snapshots, "fetch", fetch)
    nobody = Address("127.0.0.1", 9, b"key")
    for worker in range(5):
        with pytest.raises(ConnectionError, match="refused" if not worker else "a moment ago"):
            Answers(nobody, tmp_path).get(task())
    assert len(tried) == 1
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9"):
        _get(nobody, tmp_path)


def _get(address, folder):
    Answers(address, folder).get(task())


def test_the_pause_grows_and_ends_with_an_answer(server, tmp_path, monkeypatch):
    now_s = 1_000.0
    monkeypatch.setattr(snapshots.time, "time", lambda: now_s)
    nobody = Address("127.0.0.1", 1, b"key")
    pauses = []
    for _ in range(8):
        with pytest.raises(ConnectionError):
            _get(nobody, tmp_path)
        until_s, _ = map(float, (tmp_path / "silent").read_text().split())
        pauses.append(until_s - now_s)
        now_s = until_s
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    now_s += 1
    assert Answers(server.address, tmp_path).get(task()).batch == "4"
    assert not (tmp_path / "silent").exists()


def test_a_refusal_stops_no_other_operator(workers, asked, monkeypatch):
    now_s = 1_000.0
    monkeypatch.setattr(snapshots.time, "time", lambda: now_s)
    with pytest.raises(RefusedError, match="the operator was closed"):
        workers[0].get(task(operator="closed"))
    with pytest.raises(ConnectionError, match="had no answer"):
        workers[1].get(task(operator="closed"))
    assert len(asked) == 1
    assert workers[2].get(task()).batch == "4"
    now_s += snapshots.BACK_OFF_S
    with pytest.raises(RefusedError):
        workers[1].get(task(operator="closed"))


def test_a_damaged_note_stops_nobody(server, tmp_path):
    (tmp_path / "silent").write_text("garbage")
    assert Answers(server.address, tmp_path).get(task()).batch == "4"


def test_names_of_any_text_stay_inside_the_folder(workers, tmp_path):
    strange = TaskId("../../etc", "a/b", "..", 0, run="../x")
    with pytest.raises(ConnectionError):  # not a number: the server hangs up
        workers[0].get(strange)
    assert {one.parent for one in tmp_path.rglob("*")} <= {tmp_path, *tmp_path.iterdir()}


def test_the_folder_is_of_the_executor_and_the_application(monkeypatch, tmp_path):
    one, other = (Address("driver", 1, key) for key in (b"one", b"other"))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert shared_folder(one) == shared_folder(one)
    assert shared_folder(one).parent == tmp_path
    assert shared_folder(one) != shared_folder(other)
    assert b"one".hex() not in shared_folder(one).name
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    alone = shared_folder(one)
    assert alone.exists()
    alone.rmdir()


def test_answers_are_plain_text_and_bytes(workers, tmp_path):
    workers[0].get(task())
    (file,) = [one for one in tmp_path.glob("*/*") if not one.name.startswith(".")]
    header, _ = file.read_bytes().split(b"\n", 1)
    assert json.loads(header)["query"] == "query"
