"""The experiments on Spark, in a small size: every number, every claim, and no lost record."""

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import (
    EXPERIMENTS,
    cg_spark,
    las,
    las_spark,
    las_spark_figures,
    live_trials,
    posg_spark,
)
from penstock.experiments.live_trials import Phase
from penstock.experiments.results import Table
from penstock.policies.shedding import average, sliding_average
from penstock.sim import Synthetic

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def one_session(spark, monkeypatch):
    """Run in the session of the other tests."""
    for module in (posg_spark, cg_spark, las_spark, las_spark_figures):
        monkeypatch.setattr(module, "session", lambda _: spark)


def run(name, x=None):
    """Run an experiment at one x; check its claims, and that no record is lost."""
    experiment = EXPERIMENTS[name]
    samples = experiment.run(experiment.xs[0] if x is None else x, 0, {})
    assert all(np.isfinite(s.value) for s in samples)
    keys = [(s.series, s.x, s.metric) for s in samples]
    assert len(set(keys)) == len(keys)
    lost = [s.value for s in samples if s.metric == "lost"]
    assert lost
    assert not any(lost)
    return samples


def test_posg_application(monkeypatch):
    monkeypatch.setattr(posg_spark, "BATCHES", 3)
    monkeypatch.setattr(posg_spark, "RECORDS", 20)
    monkeypatch.setattr(posg_spark, "WARM_UP", 1)
    samples = run("posg-spark", 2)
    assert {s.series for s in samples} == {"repartition", "posg_as_published", "posg"}
    assert_claims_and_plot(EXPERIMENTS["posg-spark"], samples)


@pytest.mark.long
def test_posg_timeseries(monkeypatch):
    small = Synthetic(records=6 * 20, distinct=20, cost_values=10, min_cost_ms=0.1, max_cost_ms=6.4)
    monkeypatch.setattr(posg_spark, "STREAM", small)
    monkeypatch.setattr(posg_spark, "SERIES_BATCHES", 6)
    monkeypatch.setattr(posg_spark, "CHANGE", 60)
    monkeypatch.setattr(posg_spark, "LEARNT", 20)
    monkeypatch.setattr(posg_spark, "ADAPTED", 80)
    samples = run("posg-spark-timeseries")
    assert {s.series for s in samples} == {"repartition", "posg_as_published", "posg"}
    at = [s.x for s in samples if (s.series, s.metric) == ("posg", "batch_ms")]
    assert at == [20, 40, 60, 80, 100, 120]
    assert_claims_and_plot(EXPERIMENTS["posg-spark-timeseries"], samples)


def test_cg_throughput_and_memory(monkeypatch):
    monkeypatch.setattr(cg_spark, "BATCHES", 2)
    monkeypatch.setattr(cg_spark, "RECORDS", 60)
    monkeypatch.setattr(cg_spark, "WARM_UP", 1)
    monkeypatch.setattr(cg_spark, "SLOTS", 2)
    equal = run("cg-spark", "equal, 1 ms")
    memory = {s.series: s.value for s in equal if s.metric == "memory"}
    assert memory["key_hash"] == 1
    assert memory["round_robin"] > 1
    samples = equal + run("cg-spark", "two at 30%, 1 ms")
    assert_claims_and_plot(EXPERIMENTS["cg-spark"], samples)


@pytest.mark.long
def test_las_burst(monkeypatch):
    monkeypatch.setattr(las_spark, "INSTANCES", 2)
    monkeypatch.setattr(las_spark, "TARGET", sliding_average("500 ms", records=200))
    monkeypatch.setattr(las_spark, "LIMIT_MS", 500.0)
    monkeypatch.setattr(las_spark, "BIN_S", 1)
    phases = {name: Phase(1.0, p.load, p.slowdown, p.held) for name, p in las_spark.PHASES.items()}
    monkeypatch.setattr(las_spark, "PHASES", phases)
    monkeypatch.setattr(las_spark, "capacity_of", lambda *_, **__: 100.0)
    experiment = EXPERIMENTS["las-spark"]
    samples = experiment.run("whole", 0, {})
    assert {s.series for s in samples} == {"never", "las", "las_cheap_first"}
    assert not any(s.value for s in samples if s.metric == "lost")
    assert experiment.claims(Table.of_samples("", samples))


