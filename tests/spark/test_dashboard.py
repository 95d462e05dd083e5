"""The dashboard over HTTP, on a real local Spark."""

import json
import math
import threading
import urllib.error
import urllib.request
import uuid

import pytest
from flows import NUMBERED, WAIT_S, drop, numbered, some_files, source, until
from pyspark.errors import StreamingQueryException

import penstock
from penstock.control.key_names import KeyNames
from penstock.spark.driver import pages
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.queries import Queries, QueryState
from penstock.spark.driver.sampler import CURVES, BatchNow

pytestmark = pytest.mark.spark

TOKEN = "0123456789abcdef"  # noqa: S105 - of this test only
PROGRESS = {
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 7,
    "numInputRows": 100,
    "inputRowsPerSecond": 50.0,
    "processedRowsPerSecond": 200.0,
    "durationMs": {"triggerExecution": 500},
}


def get(url, method="GET", **headers):
    """Status, headers and text of an answer."""
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def data(url, **asked):
    asked = urllib.parse.urlencode(asked)
    status, _, text = get(f"{url}data?{asked}")
    assert status == 200
    return json.loads(text)


def states(url):
    return {(one["id"], one["state"]) for one in data(url)["queries"]}


def samplers():
    return [one for one in threading.enumerate() if one.name == "penstock-sampler"]


def test_the_files_of_the_page(spark):
    with penstock.dashboard() as served:
        for path, (name, kind) in pages._FILES.items():
            status, headers, text = get(served.url.rstrip("/") + path)
            assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8"), name
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "innerHTML" not in text
            assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in text
        assert get(f"{served.url}../../web.py")[0] == 404
        assert get(f"{served.url}page/app.js")[0] == 404
        assert get(f"{served.url}data", method="POST")[0] == 405
        assert get(f"{served.url}data", Host="example.com")[0] == 403
        assert len(samplers()) == 1
    assert samplers() == []
    served.close()


def test_only_the_numbers_need_the_token(spark):
    with penstock.dashboard(token=TOKEN) as served:
        assert get(served.url)[0] == 200
        assert get(f"{served.url}data")[0] == 401
        assert get(f"{served.url}other")[0] == 401
        assert get(f"{served.url}data", Authorization=f"Bearer {TOKEN}")[0] == 200


def test_wrong_requests_get_an_answer(spark):
    with penstock.dashboard() as served:
        for asked in ({"span": "nan"}, {"span": "-5"}, {"span": 10**9}, {"query": "\0"}):
            assert data(served.url, **asked)["application"]["name"] == "penstock-tests"


def test_a_running_query_and_its_end(spark, tmp_path):
    def dashboarded(record):
        return record

    drop(tmp_path / "in", *some_files(2, 20))
    op = penstock.balance(dashboarded, key="entity", schema=NUMBERED, instances=2)
    stream = source(spark, tmp_path / "in").transform(op).writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).queryName("dashboarded")
    plain = spark.readStream.format("rate").load().writeStream.format("noop").queryName("plain")
    with penstock.dashboard() as served:
        query, other = stream.start(), plain.trigger(processingTime="1 hour").start()

        def shown(one):
            return next(
                (row for row in data(served.url)["queries"] if row["id"] == str(one.id)), None
            )

        until(lambda: (shown(query) or {}).get("batch") == 1)
        stats = op.stats()
        row = shown(query)
        assert (row["name"], row["state"], row["backlog"]) == ("dashboarded", "active", 0)
        assert row["duration_ms"] > 0
        assert row["latency_ms"] >= row["duration_ms"]
        until(lambda: shown(other) is not None)
        found = until(lambda: complete(data(served.url, query=query.id)))
        assert set(found["curves"]) == {"time_s", *CURVES}
        assert found["attached"] is None
        operator = found["operators"][0]
        assert operator["counts"] == {
            name: getattr(stats, name)
            for name in ("batches", "received", "processed", "shed", "failed", "emitted")
        }
        assert operator["busy_ms"] == list(stats.last.busy_ms)
        assert operator["imbalance"] == stats.imbalance
        assert len(operator["hot_keys"]) == 4
        assert math.fsum(one["share"] for one in operator["hot_keys"]) == pytest.approx(1)
        assert all(int(one["key"], 16) < 2**64 for one in operator["hot_keys"])
        assert {"plan"} == {one["kind"] for one in found["plans"]}
        query.stop()
        other.stop()
        until(lambda: shown(query)["state"] == shown(other)["state"] == "ended")
        op.close()  # the last numbers stay
        last = data(served.url, query=query.id)["selected"]
        assert last["operators"][0]["counts"]["processed"] == 40


def complete(answer):
    """The details of a query whose operator has reported both batches."""
    found = answer["selected"]
    done = found["operators"] and found["operators"][0]["counts"]["batches"] == 2
    return found if done else None


