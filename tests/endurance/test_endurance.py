"""The judgement of slopes; and a short run, whose account must add up."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from endurance.__main__ import GROWS
from endurance.pictures import PANELS
from endurance.probes import why_not
from endurance.slopes import slope
from processes import ran

AT = np.arange(1.0, 101.0) * 100
NOISE = np.random.default_rng(1).normal(0, 3, AT.size)


def test_noise_is_flat():
    assert slope(AT, 100 + NOISE).flat(share=0.0)


@pytest.mark.parametrize("growth", [8.0, 40.0])
def test_growth_by_more_than_the_share_is_not_flat(growth):
    found = slope(AT, 100 + NOISE / 3 + growth * AT / AT[-1])
    assert not found.flat(share=0.05)
    assert found.growth == pytest.approx(0.9 * growth, rel=0.15)


def test_growth_in_the_first_tenth_does_not_count():
    assert slope(AT, np.minimum(AT, 1_000.0)).growth == pytest.approx(0.0, abs=1e-6)


def test_single_peaks_and_gaps_do_not_count():
    values = 100 + NOISE / 10
    values[95], values[20:23] = 10_000.0, np.nan
    assert slope(AT, values).flat(share=0.01)


def test_too_few_values_are_not_flat():
    assert not slope(AT[:9], NOISE[:9]).flat(share=1.0)
    assert not slope(AT, np.full(AT.size, np.nan)).flat(share=1.0)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("query", ["balance", "aggregate"])
def test_a_short_run_counts_every_record(query, tmp_path):
    command = [sys.executable, "-m", "endurance", "--query", query, "--batches", 30]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = ran([*command, "--out", tmp_path], env=environment)
    assert done.returncode in (0, GROWS), done.stderr[-4_000:]  # it is too short for slopes
    told = json.loads((tmp_path / f"endurance-{query}.json").read_text())
    assert told["batches"] >= 30
    assert told["received"] == told["processed"] + told["shed"] + told["failed"] > 0
    assert told["loop_failures"] == 0
    drawn = {name for names in PANELS.values() for name in names}
    others = {"batches", "Python workers", "journals: KB"}
    assert drawn | others == set(told["samples"][0])
    assert (tmp_path / f"endurance-{query}.png").read_bytes().startswith(b"\x89PNG")
