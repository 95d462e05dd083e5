"""Drivers and executors die, clocks are set back: totals stay exact."""

import json
import os
import signal
from pathlib import Path

import pytest
from flows import WAIT_S, bag, drop, some_files, sunk
from jobs_of import executors_of, finished, kill, log_of, started, until
from test_balance_faults import rows_of

pytestmark = pytest.mark.spark


def totals(place):
    """The newest totals of each key, in the order of batches."""
    newest = {}
    for file in sorted((place / "totals").glob("[0-9]*")):
        newest.update(json.loads(file.read_text()))
    return newest


def expected(files):
    found = {}
    for one in (one for records in files for one in records):
        count, total = found.get(one["entity"], (0, 0))
        found[one["entity"]] = [count + 1, total + one["n"]]
    return found


def committed(checkpoint):
    return len(list((checkpoint / "commits").glob("[0-9]*")))


@pytest.mark.apart
def test_a_killed_driver_goes_on_with_exact_totals(tmp_path):
    files = some_files(6, 40, entities=3)
    drop(tmp_path / "in", *files)
    with started("aggregate", tmp_path, 5) as process:
        until(lambda: committed(tmp_path / "checkpoint") >= 2, process, "aggregate", tmp_path)
        kill(process)
    assert not (tmp_path / "stats.json").exists()
    before = committed(tmp_path / "checkpoint")
    finished("aggregate", tmp_path, 0)
    assert totals(tmp_path) == expected(files)
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["received"] == stats["processed"] == 40 * (6 - before)


def ancestors(pid):
    """The processes above a process."""
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.mark.apart
def test_an_executor_killed_in_the_middle_of_streams_loses_nothing(spark, tmp_path):
    files = some_files(4, 20, entities=5)
    drop(tmp_path / "in", *files)
    marks = [tmp_path / f"stuck-{name}" for name in ("balance", "aggregate")]

    def under_way():
        return all(mark.exists() for mark in marks)

    with started("lossy", tmp_path, 55) as process:  # a record of the third file
        until(under_way, process, "lossy", tmp_path)
        assert [committed(tmp_path / name) for name in ("rows", "changes")] == [2, 2]
        hosts = set(executors_of(process))
        assert len(hosts) == 3
        for mark in marks:
            worker = int(mark.read_text())
            busy = hosts & set(ancestors(worker)) if Path(f"/proc/{worker}").exists() else set()
            for pid in busy:  # both may have been the same
                os.kill(pid, signal.SIGKILL)
                hosts.discard(pid)
        assert len(hosts) < 3
        (tmp_path / "killed").touch()
        assert process.wait(WAIT_S) == 0, log_of("lossy", tmp_path)
    assert bag(sunk(spark, tmp_path)) == rows_of(files)
    assert totals(tmp_path) == expected(files)
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats == {"work": [80, 80], "totals": [80, 80]}


@pytest.mark.apart
def test_clocks_that_are_set_back_mix_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    finished("clocks", tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    start = 1_699_160_400
    assert found["times"] == [[start + 900 * i, 1] for i in range(16)]
    assert found["windows"] == [[start + 1800 * i, 2] for i in range(8)]


@pytest.mark.apart
def test_an_executor_that_dies_after_a_result_does_not_fail_the_job(tmp_path):
    with started("late_loss", tmp_path) as process:
        for job in ("mean", "chain"):
            until((tmp_path / f"ended-{job}").exists, process, "late_loss", tmp_path)
            os.kill(executors_of(process)[0], signal.SIGKILL)
            (tmp_path / f"killed-{job}").touch()
        assert process.wait(WAIT_S) == 0, log_of("late_loss", tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    keys, values = range(40), [n / 7 for n in range(3_000)]
    assert found["counts"] == {str(key): 75 for key in keys}
    for key in keys:
        assert found["means"][str(key)] == pytest.approx(sum(values[key::40]) / 75)
    assert found["numbers"] == list(range(3_000))
    assert found["stats"] == [{"received": 3_000, "processed": 3_000}] * 3
