"""The dashboard in a real browser: Debian's chromium and its driver."""

import math
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from browsing import choose, fields, leave, picture, until
from flows import NUMBERED, WAIT_S, drop, some_files, source

import penstock
from penstock.control import BatchStats, InstanceStats, OperatorStats
from penstock.spark.driver.attachment import AttachStats
from penstock.spark.driver.pages import PUBLIC, pages
from penstock.spark.driver.placement import StatePlaces
from penstock.spark.driver.queries import QueryState
from penstock.spark.driver.sampler import BatchNow, Moment, Sampler
from penstock.spark.driver.shown import Shown, _places
from penstock.spark.driver.web import Served

pytestmark = pytest.mark.spark

HOSTILE = "<img src=x onerror=document.title='stolen'><script>alert(1)</script>"
TOKEN = "0123456789abcdef"  # noqa: S105 - of this test only


def test_queries_that_end_and_fail_and_their_numbers(spark, tmp_path, browser):
    def copied(record):
        return [record, record]

    def broken(record):
        raise ValueError("no such <b>entity</b>")

    drop(tmp_path / "in", *some_files(3, 20))
    queries = {}
    with penstock.dashboard() as served:
        browser.get(served.url)
        operators = []
        for function, name in ((copied, f"ends {HOSTILE}"), (broken, "fails")):
            op = penstock.balance(function, key="entity", schema=NUMBERED, instances=2)
            operators.append(op)
            stream = source(spark, tmp_path / "in").transform(op).writeStream.format("noop")
            stream = stream.option("checkpointLocation", str(tmp_path / function.__name__))
            query = stream.queryName(name).trigger(availableNow=True).start()
            queries[function] = str(query.id)
            query._jsq.awaitTermination(WAIT_S * 1000) if function is copied else fails(query)
        stats = operators[0].stats()
        assert (stats.batches, stats.processed, stats.emitted) == (3, 60, 120)
        choose(browser, queries[copied])
        until(
            browser,
            """const shown = document.querySelector('[data-field="batches"]');
               return shown?.textContent === "3"
                 && document.querySelector('[data-part="head"] .state.ended') !== null""",
        )
        shown = fields(browser, "article")
        for name in ("batches", "received", "processed", "shed", "failed", "emitted", "fallbacks"):
            assert shown[name] == [str(getattr(stats, name)), f"{getattr(stats, name):,}"]
        assert float(shown["imbalance"][0]) == stats.imbalance
        assert shown["active instances"][1] == "2 of 2"
        titles = browser.execute_script(
            """return [...document.querySelectorAll("rect.bar")].map((one) => one.textContent)"""
        )
        assert [one.rsplit(", ", 1)[1] for one in titles] == [
            f"{records} records" for records in stats.last.records
        ]
        heading = browser.execute_script("return document.getElementById('chosen').textContent")
        assert heading == f"ends {HOSTILE}"
        choose(browser, queries[broken])
        until(browser, "return document.querySelector('[data-part=head] .state.failed') !== null")
        alerts = until(browser, "return document.getElementById('alerts').innerText")
        assert "the query has failed" in alerts
        assert "query.exception() has the whole error" in alerts
        assert browser.execute_script("return document.images.length") == 0
        assert leave(browser) == []


def fails(query):
    with pytest.raises(Exception, match="no such"):
        query.awaitTermination(WAIT_S)


def operator(name, query, *, target_ms=None, warnings=(), fallbacks=0):
    busy_ms = tuple(900.0 + 40 * ((7 * i) % 11) + (600 if i == 5 else 0) for i in range(8))
    last = BatchStats(
        "211",
        4_000,
        320 if target_ms else 0,
        4_000,
        430.0 if target_ms else math.nan,
        duration_ms=1_700.0,
        busy_ms=busy_ms,
        records=tuple(range(480, 560, 10)),
    )
    return OperatorStats(
        name=name,
        query=query,
        state="RUN",
        batches=212,
        received=848_000,
        shed=12_345 if target_ms else 0,
        processed=848_000 - (12_345 if target_ms else 0),
        emitted=848_000,
        instances=tuple(InstanceStats(1, ms, ms) for ms in busy_ms),
        active=8,
        imbalance=0.37,
        fallbacks=fallbacks,
        fallback_reason="driver:4040 does not answer" if fallbacks else "",
        router_ms=100.0,
        snapshot_age_ms=12.0,
        waiting_ms=410.0,
        slowdowns={"1": 1.0, "2": 0.96, HOSTILE: 1.83},
        last=last,
        warnings=tuple(warnings),
        target_ms=target_ms,
    )


ATTACHED = AttachStats(
    query="orders",
    executors=3,
    wanted=4,
    rate_per_s=2_150.0,
    pending=5_400.0,
    reason="orders: critical, forecast 2,400 records/s against a capacity of 2,000, 3 -> 4",
    distance=14.2,
    moved=17,
    not_moved=1,
    dry_run=False,
    running=True,
    failures=0,
    failure="",
)
PLACES = StatePlaces(
    where={(0, i): str(1 + i % 3) for i in range(24)},
    moving={(0, 0): "4", (0, 4): "4"},
    speeds={"1": 1.0, "2": 1.1, "3": 0.7},
    distance=14.2,
    expected=3.1,
)
HOT_KEYS = [
    {"key": f"{n:016x}", "name": name, "share": 0.4 - 0.1 * n, "cost_ms": 30.0 - 8 * n}
    for n, name in enumerate(["Berlin, 10115", HOSTILE, None])
]


