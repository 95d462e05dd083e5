"""Drivers die, clocks are set back: totals stay exact."""

import json

import pytest
from flows import drop, some_files
from jobs_of import finished, kill, started, until

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


@pytest.mark.apart
def test_clocks_that_are_set_back_mix_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    finished("clocks", tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    start = 1_699_160_400
    assert found["times"] == [[start + 900 * i, 1] for i in range(16)]
    assert found["windows"] == [[start + 1800 * i, 2] for i in range(8)]
