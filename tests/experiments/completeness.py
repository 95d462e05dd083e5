"""What every experiment must have, whatever its paper is."""

from penstock.experiments.results import Claim, Table
from penstock.plots import draw


def assert_claims_and_plot(experiment, samples):
    """All its metrics are there, its claims can be told, and it can be drawn."""
    assert {s.metric for s in samples} >= {experiment.main_metric, *experiment.metrics}
    table = Table.of_samples(experiment.figure, samples)
    claims = experiment.claims(table)
    assert claims
    assert all(isinstance(claim, Claim) and isinstance(claim.holds, bool) for claim in claims)
    assert len({claim.claim for claim in claims}) == len(claims)
    document = {"params": {"streams": 1}, "rows": [vars(row) for row in table.rows]}
    image = draw(document, experiment.summary, experiment.x_label, experiment.metrics)
    assert image.startswith(b"\x89PNG")
