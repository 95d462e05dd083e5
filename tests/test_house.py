"""Pages about the code stay true: the newcomer's walk, the glossary, the length of files."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
PAGE = (ROOT / "docs" / "inside" / "architecture.md").read_text()
WALKS = [
    "Before the first record",
    "One record on Spark",
    "One record in the simulator",
    "One plan",
]


def steps(walk):
    """Return the numbered steps of one of the newcomer's walks."""
    section = PAGE.split(f"### {walk}")[1].split("\n## ")[0].split("\n### ")[0]
    numbered = re.split(r"\n(?=\d+\. )", section.split("\n1. ", 1)[1])
    return [" ".join(one.split("\n\n")[0].split()) for one in ["1. " + numbered[0], *numbered[1:]]]


def files_of(step):
    return re.findall(r"`((?:spark|control|policies|sim)/[\w/]+\.py)`", step)


@pytest.mark.parametrize("walk", WALKS)
def test_every_step_of_a_walk_names_a_file_and_a_name_in_it(walk):
    found = steps(walk)
    assert len(found) >= 5
    for step in found:
        named = re.findall(r"`((?:spark|control|policies|sim)/[\w/]+\.py)`, `([\w.]+)`", step)
        assert named, step
        for file, name in named:
            last = name.split(".")[-1]
            text = (SOURCE / file).read_text()
            assert re.search(rf"\b(def|class) {last}\b", text), f"{file} has no {name}"
        for file in files_of(step):
            assert (SOURCE / file).is_file(), step


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_enters_no_file_more_than_twice(walk):
    entered = Counter(files_of(step)[0] for step in steps(walk))
    assert max(entered.values()) <= 2, entered


def test_the_tree_has_every_file_of_control_spark_sim_and_diagnosis():
    tree = PAGE.split("## The tree")[1].split("## Import rules")[0]
    listed = set(re.findall(r"\w+\.py", tree))
    rooms = ["control", "sim", "diagnosis", "spark", "spark/driver", "spark/executor"]
    files = {file.name for room in rooms for file in (SOURCE / room).glob("*.py")}
    assert files - listed == set()


def test_the_glossary_has_at_most_30_words_in_order():
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    words = rows[2:]
    assert words == sorted(words)
    assert len(words) <= 30


def test_no_file_has_more_than_350_lines():
    lengths = {file: len(file.read_text().splitlines()) for file in SOURCE.rglob("*.py")}
    assert [str(file) for file, length in lengths.items() if length > 350] == []