def test_names_of_hot_keys_leave_the_executors_only_if_a_page_shows_them(spark, tmp_path):
    hostile = "<script>alert(1)</script>\u202e"
    drop(tmp_path / "in")
    op = penstock.balance(lambda r: r, key="entity", schema=NUMBERED, instances=2, name="named")
    stream = source(spark, tmp_path / "in").transform(op).writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).queryName("named")

    def batch(number):
        records = [{"entity": one, "n": number} for one in (hostile, "b" * 500, None)]
        drop(tmp_path / "in", records, start=number)
        query.processAllAvailable()
        assert op.stats().batches == number

    def shown(page):
        # Each page looks once a second: it may not have seen the operator yet.
        (operator,) = until(lambda: data(page.url, query=query.id)["selected"]["operators"])
        return {one["name"] for one in operator["hot_keys"]}

    query = stream.start()
    try:
        with penstock.dashboard() as plain:
            batch(1)
            batch(2)
            with penstock.dashboard(show_keys=True) as named:
                assert shown(named) == {None}
                batch(3)
                expected = {hostile[:-1] + "\ufffd", "b" * 79 + "…", "null"}
                assert until(lambda: shown(named) == expected)
                assert shown(plain) == {None}
            (controller,) = ControlPlane.running(spark).controllers_of(str(query.id))
            assert not ControlPlane.running(spark).name_readers
            controller.names = KeyNames()
            batch(4)
            assert not controller.names._names
    finally:
        query.stop()
        op.close()


def test_a_query_that_ends_while_it_is_looked_at_keeps_its_name_and_failure(spark, tmp_path):
    seen = threading.Event()

    def broken(rows, number):
        seen.wait(WAIT_S)
        raise ValueError("no such sink")

    drop(tmp_path / "in", [{"entity": "a", "n": 1}])
    queries = Queries(spark)
    stream = source(spark, tmp_path / "in").writeStream.foreachBatch(broken).queryName("quick")
    query = stream.start()
    assert queries.begin(str(query.id)) == "quick"
    seen.set()
    with pytest.raises(StreamingQueryException, match="no such sink"):
        query.awaitTermination(WAIT_S)
    assert queries.begin(str(query.id)) == "quick"  # a late report
    (state,) = queries.states()
    assert (state.name, state.active) == ("quick", False)
    assert "foreach batch" in state.failure
    # A query that nobody saw running has no name.
    other = str(uuid.uuid4())
    assert queries.begin(other) == other
    assert queries.states()[-1] == QueryState(other, other, active=False)


def test_an_attached_query_opens_a_dashboard_that_ends_with_it(spark):
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    query = stream.queryName("attached").trigger(processingTime="1 hour").start()
    scaler = penstock.scaling.Preventive()
    attached = penstock.attach(query, scale=scaler, period="1 hour", dry_run=True, dashboard=True)
    served = attached.dashboard
    try:
        found = until(lambda: data(served.url, query=query.id)["selected"]["attached"])
        assert (found["query"], found["executors"], found["dry_run"]) == ("attached", 1, True)
        assert (found["reason"], found["wanted"], found["state"]) == ("no plan yet", None, None)
        query.stop()  # a query that has ended stays visible
        until(lambda: (str(query.id), "ended") in states(served.url))
    finally:
        query.stop()
        attached.detach()
    assert served.closed
    assert samplers() == []


def test_a_batch_job_has_no_curves(spark):
    op = penstock.balance(lambda r: r, key="n", schema=NUMBERED, instances=2, name="job_on_page")
    numbered(spark, 30).transform(op).collect()
    op.stats()  # all reports are counted
    with penstock.dashboard() as served:
        found = data(served.url, query="")["selected"]
    assert (found["name"], found["curves"]) == ("batch jobs", {})
    (mine,) = [one for one in found["operators"] if one["name"] == "job_on_page"]
    assert mine["counts"]["processed"] == 30


def test_triggers_without_records_change_no_duration():
    first = BatchNow().followed_by(PROGRESS, backlog=0.0)
    assert (first.batch, first.duration_ms, first.latency_ms) == (7, 500, 500 + 1_000)
    idle = first.followed_by({**PROGRESS, "numInputRows": 0, "timestamp": "later"}, backlog=0.0)
    assert (idle.rate_per_s, idle.duration_ms, idle.latency_ms) == (0, 500, 1_500)
    behind = first.followed_by(PROGRESS, backlog=400.0)
    assert behind.latency_ms == 500 + 1_000 + 2_000


def test_the_first_batch_has_no_rate():
    progress = {**PROGRESS}
    del progress["inputRowsPerSecond"], progress["processedRowsPerSecond"]
    first = BatchNow().followed_by(progress, backlog=0.0)
    assert math.isnan(first.rate_per_s)
    assert first.latency_ms == 500
