"""The tables of claims in the papers' pages are those of the stored results."""

import importlib.util
import json
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.experiments import EXPERIMENTS
from penstock.experiments.claims import Claim

PAPERS = Path(__file__).parents[1] / "docs" / "papers"


def update():
    """Return the script that writes the tables."""
    spec = importlib.util.spec_from_file_location("update", PAPERS / "update.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STORED = sorted((PAPERS / "results").glob("*.json"))


def test_the_command_prints_the_stored_tables(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["penstock", "reproduce", "--table", str(PAPERS / "results")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"`{path.stem}` (" in printed for path in STORED)


def test_pages_are_up_to_date():
    pages = update().pages()
    assert {path.name for path in pages} == {path.name for path in PAPERS.glob("*.md")}
    for path, text in pages.items():
        assert path.read_text() == text, f"run: python docs/papers/update.py ({path.name})"


@pytest.mark.parametrize("path", STORED, ids=[path.stem for path in STORED])
def test_stored_results_are_of_experiments_and_have_two_kinds_of_numbers(path):
    document = json.loads(path.read_text())
    assert document["name"] == path.stem
    assert path.stem in EXPERIMENTS
    assert document["date"]
    assert {"streams", "seed"} <= set(document["params"])
    assert document["claims"]
    for claim in document["claims"]:
        Claim(**claim)
