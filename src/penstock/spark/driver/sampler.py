"""Looks at an application once a second, and keeps an hour of it."""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.control import Controller, OperatorStats
from penstock.control.history import History
from penstock.control.newest import trim
from penstock.errors import first_line
from penstock.spark import internals
from penstock.spark.driver.attachment import Attachment, AttachStats
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.overview import stats_of
from penstock.spark.driver.queries import Queries, QueryState
from penstock.spark.driver.query_sensor import reads_files, records_behind

log = logging.getLogger("penstock")

EVERY_S = 1.0
# Time for which the backlog of a query is not read again.
_BACKLOG_S = 10.0
# Numbers of a query of which an hour is kept.
CURVES = (
    "duration_ms",
    "rate_per_s",
    "backlog",
    "latency_ms",
    "waiting_ms",
    "shed_share",
    "executors",
    "wanted",
)
# Queries of which an hour is kept, the newest ones.
_KEPT = 64


@dataclass(frozen=True)
class BatchNow:
    """The newest batch of a query, from Spark's progress; NaN for unknown numbers.

    Attributes:
        timestamp: start of the newest trigger, as Spark writes it.
        batch: number of the newest batch with records; -1 before it.
        duration_ms: duration of that batch.
        rate_per_s: rate at which records arrived before the newest trigger.
        backlog: number of records that wait in the sources, as far as it is known.
        latency_ms: estimated mean time from the arrival of a record to the end of its batch.
    """

    timestamp: str = ""
    batch: int = -1
    duration_ms: float = math.nan
    rate_per_s: float = math.nan
    backlog: float = math.nan
    latency_ms: float = math.nan

    def followed_by(self, progress: dict[str, Any], backlog: float) -> "BatchNow":
        """Return the state after newer progress.

        A record waits on average for half of the time between two triggers, then for the backlog
        in front of it, then for its batch. A trigger without records changes neither duration nor
        latency.

        Args:
            progress: newest progress of the query.
            backlog: number of records that wait in the sources.

        Example:
            >>> progress = {"timestamp": "t", "batchId": 3, "numInputRows": 100,
            ...     "inputRowsPerSecond": 50.0, "processedRowsPerSecond": 100.0,
            ...     "durationMs": {"triggerExecution": 1000}}
            >>> BatchNow().followed_by(progress, backlog=200.0).latency_ms
            4000.0
        """
        rows = float(progress["numInputRows"])
        seen = replace(self, timestamp=str(progress["timestamp"]), backlog=backlog)
        if not rows:
            return replace(seen, rate_per_s=0.0)
        duration_ms = float(progress["durationMs"].get("triggerExecution", math.nan))
        rate_per_s = float(progress.get("inputRowsPerSecond") or math.nan)
        done_per_s = float(progress.get("processedRowsPerSecond") or math.nan)
        half_ms = 0.0 if math.isnan(rate_per_s) else 500 * rows / rate_per_s
        waiting_ms = 1000 * backlog / done_per_s if backlog else 0.0
        return replace(
            seen,
            batch=int(progress["batchId"]),
            duration_ms=duration_ms,
            rate_per_s=rate_per_s,
            latency_ms=duration_ms + half_ms + waiting_ms,
        )


@dataclass(frozen=True)
class Moment:
    """An application at one moment.

    Attributes:
        time_s: time, in seconds since 1970.
        queries: all queries, the oldest first.
        batches: newest batch of each query, by its identity.
        operators: stats of operators, by the identity of their query.
        attached: stats of attachments, by the identity of their query.
    """

    time_s: float = 0.0
    queries: tuple[QueryState, ...] = ()
    batches: dict[str, BatchNow] = field(default_factory=dict)
    operators: dict[str, list[OperatorStats]] = field(default_factory=dict)
    attached: dict[str, AttachStats] = field(default_factory=dict)


