"""Run the grid of an experiment, one cell for each x and seed, as a Spark job."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
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
        experiment: experiment to run.
        streams: number of streams to average over; None takes the experiment's own number.
        seed: seed of the first stream; the others follow.
        master: Spark master; None takes the experiment's own.
        extra: functions that make the user's own policies, by series.
        progress: function that receives the number of finished tasks and of all tasks.
    """
    count = whole("streams", experiment.streams if streams is None else streams, least=1)
    first = whole("seed", seed, least=0)
    cells = list(product(experiment.xs, range(first, first + count)))
    own = extra or {}
    function = experiment.run

    def one(cell: tuple[X, int]) -> str:
        x, seed = cell
        return json.dumps(function(x, seed, own))

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
    if experiment.depends_on_machine:
        params["depends_on_machine"] = experiment.depends_on_machine
    claims = experiment.claims(table)
    today = datetime.now(UTC).date().isoformat()
    return as_document(experiment.name, params, table=table, claims=claims, date=today)
