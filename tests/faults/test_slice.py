"""A few faults hit a query on a real cluster, with another seed each time."""

import os
import random
import sys
from pathlib import Path

import pytest

from processes import ran

FAULTS = 2


@pytest.mark.spark
@pytest.mark.apart
def test_a_slice_of_the_soak_is_exact(record_property, tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, "-m", "faults", "--seed", seed, "--schedules", 1, "--faults", FAULTS]
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": tests}
    done = ran([*command, "--folder", tmp_path / "faults"], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    account = done.stdout.splitlines()[-1]
    assert account.endswith(f"0 lost, 0 doubled, seed {seed}")
    record_property("told", account)
