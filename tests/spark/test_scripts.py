"""Every script of benchmarks and examples runs in its smallest size, in a process of its own.

A script is a file that has a `__main__` block and that no other file of its folder imports. All
other files are helpers. So a new script is tested as soon as its file exists.
"""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from processes import ran

ROOT = Path(__file__).parents[2]
FOLDERS = "benchmarks", "examples"
# Scripts that start a cluster or several sessions, or compile many kernels: all of them together
# take longer than the other tests. `make soak` runs them.
LONG = {
    "benchmarks/aggregate.py",
    "benchmarks/balance.py",
    "benchmarks/calibrate.py",
    "benchmarks/collocate.py",
    "benchmarks/diagnose.py",
    "benchmarks/driver.py",
    "benchmarks/dashboard.py",
    "benchmarks/kafka.py",
    "benchmarks/kafka_spike.py",
    "benchmarks/planning.py",
    "benchmarks/policies.py",
    "benchmarks/forms.py",
    "benchmarks/narrow.py",
    "benchmarks/overhead.py",
    "benchmarks/peers.py",
    "benchmarks/place.py",
    "benchmarks/placers.py",
    "benchmarks/scale.py",
    "benchmarks/service.py",
    "benchmarks/shed.py",
    "benchmarks/size.py",
    "benchmarks/slow_executor.py",
    "benchmarks/stragglers.py",
    "benchmarks/task.py",
    "examples/aggregate_naive_bayes.py",
    "examples/balance_tweets.py",
    "examples/cluster.py",
    "examples/pipeline.py",
    "examples/place_airline.py",
    "examples/slow_job.py",
    "examples/scale_waves.py",
    "examples/shed_burst.py",
}
# More of what examples can do, each with a line that shows whether the account is right.
LARGER = {
    "flights": (
        "aggregate_naive_bayes --flights 20000 --files 2",
        "15,000 flights, 90,000 features counted",
    ),
    # The longest of the jobs in sequence: five stateful operators, one of which is a join.
    "jobs in sequence": (
        "place_airline --job 4 --weeks 1 --days 5 --key-groups 2 --master local[2] --left-alone",
        "by_courier: 102 rows",
    ),
}


def imported(files):
    """Return the names of all modules that some files import."""
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    plain = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}


def is_runnable(file):
    return 'if __name__ == "__main__":' in file.read_text()


def scripts_and_helpers(folder):
    files = sorted((ROOT / folder).glob("*.py"))
    modules = imported(files)
    helpers = [file for file in files if file.stem in modules]
    return [file for file in files if file not in helpers], helpers


def names(files):
    return [str(file.relative_to(ROOT)) for file in files]


SCRIPTS = [file for folder in FOLDERS for file in scripts_and_helpers(folder)[0]]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_a_script_or_helps_one(folder):
    scripts, helpers = scripts_and_helpers(folder)
    assert scripts
    assert [one for one in names(scripts) if not is_runnable(ROOT / one)] == []
    assert {file.stem for file in helpers} <= imported(scripts + helpers)


def test_long_scripts_exist():
    assert set(names(SCRIPTS)) >= LONG


def test_make_bench_runs_every_benchmark():
    listed = re.findall(r"benchmarks/\w+\.py", (ROOT / "Makefile").read_text())
    assert sorted(listed) == [one for one in names(SCRIPTS) if one.startswith("benchmarks")]


def test_make_soak_runs_long_scripts():
    (soak,) = re.findall(r"^soak:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "PENSTOCK_LONG=1" in soak
    assert "pytest -m long" in soak


@pytest.mark.spark
@pytest.mark.apart
@pytest.mark.parametrize(
    "script",
    [pytest.param(one, marks=pytest.mark.long) if one in LONG else one for one in names(SCRIPTS)],
)
def test_a_script_runs_in_its_smallest_size(script, tmp_path):
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    told = [line for line in done.stdout.splitlines() if re.search(r"\d", line)]
    assert told, "the script has printed no number"
    assert "once: NO" not in done.stdout
    if script.startswith("benchmarks"):
        written = json.loads((tmp_path / "result.json").read_text())
        assert written
        assert done.stdout.startswith("quick: numbers mean nothing\n")


def run(script, folder):
    """Run a script in a folder, so that its files are no part of the project."""
    options = ["--quick"]
    if script.startswith("benchmarks"):
        options += ["--json", str(folder / "result.json")]
    return started(script, options, folder)


def started(script, options, folder):
    return ran([sys.executable, ROOT / script, *options], cwd=folder)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("name", LARGER)
def test_larger_examples_count_exactly(name, tmp_path):
    (example, *options), line = LARGER[name][0].split(), LARGER[name][1]
    done = started(f"examples/{example}.py", options, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert line in done.stdout
    assert "counted exactly once: yes" in done.stdout