class Sampler:
    """Looks at an application once a second, on a thread of its own.

    `now` is replaced as a whole. `histories` grows only on the thread of the sampler; `lock` guards
    it.

    Args:
        spark: any session of the application.
        ended: function that returns whether Spark has been stopped.
    """

    def __init__(self, spark: SparkSession, ended: Callable[[], bool]) -> None:
        self.now = Moment()
        self.lock = threading.Lock()
        self.histories: OrderedDict[str, History] = OrderedDict()
        self._spark = spark
        self._ended = ended
        self._queries = Queries(spark)
        self._batches: OrderedDict[str, BatchNow] = OrderedDict()
        self._operators: OrderedDict[str, list[OperatorStats]] = OrderedDict()
        self._backlog_due_s: OrderedDict[str, float] = OrderedDict()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-sampler", daemon=True)

    def begin(self) -> None:
        """Look for the first time, and start the thread."""
        self._try()
        self._thread.start()

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S) and not self._ended():
            self._try()

    def _try(self) -> None:
        try:
            self.look()
        except Exception as error:
            # An application that stops meanwhile must not print a traceback.
            log.debug("the dashboard keeps its last numbers: %s", first_line(error))

    def look(self) -> None:
        """Look at the application now."""
        self._queries.follow_all()
        progress = self._queries.progress()
        plane = ControlPlane.running(self._spark)
        operators = self._operators_of(plane.controllers() if plane is not None else [])
        known = plane.queries.states() if plane is not None else []
        states = {one.query: one for one in (*known, *self._queries.states())}
        if "" in operators:
            states[""] = QueryState("", "batch jobs")
        attached = {one.identity: stats_of(one) for one in Attachment.all()}
        for query, found in progress.items():
            self._follow(query, found)
        moment = Moment(
            time_s=time.time(),
            queries=tuple(states.values()),
            batches=dict(self._batches),
            operators=operators,
            attached={query: one for query, one in attached.items() if one is not None},
        )
        self._remember(moment)
        self.now = moment

    def _operators_of(self, controllers: Iterable[Controller]) -> dict[str, list[OperatorStats]]:
        """Return the stats of operators by query.

        Of several with the same names the newest one counts. Closed operators keep their last
        numbers.
        """
        newest = {(one.query, one.name): one for one in controllers}
        found: dict[str, list[OperatorStats]] = {}
        for (query, _), controller in newest.items():
            found.setdefault(query, []).append(controller.stats())
        self._operators.update(found)
        trim(self._operators, 4 * _KEPT)
        return dict(self._operators)

    def _follow(self, query: str, progress: dict[str, Any]) -> None:
        before = self._batches.get(query, BatchNow())
        if str(progress["timestamp"]) != before.timestamp:
            backlog = self._backlog(query, progress, before.backlog)
            self._batches[query] = before.followed_by(progress, backlog)
            self._batches.move_to_end(query)
            trim(self._batches, 4 * _KEPT)

    def _backlog(self, query: str, progress: dict[str, Any], known: float) -> float:
        """Return the backlog; that of file sources is kept for a while, as it is slow to read."""
        now_s = time.monotonic()
        slow = any(reads_files(one) for one in progress["sources"])
        if slow and not math.isnan(known) and now_s < self._backlog_due_s.get(query, 0.0):
            return known
        self._backlog_due_s[query] = now_s + _BACKLOG_S
        trim(self._backlog_due_s, 4 * _KEPT)
        try:
            return records_behind(self._spark, query, progress)
        except (internals.JvmError, AttributeError):
            return math.nan  # the query has just ended

    def _remember(self, moment: Moment) -> None:
        with self.lock:
            for one in moment.queries:
                if one.active and one.query:
                    history = self.histories.setdefault(one.query, History(CURVES))
                    history.add(moment.time_s, _row(moment, one.query))
                    self.histories.move_to_end(one.query)
            trim(self.histories, _KEPT)


def _row(moment: Moment, query: str) -> list[float]:
    """Return the numbers of a query at a moment, in the order of `CURVES`."""
    batch = moment.batches.get(query, BatchNow())
    attached = moment.attached.get(query)
    waiting_ms = shed_share = math.nan
    for one in moment.operators.get(query, []):
        if one.target_ms is not None and one.last is not None:
            waiting_ms = one.last.waiting_ms
            shed_share = one.last.shed / one.last.received if one.last.received else math.nan
    return [
        batch.duration_ms,
        batch.rate_per_s,
        batch.backlog,
        batch.latency_ms,
        waiting_ms,
        shed_share,
        math.nan if attached is None else attached.executors,
        math.nan if attached is None or attached.wanted is None else attached.wanted,
    ]
