"""Costs by size: every number and every claim, on a shorter stream of flights."""

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import EXPERIMENTS, size
from penstock.experiments.results import Table
from penstock.policies.grouping import RoundRobin
from penstock.sim import AirTimes, Edits

(EXPERIMENT,) = size.EXPERIMENTS


@pytest.fixture(scope="module")
def samples():
    """All samples of one stream of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(size.STREAMS, "flights", AirTimes(records=2_400))
        extra = {"mine": RoundRobin}
        return [s for x in EXPERIMENT.xs for s in EXPERIMENT.run(x, 0, extra)]


def test_it_has_its_claims_and_its_plot(samples):
    assert EXPERIMENTS["cost-by-size"] is EXPERIMENT
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.series for s in samples} == {"mean", "size", "oracle", "mine"}
    assert_claims_and_plot(EXPERIMENT, samples)


def test_sizes_at_least_halve_the_error(samples):
    table = Table.of_samples("", samples)
    claims = {claim.claim: claim for claim in EXPERIMENT.claims(table)}
    for stream in EXPERIMENT.xs:
        claim = claims[f"{stream}: error of estimates with sizes over that without"]
        assert claim.holds
        assert (claim.paper, claim.goal) == (None, 0.5)


def test_edits_are_real_and_their_costs_follow_the_seed():
    first, second = Edits().stream(0), Edits().stream(1)
    assert (len(first), np.unique(first.keys).size) == (2_061, 554)
    np.testing.assert_array_equal(first.sizes, second.sizes)
    assert (first.costs_ms != second.costs_ms).any()
    assert np.corrcoef(first.sizes, first.costs_ms)[0, 1] > 0.8


def test_flights_have_their_true_times():
    stream = AirTimes(records=1_000).stream(3)
    assert len(stream.part(10, 20)) == stream.part(10, 20).sizes.size == 10
    assert np.corrcoef(stream.sizes, stream.costs_ms)[0, 1] > 0.95
