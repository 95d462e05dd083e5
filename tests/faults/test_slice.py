"""A few faults hit a query on a real cluster, with another seed each time."""

import os
import random
import sys
from pathlib import Path

import pytest

from faults.hosts import why_not
from faults.schedules import NETWORK
from processes import ran

pytestmark = [pytest.mark.spark, pytest.mark.apart]

FAULTS = 2


def account_of(folder, *words, faults=FAULTS):
    """Run one schedule with any seed; return the last line that it prints."""
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, "-m", "faults", "--seed", seed, "--schedules", 1, "--faults", faults]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = ran([*command, "--folder", folder, *words], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    account = done.stdout.splitlines()[-1]
    assert account.endswith(f"0 lost, 0 doubled, seed {seed}")
    assert not account.startswith("0 faults")
    return account


def test_a_slice_of_the_soak_is_exact(record_property, tmp_path):
    record_property("told", account_of(tmp_path / "faults"))


@pytest.mark.long
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("addresses", ["ipv4", "ipv6"])
def test_a_slice_on_hosts_whose_network_fails_is_exact(addresses, record_property, tmp_path):
    kinds = [word for kind in NETWORK for word in ("--kind", kind)]
    told = account_of(tmp_path / "faults", "--hosts", addresses, *kinds, faults=4)
    record_property("told", told)
