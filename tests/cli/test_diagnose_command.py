"""`penstock diagnose` as a user meets it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.cli import main
from processes import ran

sys.path.insert(0, str(Path(__file__).parents[1] / "diagnosis"))
from written import Writer


@pytest.fixture
def log(tmp_path):
    writer = Writer(cores=8)
    rng = np.random.default_rng(0)
    for _ in range(6):
        writer.batch(rng.permutation([3000, *[600] * 7]))
    return writer.write(tmp_path)


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["penstock", "diagnose", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def test_the_summary_fits_on_a_screen(log, monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, log)
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "  main cause: uneven_costs" in lines
    assert any(line.startswith("  balance") for line in lines)


def test_results_are_written_as_json_and_as_a_page(log, tmp_path, monkeypatch, capsys):
    target, page = tmp_path / "found.json", tmp_path / "found.html"
    code, out, _ = run(monkeypatch, capsys, log, "--json", target, "--html", page)
    assert code == 0
    (query,) = json.loads(target.read_text())["queries"]
    assert (query["name"], query["batches"], query["main_cause"]) == ("calls", 6, "uneven_costs")
    assert query["causes"][0].keys() >= {"cause", "seconds", "share"}
    cure = query["cures"][0]
    assert cure["low"] <= cure["gain"] <= cure["high"]
    html = page.read_text()
    assert html.count("data:image/png;base64,") == 1
    assert "http" not in html.replace("http-equiv", "")
    assert "Open the page: file://" in out


def test_a_folder_may_have_files_that_are_no_logs(log, monkeypatch, capsys):
    (log.parent / "readme.txt").write_text("no log\n")
    code, out, err = run(monkeypatch, capsys, log.parent)
    assert code == 0
    assert "uneven_costs" in out
    assert err.startswith("skipped: PATH must be an event log of Spark; readme.txt has no events")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere"], "does not exist"),
        (["readme.txt"], "must be an event log of Spark; readme.txt has no events"),
        (["app-1", "--json", "."], "--json must be a file"),
        (["app-1", "--html", "/proc/x/y.html"], "--html must be a folder that can be written"),
    ],
    ids=["missing", "no-log", "json-folder", "html-unwritable"],
)
def test_bad_input_is_one_line(log, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(log.parent)
    Path("readme.txt").write_text("no log\n")
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1


def test_the_guide_shows_what_the_command_prints(monkeypatch, capsys):
    root = Path(__file__).parents[2]
    page = (root / "docs" / "guide" / "diagnose.md").read_text()
    command, shown = page.split("$ penstock diagnose ")[1].split("```")[0].split("\n", 1)
    code, out, _ = run(monkeypatch, capsys, root / command)
    assert (code, out) == (0, shown)


def test_a_missing_package_is_one_line_with_the_way_out(log):
    code = "import sys; sys.modules['msgspec'] = None; from penstock.cli import main; main()"
    command = [sys.executable, "-c", code, "diagnose", str(log)]
    done = ran(command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "penstock: penstock diagnose needs msgspec; run in a clone: pip install '.[diagnose]'\n"
    )
