"""Two runs side by side: gains with intervals, causes, predictions."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from written import Writer

from penstock.cli import main
from penstock.diagnosis import diagnose, find_logs, read_log
from penstock.diagnosis.bootstrap import Batches, ratio
from penstock.diagnosis.comparison import compare
from penstock.errors import PenstockError

sys.path.insert(0, str(Path(__file__).parents[1] / "rehearsal"))
from made import write_trace


def log_of(folder, *, longest, name, noise=0.0, rows=1000, batches=12, seed=0):
    """A log of batches with one long task, whose times vary."""
    rng = np.random.default_rng(seed)
    writer = Writer(cores=8)
    for _ in range(batches):
        factor = 1 + noise * rng.standard_normal()
        writer.batch(rng.permutation([longest, *[600] * 7]) * factor, rows=rows)
    return writer.write(folder, name)


def diagnosed(path):
    return diagnose(read_log(find_logs(path)[0]))


@pytest.fixture
def logs(tmp_path):
    before = log_of(tmp_path, longest=1800, name="before", noise=0.05)
    after = log_of(tmp_path, longest=700, name="after", noise=0.05, seed=1)
    return before, after


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["penstock", "compare", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def test_a_gain_has_an_interval_and_its_cause(logs):
    [found] = compare(*map(diagnosed, logs))
    assert found.gain.low < found.before_s.mean() / found.after_s.mean() < found.gain.high
    assert 2.0 < found.gain.low < found.gain.high < 2.7
    assert found.changed
    assert found.causes[0].cause == "uneven_costs"
    assert found.causes[0].saved_s.low > 0.8
    assert found.predicted[0].cure == "balance"


def test_the_same_run_twice_is_noise(tmp_path):
    first = log_of(tmp_path, longest=1800, name="a", noise=0.1, seed=3)
    second = log_of(tmp_path, longest=1800, name="b", noise=0.1, seed=4)
    [found] = compare(diagnosed(first), diagnosed(second))
    assert not found.changed
    assert found.gain.low < 1 < found.gain.high


def test_other_numbers_of_records_are_compared_by_record(tmp_path):
    first = log_of(tmp_path, longest=1800, name="a", rows=1000)
    second = log_of(tmp_path, longest=1800, name="b", rows=2000)
    [found] = compare(diagnosed(first), diagnosed(second))
    assert found.per_record
    assert found.gain.mid == pytest.approx(2.0, rel=0.01)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        before, after = rng.normal(2.0, 0.3, 30), rng.normal(1.0, 0.2, 30)
        found = ratio(Batches(before, np.ones(30)), Batches(after, np.ones(30)))
        covered += found.low <= 2.0 <= found.high
    assert 180 <= covered <= 199


def test_runs_without_a_common_query_are_refused(logs):
    before, after = map(diagnosed, logs)
    with pytest.raises(PenstockError, match="must have a query named 'no' in common; BEFORE has"):
        compare(before, after, "no")


def test_the_command_prints_and_writes(logs, tmp_path, monkeypatch, capsys):
    target, page = tmp_path / "found.json", tmp_path / "found.html"
    code, out, _ = run(monkeypatch, capsys, *logs, "--json", target, "--html", page)
    assert code == 0
    lines = [line for line in out.splitlines() if "page:" not in line]
    assert max(map(len, lines)) <= 80
    assert any("times as fast" in line for line in lines)
    [query] = json.loads(target.read_text())["queries"]
    assert query["gain"].keys() == {"gain", "low", "high"}
    assert query["causes"][0].keys() == {"cause", "before", "after", "saved", "low", "high"}
    assert page.read_text().count("data:image/png") == 1


def test_two_traces_are_compared_with_the_rehearsed_gain(tmp_path, monkeypatch, capsys):
    before = write_trace(tmp_path / "before", slow=2.0)
    after = write_trace(tmp_path / "after")
    code, out, _ = run(monkeypatch, capsys, before, after)
    assert code == 0
    assert "rehearsed" in out
    code, _, err = run(monkeypatch, capsys, before, tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "must both be event logs, or both traces" in err


def test_a_missing_log_is_one_line(logs, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, logs[0], "missing")
    assert (code, err.count("\n")) == (2, 1)
