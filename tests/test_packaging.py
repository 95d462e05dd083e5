"""The wheel works in an environment with nothing but the declared dependencies."""

import json
import os
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from processes import ran

ROOT = Path(__file__).parents[1]
JOB = ROOT / "tests" / "spark" / "jobs" / "bare.py"
PIP = [sys.executable, "-m", "pip"]

pytestmark = pytest.mark.spark


def required(name, seen):
    """Collect a distribution and all that it requires, without extras."""
    if canonicalize_name(name) in seen:
        return
    found = distribution(name)
    seen[canonicalize_name(name)] = found
    for text in found.requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required(requirement.name, seen)


def link(found, target):
    """Make an installed distribution visible in another environment."""
    for name in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
        source = Path(str(found.locate_file(name)))
        if source.exists() and not (target / name).exists():
            (target / name).symlink_to(source)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The Python of an environment with the wheel and its required dependencies only."""
    folder = tmp_path_factory.mktemp("wheel")
    options = "--no-deps", "--no-build-isolation", "--no-index", "--quiet"
    built = ran([*PIP, "wheel", *options, "--wheel-dir", folder, ROOT])
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("penstock-*.whl")
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    options = "--no-deps", "--no-index", "--quiet"
    done = ran([*PIP, "--python", python, "install", *options, wheel])
    assert done.returncode == 0, done.stderr
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    seen = {}
    required("penstock", seen)
    for name, found in seen.items():
        if name != "penstock":
            link(found, packages)
    return python


def test_the_list_of_dependencies_is_short():
    found = {
        Requirement(one).name for one in distribution("penstock").requires if "extra" not in one
    }
    assert found == {"numba", "numpy", "pandas", "pyarrow", "pyspark"}


def test_operators_and_the_simulator_need_no_extra(bare, tmp_path):
    other = tmp_path / "bin"
    other.mkdir()
    (other / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")  # has no packages
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    environment["PATH"] = f"{other}:{environment['PATH']}"
    done = ran([bare, "-I", JOB, tmp_path / "found.json"], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["doubled"] == list(range(0, 200, 2))
    assert found["totals"] == {str(k): sum(range(k, 100, 5)) for k in range(5)}
    assert (found["simulated"], found["processed"]) == (500, 100)
    assert found["refused"] == "watch() needs rich; run in a clone: pip install '.[cli]'"
    assert found["loaded"] == []


def test_the_command_line_names_its_extra(bare):
    done = ran([bare.parent / "penstock", "--help"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().endswith("run in a clone: pip install '.[cli]'")
    assert len(done.stderr.strip().splitlines()) == 1
