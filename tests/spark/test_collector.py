"""Metrics in Prometheus's format, from stats made by hand."""

import math
import shutil
import subprocess
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.control import BatchStats, InstanceStats, OperatorStats
from penstock.spark.driver.attachment import AttachStats
from penstock.spark.driver.collector import OverviewCollector
from penstock.spark.driver.measured import LABELS
from penstock.spark.driver.overview import Overview
from penstock.spark.driver.queries import QueryState

PROMTOOL = shutil.which("promtool")
STATS = OperatorStats(
    name="enrich",
    query="q-1",
    state="RUN",
    batches=4,
    received=100,
    shed=10,
    processed=85,
    failed=5,
    emitted=80,
    instances=(InstanceStats(50, 1500.0, 1400.0), InstanceStats(40, 500.0, 600.0)),
    active=2,
    imbalance=0.5,
    fallbacks=3,
    fallback_reason="gone",
    router_ms=250.0,
    snapshot_age_ms=20.0,
    waiting_ms=1200.0,
    slowdowns={"1": 1.0, "2": 2.5},
    last=BatchStats("3", 30, 3, 27, 1500.0, duration_ms=2500.0, fallbacks=1),
    warnings=("one", "two"),
    query_name="clicks",
    target_ms=2000.0,
)
ATTACHED = AttachStats(
    query="clicks",
    executors=3,
    wanted=4,
    rate_per_s=125.0,
    pending=30.0,
    reason="more work",
    distance=12.5,
    moved=2,
    not_moved=1,
    dry_run=False,
    running=True,
    failures=1,
    failure="gone",
    behind=40.0,
    lag_s=1.5,
)
QUERIES = (QueryState("q-1", "clicks"), QueryState("q-0", "old", active=False, failure="disk full"))


def page(operators=(STATS,), queries=QUERIES, attached=(ATTACHED,), most=64):
    """The text that a scrape gets."""
    registry = CollectorRegistry()
    seen = Overview(tuple(operators), tuple(queries), tuple(attached))
    registry.register(OverviewCollector(lambda: seen, most))
    return generate_latest(registry).decode()


