"""Trials on real Spark: every contender processes every record once."""

import numpy as np
import pytest

from penstock.experiments.batch_trials import (
    ByPenstock,
    Load,
    by_key,
    by_repartition,
    try_out,
)
from penstock.policies.grouping import KeyHash

pytestmark = pytest.mark.spark


def test_every_contender_processes_every_record_once(spark):
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 10, 90)
    load = Load.of(keys, np.full(90, 0.5), batches=3)
    contenders = {
        "repartition": by_repartition(2),
        "key": by_key,
        "penstock": ByPenstock(),
        "key_hash": ByPenstock(KeyHash(2)),
    }
    seen = []

    def progress(name, done, total):
        seen.append((name, done))

    trials = try_out(spark, load, contenders, instances=2, progress=progress)
    assert [trial.name for trial in trials] == list(contenders)
    for trial in trials:
        assert trial.records == 90
        assert trial.duration_ms.shape == (3,)
        assert trial.busy_ms.shape == (3, 2)
        assert trial.busy_ms.sum() >= 90 * 0.5
        assert trial.busiest_over_mean(warm_up=1) >= 1
        for rows, given in zip(trial.results, load.keys, strict=True):
            assert sorted(rows["key"].to_pylist()) == sorted(given.tolist())
    assert [done for name, done in seen if name == "penstock"] == [0, 1, 2, 3]


def test_slowdowns_apply_from_their_batch_on(spark):
    load = Load.of(np.arange(20), np.full(20, 2.0), batches=2)
    slower = Load(load.keys, load.costs_ms, slowdowns=((1, (10.0, 10.0)),))
    (trial,) = try_out(spark, slower, {"repartition": by_repartition(2)}, instances=2)
    assert trial.busy_ms[1].sum() >= 10 * 20.0
    assert trial.busy_ms[0].sum() < trial.busy_ms[1].sum()


def test_the_least_time_of_a_batch():
    load = Load.of(np.arange(4), np.array([4.0, 4.0, 1.0, 9.0]), batches=2)
    assert load.ideal_ms(2).tolist() == [4.0, 9.0]
