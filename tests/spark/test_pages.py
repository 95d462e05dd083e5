"""Pages whose Python blocks are pasted: they run as they stand, on a real local Spark."""

import re
import sys
from pathlib import Path

import pytest

from processes import ran

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)(?: title=\"(\w+\.py)\")?\n(.*?)^```", re.M | re.S)
FIRST, OWN = "docs/tutorials/first-stream.md", "docs/tutorials/own-policy.md"


def blocks(page, kind):
    """The name of the file that is to be saved, and the text, of each block to paste."""
    found = BLOCK.findall((ROOT / page).read_text())
    return [(name, text) for one, name, text in found if one == kind and ">>>" not in text]


def pasted(page):
    """Run the blocks of a page in their order; return its variables."""
    variables = {"__name__": "__main__"}
    for name, text in blocks(page, "python"):
        if name:
            Path(name).write_text(text)
        else:
            exec(compile(text, page, "exec"), variables)  # noqa: S102 - a page of our own
    return variables


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Start in an empty folder, like a reader."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("key_rounds", "least_work"):
        sys.modules.pop(name, None)


@pytest.mark.spark
def test_the_job_of_the_readme(spark, here, capsys):
    found = pasted("README.md")
    assert (found["stats"].batches, found["stats"].processed) == (8, 4_000)
    assert "8 batches, 4000 records" in capsys.readouterr().out
    found["op"].close()


@pytest.mark.spark
def test_a_first_stream(spark, here, capsys):
    found = pasted(FIRST)
    assert (found["stats"].batches, found["stats"].processed) == (4, 1_200)
    printed = capsys.readouterr().out
    assert "4 batches, 1200 orders" in printed
    assert "777 ValueError: order 777 has the price -1" in printed


@pytest.mark.spark
def test_a_policy_of_your_own(spark, here, capsys):
    spark.sparkContext.addPyFile(saved(here, OWN, "least_work.py"))
    pasted(OWN)
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(waits\(.*\)  # ([\d.]+)", (ROOT / OWN).read_text())
    assert printed[: len(promised)] == promised
    assert printed[-1].startswith("600 records, imbalance")


def saved(folder, page, wanted):
    """Save a block in advance: executors of a session that runs already need it from there."""
    (text,) = [text for name, text in blocks(page, "python") if name == wanted]
    (folder / wanted).write_text(text)
    return str(folder / wanted)


@pytest.mark.long
@pytest.mark.spark
def test_the_figure_of_a_policy_of_your_own(here):
    saved(here, OWN, "least_work.py")
    ((_, command),) = blocks(OWN, "console")
    words = command.replace("--streams 3", "--streams 1").split()
    done = ran([Path(sys.executable).with_name(words[0]), *words[1:]])
    assert done.returncode == 0, done.stderr
    assert (here / "results" / "posg-provisioning.png").exists()
