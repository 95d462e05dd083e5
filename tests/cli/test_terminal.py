"""Output on a terminal: it fits into 80 columns, nothing is cut, and brackets are no markup."""

import sys

import numpy as np
import pytest

from penstock.checks import discover
from penstock.cli import main, reproduce
from penstock.cli.app import app
from penstock.cli.console import blocks, columns, output
from penstock.experiments import EXPERIMENTS
from penstock.experiments.batch_trials import BatchTrial
from penstock.experiments.claims import Claim
from penstock.experiments.demo import PENSTOCK, SPARK, Comparison
from penstock.experiments.results import Table, as_document
from penstock.policies import Policy

WIDTH = 80

POLICIES = """
from penstock.grouping import Grouping

class Rude(Grouping):
    def route(self, keys, now_ms=None):
        raise RuntimeError("bad path [/x] and [bold]")
"""


@pytest.fixture
def printed(monkeypatch, capsys):
    """Return a function that returns what a command or an action has printed."""
    monkeypatch.setattr(output, "width", WIDTH)

    def run(*args):
        if callable(args[0]):
            args[0]()
        else:
            monkeypatch.setattr(sys, "argv", ["penstock", *map(str, args)])
            with pytest.raises(SystemExit):
                main()
        return capsys.readouterr().out

    return run


def assert_readable(text):
    lines = text.splitlines()
    assert "…" not in text
    assert max(len(line.rstrip()) for line in lines) <= WIDTH
    return lines


def test_the_summary_of_every_command_is_whole(printed, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    text = printed("--help")
    assert_readable(text)
    assert "..." not in text.split("Commands:")[1]
    for name in app.commands:
        assert f"\n  {name} " in text


def test_every_experiment_has_one_line(printed):
    lines = assert_readable(printed("reproduce", "--list"))
    for name, experiment in EXPERIMENTS.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert experiment.summary in line
        assert line.split()[-1] == str(experiment.streams)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_can_be_described(name, printed):
    text = printed("reproduce", name, "--list")
    assert_readable(text)
    assert EXPERIMENTS[name].figure in text
    assert EXPERIMENTS[name].x_label in text


def test_every_policy_has_its_name_its_class_and_its_summary(printed):
    text = printed("policies")
    lines = assert_readable(text)
    for cls in discover():
        assert any(line.split() == [cls.name, cls.__name__] for line in lines)
    assert [line[:-1] for line in lines if line and line[0] != " "] == list(Policy.families())
    assert "max_migrations" not in text


def test_parameters_of_policies_are_listed_on_request(printed):
    text = printed("policies", "--parameters")
    assert_readable(text)
    words = set(text.replace(",", " ").replace(".", " ").split())
    assert {parameter for cls in discover() for parameter in cls.parameters()} <= words


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_are_not_cut_however_many_series_there_are(name, printed):
    experiment = EXPERIMENTS[name]
    series = ["full_knowledge_cheap_first", "preventive_as_published", "las_as_published", "las"]
    series += ["a_policy_of_a_user_with_a_long_name", "x[/y]"]
    xs = [1, 2] if experiment.xs == ("whole",) else experiment.xs
    samples = [(s, x, experiment.main_metric, 12345.678) for s in series for x in xs]
    claim = Claim(
        claim="a long claim of a paper: " + 20 * "words that go on ",
        paper="between one and another value of the paper",
        source="Figures 10 to 12",
        goal=12_345_678.0,
        ours="12345.678 ms against 12345.678 ms",
        tolerance=0.0125,
        holds=True,
    )
    document = as_document(
        name,
        {"streams": 3},
        table=Table.of_samples(experiment.figure, samples),
        claims=[claim],
    )
    text = printed(lambda: reproduce._print(experiment, document))
    assert_readable(text)
    assert all(one in text.split() for one in series)
    assert text.count("12345.678") == len(series) * len(xs) + 2
    assert "(Figures 10 to 12; tolerance 0.0125)" in " ".join(text.split())
    assert "12,345,678" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def gap():
    """An experiment whose first series has no value at the first x, and its result."""
    name = "las-spark-timeseries"
    samples = [("mean_cost", 4_000, "completion_ms", 3.0), ("las", 2_000, "completion_ms", 1.0)]
    samples.append(("las", 4_000, "completion_ms", 2.0))
    table = Table.of_samples(EXPERIMENTS[name].figure, samples)
    return EXPERIMENTS[name], as_document(name, {"streams": 1}, table=table, claims=[])


def test_a_series_may_have_no_value_at_some_places(printed):
    lines = printed(lambda: reproduce._print(*gap())).splitlines()
    head = next(i for i, line in enumerate(lines) if "mean_cost" in line)
    first, second = (line for line in lines[head + 1 :] if line.strip()[:4] in {"2000", "4000"})
    assert first.split() == ["2000", "1.000"]
    assert second.split() == ["4000", "3.000", "2.000"]
    assert first.index("1.000") == second.index("2.000")


@pytest.mark.parametrize("broken", ["_print", "_write"])
def test_a_result_survives_an_error_of_the_terminal_or_of_the_disk(
    broken, printed, monkeypatch, tmp_path
):
    def fails(*_):
        raise OSError("no room")

    _, document = gap()
    monkeypatch.setattr(reproduce, "run", lambda *_, **__: document)
    monkeypatch.setattr(reproduce, broken, fails)
    with pytest.raises(OSError, match="no room"):
        app.main(
            ["reproduce", "las-spark-timeseries", "--json", str(tmp_path / "result.json")]
            + (["--out", str(tmp_path)] if broken == "_write" else []),
            standalone_mode=False,
        )
    assert (tmp_path / "result.json").exists()
    text = printed(lambda: None)
    assert ("mean_cost" in text) == (broken == "_write")


def test_the_table_of_the_demo_is_not_cut(printed):
    durations, busy = np.full(6, 123_456.0), np.full((6, 8), 100_000.0)
    trials = [
        BatchTrial(name=name, duration_ms=durations, busy_ms=busy, records=4_800)
        for name in (SPARK, PENSTOCK)
    ]
    rows = Comparison(trials, durations, warm_up=2).table()
    text = printed(lambda: output.print(columns(list(rows[0]), [list(r.values()) for r in rows])))
    lines = assert_readable(text)
    assert len(lines) == 3
    assert all(head in lines[0] for head in rows[0])
    assert lines[1].startswith("repartition(8) ")


def test_blocks_fit_into_a_line_and_have_a_column_each():
    assert blocks([10, 10, 10], room=36) == [range(3)]
    assert blocks([10, 10, 10], room=35) == [range(2), range(2, 3)]
    assert blocks([99, 5, 99], room=20) == [range(1), range(1, 2), range(2, 3)]


def test_brackets_in_a_message_are_printed(tmp_path, printed):
    (tmp_path / "own.py").write_text(POLICIES)
    text = printed("check", tmp_path / "own.py:Rude")
    assert "RuntimeError: bad path [/x] and [bold]" in " ".join(text.split())


def test_brackets_in_a_path_are_printed(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "[" / "x]"
    folder.mkdir(parents=True)
    document = {"params": {"streams": 1}, "rows": []}
    monkeypatch.setattr("penstock.plots.draw", lambda *args, **kwargs: b"")
    reproduce._write(EXPERIMENTS["posg-instances"], document, folder)
    assert "[/x]/posg-instances.json" in capsys.readouterr().err
