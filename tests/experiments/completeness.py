"""Requirements on every experiment, whatever its paper is."""

import numpy as np

from penstock.experiments import EXPERIMENTS
from penstock.experiments.claims import Claim
from penstock.experiments.results import Table
from penstock.plots import draw


def assert_claims_and_plot(experiment, samples):
    """Check that it has all its metrics, that its claims can be evaluated, and that it is drawn."""
    assert {s.metric for s in samples} >= {experiment.main_metric, *experiment.metrics}
    table = Table.of_samples(experiment.figure, samples)
    claims = experiment.claims(table)
    assert claims
    assert all(isinstance(claim, Claim) and isinstance(claim.holds, bool) for claim in claims)
    assert len({claim.claim for claim in claims}) == len(claims)
    document = {"params": {"streams": 1}, "rows": [vars(row) for row in table.rows]}
    image = draw(document, experiment.title, experiment.x_label, metrics=experiment.metrics)
    assert image.startswith(b"\x89PNG")


def assert_complete(experiment, samples):
    """Check that every number is there once, with claims and plot."""
    assert all(np.isfinite(s.value) for s in samples)
    keys = [(s.series, s.x, s.metric) for s in samples]
    assert len(set(keys)) == len(keys)
    assert_claims_and_plot(experiment, samples)


def assert_listed(experiments, family):
    """Check that experiments of a family of policies are listed, and that their metrics fit."""
    assert {experiment.name for experiment in experiments} <= set(EXPERIMENTS)
    for experiment in experiments:
        assert experiment.main_metric in experiment.metrics
        assert experiment.family is family
        assert not experiment.on_driver
