"""Keys that an attacker chooses: they hit two instances if the seed is known, and none if not."""

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import EXPERIMENTS, hostile
from penstock.experiments.results import Table
from penstock.policies.grouping import RoundRobin

(EXPERIMENT,) = hostile.EXPERIMENTS


@pytest.fixture(scope="module")
def samples():
    """All samples of a short attack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hostile, "CANDIDATES", 4_000)
        patch.setattr(hostile, "KEYS", 120)
        hostile.hostile_keys.cache_clear()
        extra = {"mine": RoundRobin}
        found = [s for x in EXPERIMENT.xs for s in EXPERIMENT.run(x, 3, extra)]
    hostile.hostile_keys.cache_clear()
    return found


def test_it_has_its_claims_and_its_plot(samples):
    assert EXPERIMENTS["hostile-keys"] is EXPERIMENT
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.series for s in samples} == {*hostile.SERIES, "mine"}
    assert_claims_and_plot(EXPERIMENT, samples)


def test_without_the_seed_the_attack_fails(samples):
    assert all(claim.holds for claim in EXPERIMENT.claims(Table.of_samples("", samples)))
    busiest = {(s.series, s.x): s.value for s in samples}
    for name in ("key_hash", "pkg"):
        assert busiest[name, hostile.KNOWN] > 2 * busiest[name, hostile.UNKNOWN]
