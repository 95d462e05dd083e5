"""The experiments on shedding, on short streams: every number and every claim."""

from dataclasses import replace

import numpy as np
import pytest
from completeness import assert_claims_and_plot

from penstock.experiments import EXPERIMENTS, las
from penstock.experiments.results import Table
from penstock.policies.shedding import Never, Shedder
from penstock.sim import Application

RECORDS = 3_000
BY_NAME = {experiment.name: experiment for experiment in las.EXPERIMENTS}
FIGURES = [
    "las-provisioning",
    "las-threshold",
    "las-max-cost",
    "las-distributions",
    "las-precision",
]
SERIES = {
    "random_drop",
    "mean_cost",
    "las_as_published",
    "las",
    "las_cheap_first",
    "full_knowledge",
    "full_knowledge_cheap_first",
}
# Values of x that claims are made about.
SOME = {
    "las-provisioning": (-0.1, 0.25, 0.5),
    "las-threshold": (0.8, 6.4),
    "las-max-cost": (0.8, 6.4),
    "las-distributions": ("uniform", "zipf-3.0"),
    "las-precision": (1.0, 0.05, 0.001),
}


@pytest.fixture
def short(monkeypatch):
    """Streams of 3,000 records."""
    results = las.Case.results

    def on_a_short_stream(case, seed, extra, *, warm):
        workload = replace(case.workload, records=RECORDS)
        return results(replace(case, workload=workload), seed, extra, warm=warm)

    monkeypatch.setattr(las.Case, "results", on_a_short_stream)
    monkeypatch.setattr(las, "WARM_UP", 1_024)


def run(name, extra=None):
    """All samples of one stream."""
    experiment = BY_NAME[name]
    return [s for x in SOME.get(name, experiment.xs) for s in experiment.run(x, 0, extra or {})]


@pytest.mark.parametrize("name", FIGURES)
def test_one_stream_gives_all_numbers_of_all_series(name):
    experiment = BY_NAME[name]
    x = experiment.xs[len(experiment.xs) // 2]
    samples = experiment.run(x, 0, {})
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.x for s in samples} == {x}
    metrics = {"queuing_ms", "dropped_ratio", "shedding_ratio", "messages_per_100"}
    metrics |= {"cold_queuing_ms", "cold_dropped_ratio", "cold_shedding_ratio"}
    found = [(s.series, s.metric) for s in samples]
    assert len(set(found)) == len(found)
    assert set(found) == {(series, metric) for series in SERIES for metric in metrics}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_its_claims_and_its_plot(name, short):
    experiment = BY_NAME[name]
    samples = run(name)
    assert all(np.isfinite(s.value) for s in samples)
    assert_claims_and_plot(experiment, samples)


def test_claims_about_provisioning_need_not_all_values_of_x(short):
    samples = [s for s in run("las-provisioning") if s.x == 0.5]
    claims = las.claims.provisioning(Table.of_samples("", samples))
    assert not any("25%" in claim.claim or "-10%" in claim.claim for claim in claims)


def test_without_overload_the_base_line_sheds_nothing_to_compare_with(short):
    samples = BY_NAME["las-provisioning"].run(-0.1, 0, {})
    assert all(np.isfinite(s.value) for s in samples)
    assert not {s.metric for s in samples} & {"shedding_ratio", "cold_shedding_ratio"}
    dropped = {s.series: s.value for s in samples if s.metric == "dropped_ratio"}
    assert dropped["random_drop"] == 0


def test_a_shedder_of_ones_own_is_a_series_more(short):
    samples = BY_NAME["las-threshold"].run(6.4, 0, {"mine": lambda target: Never()})
    mine = {s.metric: s.value for s in samples if s.series == "mine"}
    assert mine["dropped_ratio"] == 0
    assert mine["shedding_ratio"] == -1
    assert mine["queuing_ms"] > 6.4


def test_the_same_seed_gives_the_same_numbers(short):
    experiment = BY_NAME["las-provisioning"]
    assert experiment.run(0.25, 1, {}) == experiment.run(0.25, 1, {})
    assert experiment.run(0.25, 1, {}) != experiment.run(0.25, 2, {})


