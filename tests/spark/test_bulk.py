"""Bulk computations on a real local Spark."""

import pytest
from pyspark.errors import PythonException

from penstock.errors import PenstockError
from penstock.experiments import EXPERIMENTS
from penstock.experiments.runner import run
from penstock.spark.lab import session
from penstock.spark.lab.bulk import compute

pytestmark = pytest.mark.spark


def test_every_cell_once_and_in_order(spark):
    seen = []
    cells = list(range(150))
    found = compute(
        spark, lambda n: str(n * n), cells, progress=lambda done, total: seen.append(done)
    )
    assert found == [str(n * n) for n in cells]
    assert seen[-1] == 64
    assert seen == sorted(seen)


def test_a_failing_cell_fails_the_job(spark):
    with pytest.raises(PythonException, match="by zero"):
        compute(spark, lambda n: str(1 // n), [1, 0])


def test_results_do_not_depend_on_spark(spark):
    experiment = EXPERIMENTS["posg-instances"]
    document = run(experiment, streams=2, seed=3, master="local[2]")
    row = next(
        r
        for r in document["rows"]
        if (r["series"], r["x"], r["metric"]) == ("posg", 4, "completion_ms")
    )
    values = [
        sample.value
        for seed in (3, 4)
        for sample in experiment.run(4, seed, {})
        if (sample.series, sample.metric) == ("posg", "completion_ms")
    ]
    assert row["n"] == 2
    assert row["mean"] == pytest.approx(sum(values) / 2, rel=1e-12)
    assert document == run(experiment, streams=2, seed=3, master="local[2]")


def test_a_wrong_master_is_refused_before_java_starts():
    with pytest.raises(PenstockError, match="master must be"):
        session("somewhere")
