"""Pages about the code stay true: the newcomer's walk, the glossary, the length of files."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
PAGE = (ROOT / "docs" / "inside" / "architecture.md").read_text()
FAMILIES = "grouping", "shedding", "scaling", "placement"
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


def listed(room):
    """Return the files that the tree has in a room, but not those of the rooms inside of it."""
    lines = PAGE.split("## The tree")[1].split("```")[1].splitlines()
    path, found = [], set()
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        if opened := re.match(r" *(\w+)/ ", line):
            path = [*path[: depth - 1], opened[1]]
        if path == room.split("/"):
            found |= set(re.findall(r"\w+\.py", line))
    return found


@pytest.mark.parametrize(
    "room", ["control", "sim", "diagnosis", "spark", "spark/driver", "spark/executor"]
)
def test_the_tree_has_every_file_of_a_room(room):
    files = {file.name for file in (SOURCE / room).glob("*.py")} - {"__init__.py"}
    assert files - listed(room) == set()


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def sources(name):
    """Return the modules that an import contract binds."""
    (found,) = [one for one in CONTRACTS["contracts"] if one["name"].startswith(name)]
    return set(found["source_modules"])


def modules(folder, package):
    """Return the modules and packages directly in a folder."""
    names = {one.stem for one in folder.glob("*.py")} | {
        one.parent.name for one in folder.glob("*/__init__.py")
    }
    return {f"{package}.{name}" for name in names if not name.startswith("__")}


def test_import_contracts_bind_every_module():
    top, spark = modules(SOURCE, "penstock"), modules(SOURCE / "spark", "penstock.spark")
    policies = modules(SOURCE / "policies", "penstock.policies")
    families = {f"penstock.policies.{name}" for name in FAMILIES}
    assert policies - families - sources("shared parts of policies") == set()
    assert top - {"penstock.spark"} - sources("only penstock.spark speaks") == set()
    others = (top | spark) - {"penstock.spark", "penstock.spark.internals"}
    assert others - sources("only penstock.spark.internals") == set()
    users = {"penstock.spark", "penstock.spark.lab", "penstock.cli", "penstock.experiments"}
    assert (top | spark) - users - sources("the lab") == set()


def test_lines_of_pages_have_at_most_100_characters():
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in [*pages, *(ROOT / "docs").rglob("*.md")]
        for number, line in enumerate(page.read_text().splitlines(), 1)
        # Tables, pictures and output of programs have no other form.
        if len(line) > 100 and not line.startswith(("|", "!", "{"))
    ]
    assert long == []


def test_the_glossary_has_at_most_30_words_in_order():
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    words = rows[2:]
    assert words == sorted(words)
    assert len(words) <= 30


def test_no_file_has_more_than_350_lines():
    folders = "src", "tests", "benchmarks", "examples", "tools"
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    lengths = {file.relative_to(ROOT): len(file.read_text().splitlines()) for file in files}
    assert [str(file) for file, length in lengths.items() if length > 350] == []


def test_no_two_files_of_tests_have_the_same_name():
    # Pytest imports a file under its name alone, and stops if the name is taken.
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, files in names.items() if files > 1] == []