@pytest.fixture
def live(monkeypatch):
    """A target of half a second, two instances, and a known capacity."""
    monkeypatch.setattr(las_spark_figures, "INSTANCES", 2)
    monkeypatch.setattr(las_spark_figures, "TARGET", average("500 ms"))
    monkeypatch.setattr(las_spark_figures, "LIMIT_MS", 500.0)
    monkeypatch.setattr(las_spark_figures, "SECONDS", 3.0)
    monkeypatch.setattr(las_spark_figures, "POINT_S", 0.5)
    monkeypatch.setattr(las_spark_figures, "capacity_of", lambda *_, **__: 100.0)


def test_las_phases(live, monkeypatch):
    monkeypatch.setattr(las, "PHASE", 100)
    samples = run("las-spark-timeseries")
    assert {s.series for s in samples} == set(las_spark_figures.SERIES)
    assert_claims_and_plot(EXPERIMENTS["las-spark-timeseries"], samples)


@pytest.mark.long
def test_las_application(live):
    samples = run("las-spark-application")
    assert {s.series for s in samples} == set(las_spark_figures.SERIES)
    assert_claims_and_plot(EXPERIMENTS["las-spark-application"], samples)


def test_full_knowledge_knows_doubled_costs(spark, monkeypatch):
    monkeypatch.setattr(las, "PHASE", 50)
    stream = las_spark_figures.Phases(told=True).stream(0)
    costs = las_spark_figures.exact_costs(spark, stream)
    told = int(stream.keys[260])
    assert told >= las_spark_figures.DOUBLED
    frame = spark.sql(f"SELECT xxhash64(CAST({told} AS BIGINT)) AS hash")
    assert costs.estimate([frame.collect()[0]["hash"]])[0] == 2 * stream.costs_ms[260]


@pytest.mark.parametrize(
    ("fixed_ms", "records"),
    [(0.0, 4_000), (1_000.0, 2_000), (3_000.0, 800)],  # at least a fifth of 2 s of pure work
)
def test_the_capacity_is_that_of_batches_as_long_as_the_target(fixed_ms, records, monkeypatch):
    asked = []

    def taken_ms(*_, records, files):
        asked.append(records)
        cold_ms = 5_000.0 if len(asked) == 1 else 0.0
        return cold_ms + fixed_ms + 0.5 * records

    monkeypatch.setattr(live_trials, "_batch_ms", taken_ms)
    workload = Synthetic(records=1_000, distinct=10, cost_values=1, max_cost_ms=1.0)
    found = live_trials.capacity_of(None, workload, 2, batch_ms=2_000.0)
    assert asked[-1] == pytest.approx(records, abs=2)
    assert found == pytest.approx(1000 * records / (fixed_ms + 0.5 * records), rel=0.01)


def test_phases_last_as_long_as_their_records_take_to_arrive():
    phases = las_spark_figures.phases_at(1_000.0)
    assert phases["A"] == Phase(20.0, 1.0)
    assert phases["B"] == Phase(10.0, 2.0)
    assert phases["E"].seconds == 30.0
    assert phases["F"] == Phase(20.0, 1.0, 2.0)


def test_completion_is_waiting_and_cost():
    trial = live_trials.LiveTrial(
        arrival_s=np.array([0.0, 1.0, 5.0]),
        waiting_ms=np.array([10.0, 20.0, 90.0]),
        cost_ms=np.array([1.0, 3.0, 9.0]),
        arrived_s=np.array([0.0, 1.0, 5.0]),
        received=3,
        shed=0,
        processed=3,
    )
    assert trial.completion(0.0, 2.0) == 17.0
    assert np.isnan(trial.completion(2.0, 3.0))
