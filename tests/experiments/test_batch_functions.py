"""Functions of whole batches: every number and every claim, on short streams."""

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import EXPERIMENTS, batch_functions
from penstock.experiments.results import Table
from penstock.policies.grouping import RoundRobin

(EXPERIMENT,) = batch_functions.EXPERIMENTS


@pytest.fixture(scope="module")
def samples():
    """All samples of one short stream for each spread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_functions, "RECORDS", 250)
        patch.setattr(batch_functions, "LEARNT", 10)
        patch.setattr(batch_functions, "MEASURED", 2)
        extra = {"mine": RoundRobin}
        return [s for x in EXPERIMENT.xs for s in EXPERIMENT.run(x, 0, extra)]


def test_it_has_its_claims_and_its_plot(samples):
    assert EXPERIMENTS["batch-functions"] is EXPERIMENT
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.series for s in samples} == {"mean", "batches", "single", "oracle", "mine"}
    assert_claims_and_plot(EXPERIMENT, samples)


def test_known_costs_have_no_error_and_single_ones_the_smallest(samples):
    table = Table.of_samples("", samples)
    without_spread = {one: table.means(one, "error")["s=0"] for one in ("mean", "single", "oracle")}
    assert without_spread["oracle"] == 0
    assert without_spread["single"] < without_spread["mean"]
