"""Batches without stragglers: every number and every claim, on a shorter stream."""

import pytest
from completeness import assert_complete

from penstock.experiments import EXPERIMENTS, batch
from penstock.experiments.results import Table

(EXPERIMENT,) = batch.EXPERIMENTS


@pytest.fixture(scope="module")
def samples():
    """All samples of one stream of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "LEARNT", 2)
        patch.setattr(batch, "MEASURED", 1)
        return [s for x in EXPERIMENT.xs for s in EXPERIMENT.run(x, 0, {})]


def test_it_has_its_claims_and_its_plot(samples):
    assert EXPERIMENTS["batch-stragglers"] is EXPERIMENT
    assert_complete(EXPERIMENT, samples)


def test_keys_that_tell_nothing_change_nothing_without_a_model(samples):
    table = Table.of_samples("", samples)
    for series in ("repartition_8", "shared_queue"):
        means = table.means(series, "to_ideal")
        assert means["any key"] == means["s=0.5"]
        assert means["any key slow"] == means["s=0.5 slow"]
