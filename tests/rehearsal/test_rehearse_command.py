"""`penstock rehearse` as a user meets it."""

import json
import sys
from pathlib import Path

import pytest
from made import write_trace

from penstock.cli import main
from penstock.rehearsal import Scenario, rehearse, settings_of
from penstock.rehearsal.from_log import recorded_log

sys.path.insert(0, str(Path(__file__).parents[1] / "diagnosis"))
from written import Writer

ONE = ("--executors", "1", "--executors", "2", "--grouping", "factoring")


@pytest.fixture
def log(tmp_path):
    """An event log: one long task in each batch, and a trigger of 5 s."""
    writer = Writer(executors=2, cores=4)
    for _ in range(8):
        writer.batch([3000, *[600] * 15], wait_ms=1000)
    return writer.write(tmp_path)


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["penstock", "rehearse", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def test_a_table_and_a_recommendation_fit_on_a_screen(folder, monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, folder, *ONE, "--target", "3 s")
    lines = out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("factoring") and "holds" in line for line in lines)
    advice = "Cheapest setting that holds 3 s: 1 executor, 2 instances"
    assert any(line.startswith(advice) for line in lines)


def test_results_are_written_as_json_and_as_a_picture(folder, tmp_path, monkeypatch, capsys):
    target, out = tmp_path / "found.json", tmp_path / "pictures"
    more = ("--json", target, "--out", out, "--rate", 2, "--shedder", "las", "--target", "3 s")
    code, _, _ = run(monkeypatch, capsys, folder, *ONE, *more)
    assert code == 0
    found = json.loads(target.read_text())
    assert (found["operator"], found["scenario"]["rate"]) == ("enrich", 2.0)
    assert found["check"]["error"] < 0.1
    assert len(found["outcomes"]) == 4
    assert found["recommended"]["holds"]
    assert (out / "rehearsal.png").read_bytes().startswith(b"\x89PNG")


def test_an_event_log_is_rehearsed_with_less_detail(log, monkeypatch, capsys):
    found = recorded_log(log)
    assert (found.name, found.batches, found.instances) == ("calls", 7, 16)
    assert [one.slots for one in found.workers] == [4, 4]
    small, same, large = rehearse(found, settings_of(found), Scenario())
    assert small.batch_s > same.batch_s >= large.batch_s
    assert large.batch_s > 3.0  # the longest task stays as it is
    code, out, _ = run(monkeypatch, capsys, log, "--rate", "1.5")
    assert code == 0
    assert "as recorded" in out
    code, _, err = run(monkeypatch, capsys, log, "--grouping", "posg")
    assert (code, err.count("\n")) == (2, 1)
    assert "need a trace with costs of records" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing",), "TRACE must be a folder with a trace; 'missing' does not exist"),
        (("{}", "--grouping", "no"), "unknown --grouping 'no'; choose one of"),
        (("{}", "--shedder", "las"), "--shedder needs a target; give --target '2 s'"),
        (("{}", "--target", "soon"), "--target must be a duration"),
        (("{}", "--rate", "0"), "rate must be > 0; got 0"),
        (("{}", "--executors", "0"), "executors must be >= 1; got 0"),
        (("{}", "--hot-key", "2"), "hot-key must be in (0, 1); got 2"),
        (("{}", "--operator", "x"), "TRACE has no operator 'x'; it has enrich"),
        (("{}", "--out", "/proc/no"), "--out must be a folder that can be written"),
        (("{}", "--grouping", "full_knowledge"), "full_knowledge needs costs"),
    ],
)
def test_bad_input_is_one_line(folder, arguments, message, monkeypatch, capsys):
    given = [str(one).format(folder) for one in arguments]
    code, _, err = run(monkeypatch, capsys, *given)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err


def test_a_folder_without_a_trace_is_one_line(tmp_path, monkeypatch, capsys):
    write_trace(tmp_path / "trace", batches=1)
    (tmp_path / "empty").mkdir()
    code, _, err = run(monkeypatch, capsys, tmp_path / "empty")
    assert (code, err.count("\n")) == (2, 1)


def test_a_log_without_a_streaming_query_is_one_line(tmp_path, monkeypatch, capsys):
    writer = Writer(cores=8)
    writer.batch([100.0] * 8, streaming=False)
    code, _, err = run(monkeypatch, capsys, writer.write(tmp_path))
    assert (code, err.count("\n")) == (2, 1)
    assert "TRACE must have a streaming query; this event log has none" in err
