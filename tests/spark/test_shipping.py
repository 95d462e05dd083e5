"""Functions on their way to executors; no Spark needed."""

import os
import pickle
import socket
import sys

import pytest
from pyspark import cloudpickle

from penstock.spark.executor.shipping import shipped
from processes import ran

linux_only = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="only Linux delays and hastens acknowledgements"
)

# A worker that runs 1,000 tasks while it reads from a connection, in a process of its own.
MANY_TASKS = """
import os, pickle, socket
from pyspark import cloudpickle
from penstock.spark.executor.shipping import shipped

run = pickle.loads(cloudpickle.dumps(shipped(lambda batches: batches)))
with socket.create_server(("127.0.0.1", 0)) as server:
    worker = socket.create_connection(server.getsockname())
    spark, _ = server.accept()
one, other = socket.socketpair()
before = sorted(os.listdir("/proc/self/fd"))
for number in range(1_000):
    assert list(run(iter([number]))) == [number]
    assert list(run(iter([]))) == []
assert sorted(os.listdir("/proc/self/fd")) == before
for sender, receiver in ((spark, worker), (worker, spark), (one, other), (other, one)):
    sender.sendall(b"open")
    assert receiver.recv(4) == b"open"
print("done")
"""


@pytest.fixture
def connection():
    """The two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    with one, other:
        yield one, other


@pytest.fixture
def run():
    """A shipped function that returns its batches, as an executor unpickles it."""
    return pickle.loads(cloudpickle.dumps(shipped(lambda batches: batches)))  # noqa: S301


def delayed(end):
    """Let the kernel delay the acknowledgements of a connection, as after an answer."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    assert not at_once(end)


def at_once(end):
    return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


@linux_only
def test_a_task_acknowledges_at_once(connection, run):
    worker, spark = connection
    delayed(worker)
    spark.sendall(b"start")
    assert worker.recv(5) == b"start"
    assert list(run(iter(["batch"]))) == ["batch"]
    assert at_once(worker)


@linux_only
def test_a_task_acknowledges_before_it_waits_for_its_first_batch(connection, run):
    worker, _ = connection
    delayed(worker)

    def batches():
        assert at_once(worker)
        yield "batch"

    assert list(run(batches())) == ["batch"]


@linux_only
def test_every_task_asks_again(connection, run):
    worker, _ = connection
    for _ in range(3):
        delayed(worker)
        list(run(iter(["batch"])))
        assert at_once(worker)


@linux_only
def test_connections_stay_open_and_no_file_leaks():
    done = ran([sys.executable, "-c", MANY_TASKS])
    assert done.stdout == "done\n", done.stderr


def test_tasks_run_where_there_is_no_list_of_files(run, monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", missing)
    assert list(run(iter(["batch"]))) == ["batch"]


def test_tasks_run_where_acknowledgements_cannot_be_hastened(run, monkeypatch):
    monkeypatch.delattr(socket, "TCP_QUICKACK", raising=False)
    assert list(run(iter(["batch"]))) == ["batch"]


@linux_only
def test_files_that_close_in_the_meantime_and_other_sockets_do_no_harm(run, monkeypatch):
    listed = os.listdir
    one, other = socket.socketpair()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM), one, other:
        monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), "1000000"])
        assert list(run(iter(["batch"]))) == ["batch"]
