"""Two runs side by side: gains with intervals, causes, predictions."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from written import Writer

from penstock.cli import main
from penstock.control.journal import Journal
from penstock.diagnosis import diagnose, find_logs, read_log
from penstock.diagnosis.bootstrap import Batches, ratio
from penstock.diagnosis.comparison import compare
from penstock.errors import PenstockError
from penstock.rehearsal import Scenario, read_trace, recorded, rehearse, settings_of
from penstock.rehearsal.compare_journals import compare_journals, is_journal, read_journal
from penstock.rehearsal.compare_traces import compare_traces

sys.path.insert(0, str(Path(__file__).parents[1] / "rehearsal"))
from made import write_trace

GROUPINGS = "round_robin", "factoring"


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
    [predicted] = compare_traces(read_trace(before), read_trace(after)).predicted
    assert predicted.cure == "rehearsed"
    code, _, err = run(monkeypatch, capsys, before, tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "must both be event logs, both traces, or journals" in err


def test_the_rehearsed_gain_is_that_of_the_operator(tmp_path):
    """Batches keep their records, and the rest of the query does not dilute the gain."""
    uneven = read_trace(write_trace(tmp_path / "uneven", batches=12))
    better = [replace(one, numbers=replace(one.numbers, grouping="factoring"))
              for one in uneven.batches]  # fmt: skip
    [predicted] = compare_traces(uneven, replace(uneven, batches=better)).predicted
    found = recorded(uneven)
    settings = settings_of(found, executors=[2], instances=[4], groupings=GROUPINGS)
    operator = replace(found.as_batches(), overheads=replace(found.overheads, batch_ms=0.0))
    even, better = (one.batch_s for one in rehearse(operator, settings, Scenario()))
    assert predicted.gain == pytest.approx(even / better)
    assert even == pytest.approx(found.rehearsed_ms.mean() / 1000, rel=0.05)
    ideal_s = (300.0 + found.stream.costs_ms.sum() / found.batches / 4) / 1000
    assert 1.03 < predicted.gain < even / ideal_s


def journal_of(path, *, hot, batches=10, files=1):
    """The journal of an operator with four instances, one of which has more work."""
    journal = Journal(path, max_bytes=10_000_000 if files == 1 else 2_000)
    rng = np.random.default_rng(0)
    for batch in range(batches):
        for instance in range(4):
            busy_ms = (hot if instance == batch % 4 else 500.0) * rng.uniform(0.95, 1.05)
            journal.write("observation", operator="enrich", query="sales", batch=str(batch),
                          task=instance, instance=instance, records=100,
                          busy_ms=busy_ms)  # fmt: skip
        journal.write("plan", operator="enrich", query="sales", reason="any")
    return path


@pytest.mark.parametrize("files", [1, 5])
def test_two_journals_are_compared_by_their_busiest_instances(tmp_path, monkeypatch, capsys, files):
    before = journal_of(tmp_path / "before.jsonl", hot=1500.0, files=files)
    after = journal_of(tmp_path / "after.jsonl", hot=500.0, files=files)
    assert len([*tmp_path.iterdir()]) > 2 or files == 1
    found = compare_journals(read_journal(before), read_journal(after))
    assert found.gain.low < 3.0 < found.gain.high * 1.05
    assert (found.name, found.predicted, found.before_s.size) == ("enrich", (), 9)
    assert found.causes[0].saved_s.mid == pytest.approx(0.75, abs=0.05)
    page = tmp_path / "found.html"
    code, out, _ = run(monkeypatch, capsys, before, after, "--html", page)
    assert code == 0
    assert "the busiest instance of a batch took 1.51 s, and takes 0.52 s" in out
    assert page.read_text().count("data:image/png") == 1
    code, _, err = run(monkeypatch, capsys, before, after, "--query", "no")
    assert (code, "has no operator or query 'no'; it has enrich" in err) == (2, True)


def test_journals_of_attached_queries_are_compared_by_the_cost_of_records(tmp_path):
    for name, cost_ms in (("before", 15.0), ("after", 10.0)):
        journal = Journal(tmp_path / name)
        for _ in range(6):
            journal.write("observation", query="sales", executors=2, pending=0, cost_ms=cost_ms)
    found = compare_journals(read_journal(tmp_path / "before"), read_journal(tmp_path / "after"))
    assert (found.gain.mid, found.per_record, found.causes) == (1.5, True, ())
    with pytest.raises(PenstockError, match="journals of the same kind"):
        journal_of(tmp_path / "operator", hot=900.0)
        compare_journals(read_journal(tmp_path / "before"), read_journal(tmp_path / "operator"))


def test_a_journal_without_measurements_is_refused(tmp_path):
    journal = Journal(tmp_path / "plans")
    journal.write("plan", query="sales", reason="any")
    assert is_journal(tmp_path / "plans")
    with pytest.raises(PenstockError, match="journal without measurements"):
        read_journal(tmp_path / "plans")


def test_a_missing_log_is_one_line(logs, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, logs[0], "missing")
    assert (code, err.count("\n")) == (2, 1)