def moment(queries):
    """A moment of an application with many queries; two of them have ended."""
    states = [QueryState(f"q{i}", f"query {i}") for i in range(queries)]
    states[0] = QueryState("q0", "orders")
    states[1] = QueryState("q1", HOSTILE)
    states[2] = replace(states[2], active=False)
    states[3] = replace(states[3], active=False, failure=f"no such entity {HOSTILE}")
    return Moment(
        time_s=time.time(),
        queries=tuple(states),
        batches={
            one.query: BatchNow("t", 211, 1_700.0 + 13 * i, 2_150.0 + i, 5_400.0, 3_200.0)
            for i, one in enumerate(states)
        },
        operators={
            "q0": [operator("enrich", "q0", target_ms=500.0, warnings=["a <b>warning</b>"])],
            "q1": [operator("copy", "q1", fallbacks=3, warnings=[f"warned of {HOSTILE}"])],
        },
        attached={"q0": ATTACHED},
    )


@contextmanager
def served_moment(spark, queries, token=None):
    """A page of a made-up moment, with a history of an hour."""
    sampler = Sampler(spark, lambda: False)
    sampler.now = moment(queries)
    for second in range(3_600):
        wave = 1 + 0.4 * math.sin(second / 200) + 0.1 * math.sin(second / 7)
        batches = {
            query: replace(one, duration_ms=one.duration_ms * wave, backlog=5_400 * wave)
            for query, one in list(sampler.now.batches.items())[:2]
        }
        past = replace(
            sampler.now,
            time_s=sampler.now.time_s - 3_600 + second,
            queries=sampler.now.queries[:2],
            batches=batches,
        )
        sampler._remember(past)
    shown = Shown(spark, sampler)

    def answer(query, span_s):
        found = shown.answer(query, span_s)
        if found["selected"]["attached"] is not None:
            found["selected"]["attached"]["state"] = _places(PLACES)
        for one in found["selected"]["operators"]:
            one["hot_keys"] = HOT_KEYS
        return found

    with Served(
        pages(answer),
        lambda: False,
        port=0,
        host="127.0.0.1",
        token=token,
        path="/",
        public=PUBLIC,
    ) as served:
        yield served


def test_fifty_queries_with_hostile_names(spark, browser):
    with served_moment(spark, 50) as served:
        browser.get(served.url)
        rows = until(
            browser,
            """const rows = document.querySelectorAll("#queries tbody tr");
               return rows.length && [...rows].map((one) => one.querySelector("button").textContent)
            """,
        )
        assert len(rows) == 50
        assert HOSTILE in rows
        states = browser.execute_script(
            """return [...document.querySelectorAll("#queries .state")]
                 .map((one) => one.textContent)"""
        )
        assert states[-2:] == ["failed, 1 warning", "ended"]
        attached = fields(browser, "#attached")
        assert attached["executors now"] == ["3", "3"]
        assert attached["wanted"] == ["4", "4"]
        assert attached["load distance"] == ["14.2", "14.2 points"]
        assert attached["reason"][1] == ATTACHED.reason
        groups = browser.execute_script(
            """return [...document.querySelectorAll("[data-executor]")].map((one) =>
                 [one.dataset.executor, one.querySelectorAll("i").length,
                  one.querySelectorAll("i.leaving").length])"""
        )
        assert groups == [["1", 8, 1], ["2", 8, 1], ["3", 8, 0], ["4", 0, 0]]
        assert fields(browser, "[data-operator=enrich]")["target"] == ["500", "500 ms"]
        for theme in ("light", "dark"):
            browser.execute_script(
                """if (document.documentElement.dataset.theme !== arguments[0])
                     document.getElementById("theme").click()""",
                theme,
            )
            picture(browser, f"dashboard-{theme}")
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= browser.execute_script("return window.innerWidth")
        choose(browser, "q1")
        text = browser.execute_script("return document.body.innerText")
        assert f"warned of {HOSTILE}" in text
        assert [HOSTILE in text.split("Hot keys")[1], f"{2:016x}" in text] == [True, True]
        assert "Last fallback: driver:4040 does not answer" in text
        assert browser.execute_script("return document.images.length") == 0
        assert "Penstock" in browser.title
        assert leave(browser) == []


def test_the_page_asks_for_the_token(spark, browser):
    with served_moment(spark, 4, token=TOKEN) as served:
        browser.get(f"{served.url}?typed")
        until(browser, "return !document.getElementById('login').hidden")
        assert browser.execute_script("return document.getElementById('main').hidden")
        browser.execute_script(
            """document.getElementById("token").value = arguments[0];
               document.querySelector("#login button").click()""",
            TOKEN,
        )
        until(browser, "return !document.getElementById('main').hidden")
        browser.get(f"{served.url}#token={TOKEN}")
        until(browser, "return !document.getElementById('main').hidden")
        assert TOKEN not in browser.current_url
        refused = leave(browser)  # the browser logs each answer without numbers
        assert all("401" in one["message"] for one in refused)
