"""All verbs on other versions of Spark, each in a folder of its own.

`make versions` tries every supported version; `make test` the oldest one.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from jobs_of import JOBS
from pyspark import __version__ as installed

from processes import ran

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parents[2] / ".versions"
VERSIONS = os.environ.get("PENSTOCK_VERSIONS", "4.1.0").split()


def path_of(version):
    """The folder of a PySpark; it is installed if it is missing."""
    folder = FOLDER / version
    if not (folder / "pyspark").exists():
        options = "--quiet", "--no-deps", "--no-compile", "--target"
        command = [sys.executable, "-m", "pip", "install", *options]
        packages = [f"pyspark=={version}", "py4j==0.10.9.9"]
        if version.startswith("4.1."):
            packages.append("pyarrow==25.0.1")  # Spark 4.1 does not work with newer ones
        done = ran([*command, folder, *packages])
        if done.returncode:
            pytest.skip(f"PySpark {version} cannot be installed: {done.stderr.strip()[-300:]}")
    return str(folder)


@pytest.mark.apart
@pytest.mark.parametrize("version", VERSIONS)
def test_all_verbs_work(tmp_path, version):
    paths = [os.environ.get("PYTHONPATH", "")]
    if version != installed:
        paths.insert(0, path_of(version))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment.pop("SPARK_HOME", None)
    done = ran([sys.executable, JOBS / "smoke.py", tmp_path], env=environment)
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads((tmp_path / "found.json").read_text())
    everything = list(range(60))
    assert found["version"] == version
    assert found["balanced"] == [n for n in everything if n % 6 != 1]
    assert found["work"] == {"received": 60, "processed": 50, "shed": 10, "fallbacks": 0}
    assert found["arrow"] == everything
    assert found["gated"] == [n for n in everything if n % 6 != 2]
    assert found["replayed"] == everything[1::6]
    means = {f"e{i}": [sum(everything[i::6]) / 10, 10] for i in range(6)}
    assert found["means"] == {key: pytest.approx(mean) for key, mean in means.items()}
    assert found["totals"] == {f"e{i}": sum(everything[i::6]) for i in range(6)}
    assert found["attached"] == {"failures": 0, "failure": "", "wanted": 2}
    assert found["sum"] == sum(everything)
