"""Requirements on every experiment, whatever its paper is."""

from penstock.experiments.results import Claim, Table
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
