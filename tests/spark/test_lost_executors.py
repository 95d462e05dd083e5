"""Executors of a cluster die in the middle of jobs: no record is lost, doubled or miscounted."""

import json
import os
import signal
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from accounts import (
    committed,
    expected_totals,
    given,
    rows_of,
    spilled,
    stats_of,
    stuck_in_the_second_batch,
    totals,
)
from flows import bag, drop, some_files, sunk, timed_files
from jobs_of import executors_of, kill, started, until

pytestmark = pytest.mark.spark

STUCK = 55  # a record of the third file


class Cluster:
    """An application on three executors, which runs jobs one after the other."""

    def __init__(self, folder, process):
        self._folder = folder
        self._process = process
        self._numbers = count()

    @contextmanager
    def running(self, job, *arguments):
        """Run a job; at the end of the block it has ended, and all executors are there again."""
        number = next(self._numbers)
        hidden = self._folder / f".{number}"
        hidden.write_text(json.dumps([job, [str(one) for one in arguments]]))
        hidden.rename(self._folder / f"{number}.json")
        done = self._folder / f"{number}.done"
        try:
            yield
            self.until(done.exists)
            assert done.read_text() == ""
        except BaseException:
            kill(self._process)  # the job may wait for ever
            raise

    def until(self, condition):
        until(condition, self._process, "served", self._folder)

    def executors(self):
        return executors_of(self._process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with started("served", folder) as process:
        yield Cluster(folder, process)


def ancestors(pid):
    """The processes above a process."""
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_killed_executor_loses_nothing(cluster, tmp_path):
    records = 300
    marks = tmp_path / "marks"

    def busy():
        return len({mark.name.split("-")[0] for mark in marks.glob("*")}) == 3

    with cluster.running("cluster", tmp_path, records):
        cluster.until(busy)
        running = cluster.executors()
        assert len(running) == 3
        os.kill(running[0], signal.SIGKILL)
    result = json.loads((tmp_path / "result.json").read_text())
    assert sorted(result["found"]) == list(range(records))
    assert (result["received"], result["processed"]) == (records, records)
    assert len(list(marks.glob("*"))) > 3  # something was done again


def test_an_executor_killed_in_the_middle_of_streams_loses_nothing(cluster, spark, tmp_path):
    files = some_files(4, 20, entities=5)
    drop(tmp_path / "in", *files)
    marks = [tmp_path / f"stuck-{name}" for name in ("balance", "aggregate")]

    def under_way():
        return all(mark.exists() for mark in marks)

    with cluster.running("lossy", tmp_path, STUCK):
        cluster.until(under_way)
        assert [committed(tmp_path / name) for name in ("rows", "changes")] == [2, 2]
        hosts = set(cluster.executors())
        assert len(hosts) == 3
        for mark in marks:
            worker = int(mark.read_text())
            busy = hosts & set(ancestors(worker)) if Path(f"/proc/{worker}").exists() else set()
            for pid in busy:  # both may have been the same
                os.kill(pid, signal.SIGKILL)
                hosts.discard(pid)
        assert len(hosts) < 3
        (tmp_path / "killed").touch()
    assert bag(sunk(spark, tmp_path)) == rows_of(files)
    assert totals(tmp_path) == expected_totals(files)
    stats = stats_of(tmp_path)
    assert stats == {"work": [80, 80], "totals": [80, 80]}


def test_an_executor_that_dies_after_a_result_does_not_fail_the_job(cluster, tmp_path):
    with cluster.running("late_loss", tmp_path):
        for job in ("mean", "chain"):
            cluster.until((tmp_path / f"ended-{job}").exists)
            os.kill(cluster.executors()[0], signal.SIGKILL)
            (tmp_path / f"killed-{job}").touch()
    found = json.loads((tmp_path / "result.json").read_text())
    keys, values = range(40), [n / 7 for n in range(3_000)]
    assert found["counts"] == {str(key): 75 for key in keys}
    for key in keys:
        assert found["means"][str(key)] == pytest.approx(sum(values[key::40]) / 75)
    assert found["numbers"] == list(range(3_000))
    assert found["stats"] == [{"received": 3_000, "processed": 3_000}] * 3


def test_a_killed_executor_keeps_each_record_once(cluster, spark, tmp_path):
    drop(tmp_path / "in", *timed_files(6))
    with cluster.running("shed", tmp_path, STUCK, "local-cluster[3,1,1024]"):
        cluster.until(lambda: stuck_in_the_second_batch(tmp_path))
        assert committed(tmp_path / "checkpoint") == 1
        worker = int((tmp_path / "stuck").read_text())
        [busy] = set(cluster.executors()) & set(ancestors(worker))
        os.kill(busy, signal.SIGKILL)
        (tmp_path / "go").touch()
    assert spilled(spark, tmp_path) + bag(sunk(spark, tmp_path)) == given(spark, tmp_path)
    stats = stats_of(tmp_path)
    assert (stats["received"], stats["fallbacks"]) == (120, 0)
    assert stats["shed"] == sum(spilled(spark, tmp_path).values())
    assert stats["processed"] == len(sunk(spark, tmp_path))