def test_a_calm_time_teaches_before_anything_is_measured(short):
    cold, warm = (las.Case().results(0, {}, warm=warm)["las"] for warm in (False, True))
    assert len(cold.stream) == len(warm.stream) == RECORDS
    np.testing.assert_array_equal(cold.stream.keys, warm.stream.keys)
    assert [c.state for c in cold.changes if c.who == "shedder"] == ["NOP", "RUN"]
    assert [c.state for c in warm.changes if c.who == "shedder"] == ["RUN"]


def test_the_series_over_time(monkeypatch):
    monkeypatch.setattr(las, "PHASE", 1_000)
    monkeypatch.setattr(las, "BIN", 200)
    samples = BY_NAME["las-timeseries"].run("whole", 0, {})
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.series for s in samples} == SERIES - {"random_drop"}
    at = {s.x for s in samples if (s.series, s.metric) == ("las", "queuing_ms")}
    assert at == set(range(200, 7_001, 200))
    # Claims are made about bins of 4,000.
    scaled = [s._replace(x=20 * s.x) for s in samples]
    assert len(las.series_claims.timeseries(Table.of_samples("", scaled))) == 14


def test_the_application(short, monkeypatch):
    monkeypatch.setattr(las, "APPLICATION", Application(records=RECORDS))
    monkeypatch.setattr(las, "APPLICATION_BIN", 500)
    samples = BY_NAME["las-application"].run("whole", 0, {})
    assert all(np.isfinite(s.value) for s in samples)
    assert {s.series for s in samples} == SERIES - {"random_drop"}
    assert len(las.series_claims.application(Table.of_samples("", samples))) == 8


def test_phases_of_figure_9():
    stream, slowdowns = las.phases(0)
    assert len(stream) == 140_000
    mean_ms = stream.costs_ms[:20_000].mean()
    gaps = np.diff(stream.arrivals_ms)
    for number, ratio in enumerate(las.PHASES.values()):
        inside = gaps[20_000 * number : 20_000 * (number + 1) - 1]
        np.testing.assert_allclose(inside, ratio * mean_ms, rtol=0.05)
    assert slowdowns == ((100_000, (2.0,)), (120_000, (1.0,)))
    # In D the most frequent key costs the most.
    keys, counts = np.unique(stream.keys[60_000:80_000], return_counts=True)
    frequent = keys[counts.argmax()]
    own = stream.costs_ms[60_000:80_000][stream.keys[60_000:80_000] == frequent]
    assert set(own) == {stream.costs_ms.max()}


def test_names_are_unique_and_metrics_fit():
    assert len(BY_NAME) == len(las.EXPERIMENTS)
    assert set(BY_NAME) <= set(EXPERIMENTS)
    for experiment in las.EXPERIMENTS:
        assert experiment.main_metric in experiment.metrics
        assert experiment.name.startswith("las-")
        assert experiment.family is Shedder
        assert not experiment.on_driver


# Claims that hold or not, as the numbers are.


def table(*samples):
    return Table.of_samples("Figure", samples)


def test_a_target_is_held_if_the_worst_of_all_is_near_it():
    def claim(ms):
        samples = []
        for series in ("las_as_published", "las"):
            samples += [(series, 0.1, "queuing_ms", 0.1), (series, 6.4, "queuing_ms", ms)]
            samples += [(series, x, "shedding_ratio", 0.1) for x in (0.1, 6.4)]
        return [c.holds for c in las.claims.max_cost(table(*samples))]

    assert claim(7.0) == [True, True, True, True]
    assert claim(7.1) == [False, True, False, True]


def test_what_is_dropped_more_is_in_points_and_of_the_worst_x():
    samples = [
        ("las", 1, "dropped_ratio", 0.26),
        ("las", 2, "dropped_ratio", 0.50),
        ("full_knowledge", 1, "dropped_ratio", 0.25),
        ("full_knowledge", 2, "dropped_ratio", 0.45),
    ]
    assert las.claims._more_dropped(table(*samples), "las", [1, 2]) == pytest.approx(5.0)