def scraped(*seen, **more):
    """All samples of a scrape, by name and labels."""
    samples = [
        sample
        for family in text_string_to_metric_families(page(*seen, **more))
        for sample in family.samples
    ]
    found = {(one.name, *sorted(one.labels.items())): one.value for one in samples}
    assert len(found) == len(samples)  # no series twice
    return found


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus")
def test_prometheus_likes_the_names():
    done = subprocess.run(  # noqa: S603 - Prometheus's own linter
        [PROMTOOL, "check", "metrics"], input=page(), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def of_operator(name, found, **labels):
    labels = {"operator": "enrich", "query": "clicks", **labels}
    return found.get((name, *sorted(labels.items())))


@pytest.mark.parametrize(
    "name, number",
    [
        ("penstock_batches_total", 4),
        ("penstock_received_records_total", 100),
        ("penstock_processed_records_total", 85),
        ("penstock_failed_records_total", 5),
        ("penstock_shed_records_total", 10),
        ("penstock_emitted_records_total", 80),
        ("penstock_router_fallbacks_total", 3),
        ("penstock_router_seconds_total", 0.25),
        ("penstock_snapshot_age_seconds", 0.02),
        ("penstock_active_instances", 2),
        ("penstock_instances", 2),
        ("penstock_imbalance_ratio", 0.5),
        ("penstock_waiting_seconds", 1.2),
        ("penstock_target_waiting_seconds", 2.0),
        ("penstock_last_batch_waiting_seconds", 1.5),
        ("penstock_last_batch_duration_seconds", 2.5),
        ("penstock_last_batch_received_records", 30),
        ("penstock_last_batch_fallbacks", 1),
        ("penstock_warnings", 2),
    ],
)
def test_numbers_of_an_operator_are_in_base_units(name, number):
    assert of_operator(name, scraped()) == number


def test_numbers_of_instances_and_executors():
    found = scraped()
    busy = [
        of_operator("penstock_instance_busy_seconds_total", found, instance=i) for i in ("0", "1")
    ]
    assert busy == [1.5, 0.5]
    assert of_operator("penstock_instance_records_total", found, instance="1") == 40
    assert of_operator("penstock_instance_expected_seconds_total", found, instance="0") == 1.4
    assert of_operator("penstock_executor_slowdown_ratio", found, executor="2") == 2.5


def test_numbers_of_queries_and_attachments():
    found = scraped()
    assert found["penstock_query_active", ("query", "clicks")] == 1
    assert found["penstock_query_failed", ("query", "clicks")] == 0
    assert found["penstock_query_active", ("query", "old")] == 0
    assert found["penstock_query_failed", ("query", "old")] == 1
    names = ("executors", "wanted_executors", "pending_records", "loop_failures_total")
    assert [found[f"penstock_{one}", ("query", "clicks")] for one in names] == [3, 4, 30, 1]
    names = ("unread_records", "lag_seconds")
    assert [found[f"penstock_{one}", ("query", "clicks")] for one in names] == [40, 1.5]


def test_every_declared_metric_is_served_with_its_labels():
    served = {}
    for name, *labels in scraped():
        served[name] = tuple(label for label, _ in labels)
    assert served == {name: tuple(sorted(labels)) for name, labels in LABELS.items()}


def test_unknown_numbers_have_no_sample():
    nan = math.nan
    unknown = replace(STATS, waiting_ms=nan, snapshot_age_ms=nan, target_ms=None, last=None)
    unplanned = replace(ATTACHED, wanted=None, rate_per_s=nan, pending=nan, distance=nan)
    unplanned = replace(unplanned, behind=nan, lag_s=nan)
    found = scraped([unknown], attached=[unplanned])
    assert not any(math.isnan(number) for number in found.values())
    missing = {name for name, *_ in scraped()} - {name for name, *_ in found}
    assert missing == {
        "penstock_waiting_seconds",
        "penstock_snapshot_age_seconds",
        "penstock_target_waiting_seconds",
        "penstock_last_batch_waiting_seconds",
        "penstock_last_batch_duration_seconds",
        "penstock_last_batch_received_records",
        "penstock_last_batch_fallbacks",
        "penstock_wanted_executors",
        "penstock_arriving_records_per_second",
        "penstock_pending_records",
        "penstock_unread_records",
        "penstock_lag_seconds",
        "penstock_load_distance_points",
    }


def test_labels_are_bounded_and_sums_stay():
    many = tuple(InstanceStats(n, 1000.0 * n, 0.0) for n in range(10))
    slowdowns = {str(n): 1.0 + n for n in range(10)}
    found = scraped([replace(STATS, instances=many, slowdowns=slowdowns)], most=3)
    records = {
        dict(labels)["instance"]: number
        for (name, *labels), number in found.items()
        if name == "penstock_instance_records_total"
    }
    assert records == {"0": 0, "1": 1, "2": 2, "other": 42}
    executors = [
        dict(labels)["executor"]
        for name, *labels in found
        if name == "penstock_executor_slowdown_ratio"
    ]
    assert executors == ["9", "8", "7"]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb 1", "<script>", 'x"} 1\npenstock_up{a="'])
def test_hostile_names_stay_labels(name):
    found = scraped([replace(STATS, name=name, query_name=name)])
    assert of_operator("penstock_batches_total", found, operator=name, query=name) == 4
    assert {one for one, *_ in found} == set(LABELS)


def test_an_application_without_operators_has_its_version_only():
    assert [name for name, *_ in scraped((), (), ())] == ["penstock_info"]


def test_the_global_registry_stays_clean():
    scraped()
    assert not any("penstock" in name for name in REGISTRY._names_to_collectors)
