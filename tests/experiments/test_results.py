"""Tables, claims and files."""

import json

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.experiments import EXPERIMENTS
from penstock.experiments.base import Sample
from penstock.experiments.batch_trials import BatchTrial
from penstock.experiments.demo import Comparison
from penstock.experiments.results import Table, writable_folder, write_json
from penstock.plots import draw


def test_means_errors_and_extremes():
    samples = [Sample("posg", 1.0, "speedup", v) for v in (1.0, 2.0, 3.0)]
    row = Table.of_samples("Figure", samples).row("posg", 1.0, "speedup")
    assert (row.mean, row.n, row.min, row.max) == (2.0, 3, 1.0, 3.0)
    assert row.se == pytest.approx(1 / 3**0.5)


def test_files_are_written_whole_or_not_at_all(tmp_path):
    file = tmp_path / "result.json"
    write_json({"a": 1}, file)
    with pytest.raises(TypeError):
        write_json({"a": object()}, file)
    assert json.loads(file.read_text()) == {"a": 1}
    assert [f.name for f in tmp_path.iterdir()] == ["result.json"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match="--out must be a folder that can be written"):
        writable_folder("--out", tmp_path / "file" / "below")


# Experiments of POSG; each other paper has a file of its own.
SIMULATED = [name for name, e in EXPERIMENTS.items() if name.startswith("posg") and not e.on_driver]


@pytest.mark.parametrize("name", SIMULATED)
def test_every_experiment_runs_claims_and_draws(name):
    """Run one stream of each in this process; shortened where the paper's stream is long."""
    experiment = EXPERIMENTS[name]
    xs = experiment.xs if name != "posg-application" else experiment.xs[:1]
    samples = [s for x in xs for s in experiment.run(x, 0, {})]
    if name == "posg-application":
        samples = [s._replace(x=x) for s in samples for x in experiment.xs]
    table = Table.of_samples(experiment.figure, samples)
    claims = experiment.claims(table)
    assert claims
    assert {"round_robin", "posg_as_published", "posg", "full_knowledge"} <= set(table.series())
    document = {"params": {"streams": 1}, "rows": [vars(r) for r in table.rows]}
    image = draw(document, experiment.title, experiment.x_label, metrics=experiment.metrics)
    assert image.startswith(b"\x89PNG")


def test_summaries_fit_into_a_line_of_the_list():
    assert all(len(experiment.summary) <= 40 for experiment in EXPERIMENTS.values())


def test_the_typical_batch_is_near_the_median_duration_of_every_trial():
    def comparison(*durations_ms):
        busy = np.ones((len(durations_ms[0]), 2))
        trials = [
            BatchTrial(name="", duration_ms=np.array(one), busy_ms=busy, records=1)
            for one in durations_ms
        ]
        return Comparison(trials, busy[:, 0], warm_up=1)

    assert comparison([9.0, 3.0, 5.0, 1.0], [9.0, 1.0, 1.0, 1.0]).typical() == 1
    assert comparison([0.0, 4.0, 1.0, 3.0, 2.0]).typical() == 3
    # The sum of the second batch is the median, but each of its durations is far from typical.
    assert comparison([0.0, 5.0, 2.0, 6.0], [0.0, 4.0, 8.0, 4.5]).typical() == 1
    assert comparison([9.0, 1.0]).typical() == 1
