"""Runs an experiment's grid of (x, seed) as a Spark job."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

from penstock.experiments.base import Experiment, Extra, X
from penstock.experiments.results import Table, as_document
from penstock.policies.validation import whole
from penstock.spark.lab import session
from penstock.spark.lab.bulk import compute


def run(
    experiment: Experiment,
    *,
    streams: int | None = None,
    seed: int = 0,
    master: str | None = None,
    extra: Extra | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Run an experiment and return its result in the JSON form.

    Args:
        experiment: which one.
        streams: how many streams to average over; the experiment's own number by default.
        seed: of the first stream; the others follow.
        master: where the Spark job runs; the experiment's own by default.
        extra: groupings of the user's own, by series.
        progress: called with the number of tasks done and of all tasks.
    """
    count = whole("streams", experiment.streams if streams is None else streams, least=1)
    first = whole("seed", seed, least=0)
    cells = list(product(experiment.xs, range(first, first + count)))
    own = extra or {}
    function = experiment.run

    def one(cell: tuple[X, int]) -> str:
        return json.dumps(function(*cell, own))

    spark = session(master or experiment.master)
    if experiment.on_driver:
        texts = []
        for done, cell in enumerate(cells):
            progress(done, len(cells))
            texts.append(one(cell))
        progress(len(cells), len(cells))
    else:
        texts = compute(spark, one, cells, progress=progress)
    table = Table.of_samples(
        experiment.figure, (tuple(sample) for text in texts for sample in json.loads(text))
    )
    params = {**experiment.params, "streams": count, "seed": first}
    return as_document(experiment.name, params, table, experiment.claims(table))
