"""Callbacks and metrics of queries on a real local Spark."""

import json
import logging
import math
import urllib.request

import pytest
from flows import NUMBERED, WAIT_S, drop, numbered, some_files, source
from jobs_of import finished
from prometheus_client.parser import text_string_to_metric_families

import penstock
from penstock.spark.driver.measured import INSTANCE, OPERATOR

pytestmark = pytest.mark.spark


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        return answer.read().decode()


def samples(url, **labels):
    """The samples of a scrape that have some labels, by name and by the other labels."""
    return {
        (one.name, *(v for k, v in sorted(one.labels.items()) if k not in labels)): one.value
        for family in text_string_to_metric_families(get(url))
        for one in family.samples
        if labels.items() <= one.labels.items()
    }


def as_scraped(stats):
    """What a scrape must show of an operator."""
    numbers = {(one.name,): one.read(stats) for one in OPERATOR}
    for one in INSTANCE:
        for number, instance in enumerate(stats.instances):
            numbers[one.name, str(number)] = one.read(instance)
    return {k: v for k, v in numbers.items() if v is not None and not math.isnan(v)}


def test_a_query_with_a_callback_and_its_metrics(spark, tmp_path, caplog):
    def watched(record):
        return [record, record]

    drop(tmp_path / "in", *some_files(3, 20))
    op = penstock.balance(watched, key="entity", schema=NUMBERED, instances=2)
    found = []

    @op.on_batch
    def failing(batch):
        found.append(batch)
        raise RuntimeError("of a user")

    stream = source(spark, tmp_path / "in").transform(op).writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).queryName("watched query")
    with caplog.at_level(logging.INFO, "penstock.batches"), penstock.metrics() as served:
        query = stream.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S)
        assert query.exception() is None
        stats = op.stats()
        assert op._plane._notices.drain(60)
        scraped = samples(served.url, operator="watched", query="watched query")
        of_query = samples(served.url, query="watched query")
    # Callbacks: one for each batch, and its failures are logged once.
    assert [(one.batch, one.received, one.processed, one.emitted) for one in found] == [
        (str(batch), 20, 20, 40) for batch in range(3)
    ]
    assert {(one.query, one.query_name) for one in found} == {(query.id, "watched query")}
    assert all(one.duration_ms >= max(one.busy_ms) for one in found)
    assert all(sum(one.records) == 20 for one in found)
    assert sum("a callback of on_batch has failed" in one.message for one in caplog.records) == 1
    # Log lines: the same numbers as JSON.
    lines = [json.loads(one.message) for one in caplog.records if one.name == "penstock.batches"]
    mine = [one for one in lines if one["operator"] == "watched"]
    assert [one["duration_ms"] for one in mine] == [one.duration_ms for one in found]
    # Metrics: exactly the stats.
    assert (stats.batches, stats.received, stats.processed, stats.emitted) == (3, 60, 60, 120)
    slowdowns = {k: v for k, v in scraped.items() if k[0] == "penstock_executor_slowdown_ratio"}
    assert {k[1]: v for k, v in slowdowns.items()} == stats.slowdowns
    assert {k: v for k, v in scraped.items() if k not in slowdowns} == as_scraped(stats)
    assert scraped["penstock_processed_records_total",] == 60
    assert of_query["penstock_query_active",] == 0
    assert of_query["penstock_query_failed",] == 0


def test_a_query_that_fails_is_shown_so(spark, tmp_path):
    def broken(record):
        raise ValueError("no such entity")

    drop(tmp_path / "in", *some_files(1, 5))
    op = penstock.balance(broken, key="entity", schema=NUMBERED, instances=2)
    stream = source(spark, tmp_path / "in").transform(op).writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).queryName("broken query")
    query = stream.trigger(availableNow=True).start()
    with pytest.raises(Exception, match="no such entity"):
        query.awaitTermination(WAIT_S)
    with penstock.metrics() as served:
        found = samples(served.url, query="broken query")
    assert found["penstock_query_active",] == 0
    assert found["penstock_query_failed",] == 1
    [state] = [one for one in op._plane.queries.states() if one.name == "broken query"]
    assert state.failure
    assert "\n" not in state.failure


def test_a_batch_job_has_no_query(spark):
    op = penstock.balance(lambda r: r, key="n", schema=NUMBERED, instances=2, name="job_of_metrics")
    found = []
    op.on_batch(found.append)
    numbered(spark, 30).transform(op).collect()
    stats = op.stats()
    with penstock.metrics() as served:
        scraped = samples(served.url, operator="job_of_metrics", query="")
    assert scraped["penstock_processed_records_total",] == stats.processed == 30
    op.close()  # waits for callbacks
    assert [(one.query, one.processed) for one in found] == [("", 30)]


def test_the_end_of_spark_ends_all_servers_and_threads(tmp_path):
    finished("metrics_end", tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    why = "no Spark session runs; start one first, then call"
    assert found["refused"] == [f"{why} metrics()", f"{why} dashboard()"]
    threads = ["attach", "channel", "loop", "notices", "sampler", "save", "web"]
    assert [one.removeprefix("penstock-") for one in found["running"]] == threads
    assert found["before"] == [200] * 4
    assert (found["after"], found["left"], found["closed"]) == ([0] * 4, [], [True] * 4)
    assert found["processed"] == 10
    assert found["stats_s"] < 5  # nobody waits for a loop that has ended
