"""Reads the progress of a query: its batches, its sources, the run time of its tasks."""

import contextlib
import math
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Controller
from penstock.control.fixed_costs import RecordTime
from penstock.control.lag import Offsets, Skew, SourceLag
from penstock.control.timeline import Look, Running, Work
from penstock.spark import internals
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.internals import JvmError

# Batches in which tasks may have to start Python on executors that have just joined: the one in
# which they joined, and the next.
_WARM_UP = 2
_POLL_S = 0.02


def name_of_query(query: StreamingQuery) -> str:
    """Return the name of a query, for people; its identity if it has no name."""
    return str(query.name or query.id)


class QuerySensor:
    """Reads the progress of a query, and turns it into looks for a timeline.

    The cost of records has two parts. Balanced operators measure their own time. The run time of
    all other tasks counts as far as it grows with records, if it is the larger part (`RecordTime`).
    Tasks on executors that have just joined first start Python and compile. In such batches that
    other run time is assumed to be as before.

    Args:
        spark: session of the query.
        query: active streaming query.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark = spark
        self._query = str(query.id)
        self._run = str(query.runId)
        self._tasks = TaskTime(spark, str(query.runId))
        self._timestamp = ""
        self._batch = -1
        self._batch_rows = 0.0
        self._warming = _WARM_UP
        self._rows = self._rest_ms = self._reported_ms = 0.0
        self._slots = 0
        self._lags: dict[int, SourceLag] = {}
        self._begun = False
        self.rest = RecordTime()

    @property
    def behind(self) -> float:
        """Number of unread records of all sources with offsets, at the last look; else NaN."""
        return math.fsum(one.records for one in self._lags.values()) if self._lags else math.nan

    @property
    def lag_s(self) -> float:
        """Age of the oldest unread record of all sources with offsets, at the last look."""
        return max((one.seconds for one in self._lags.values()), default=math.nan)

    def skewed(self) -> list[Skew]:
        """Return partitions of sources that get far more records than the others."""
        return [skew for one in self._lags.values() for skew in one.skewed()]

    def controllers(self) -> list[Controller]:
        """Return the controllers of the query's operators, in the order of registration."""
        plane = ControlPlane.running(self._spark)
        return plane.controllers_of(self._query) if plane is not None else []

    def executors(self, slots: int, *, joined: bool) -> None:
        """Note the slots of the query's executors, and whether executors have joined."""
        self._slots = slots
        if joined:
            self._warming = _WARM_UP

    def running(self, active: bool) -> Running:
        """Return how much the running batch has read, as far as its routers have reported.

        The routers are those of the first balanced operator, which may get only some of the rows.
        """
        balanced = self.controllers()
        if not balanced or self._batch < 0:
            return Running(active)
        before, _ = balanced[0].received(str(self._batch))
        now, began_s = balanced[0].received(str(self._batch + 1))
        return Running(active, now * self._batch_rows / before if before else 0.0, began_s)

    def wait_for_pause(self, seconds: float) -> bool:
        """Wait until the query is between two batches; return whether it is."""
        end_s = time.monotonic() + seconds
        before = internals.newest_batch(self._spark, self._query)
        while time.monotonic() < end_s:
            if not internals.is_busy(self._spark, self._query):
                return True
            ended = internals.newest_batch(self._spark, self._query) > before
            if ended and not internals.has_running_job(self._spark, self._run):
                return True
            time.sleep(_POLL_S)
        return False

    def looks(self) -> list[Look]:
        """Return the looks since the last call."""
        news = internals.progress_after(self._spark, self._query, self._timestamp)
        if not news:
            return []
        self._timestamp = str(news[-1]["timestamp"])
        for one in news:
            if one["numInputRows"]:
                self._batch, self._batch_rows = int(one["batchId"]), float(one["numInputRows"])
        operators = {one.name: one.work() for one in self.controllers()}
        usual = not self._warming
        self._count(sum(float(one["numInputRows"]) for one in news), operators)
        busy_ms = self._rest_ms + self._reported_ms
        # The work done is known up to now, which is the end of the last look.
        work = Work(self._rows, self._rows, busy_ms) if self._rows else None
        *earlier, last = news
        looks = [self._look(one, None, {}) for one in earlier]
        looks.append(self._look(last, work, operators))
        return [replace(one, slots=self._slots, usual=usual) for one in looks]

    def _count(self, rows: float, operators: dict[str, Work]) -> None:
        """Count rows, and the run time of tasks outside of balanced operators."""
        reported_ms = sum(one.busy_ms for one in operators.values())
        new_ms, self._reported_ms = reported_ms - self._reported_ms, reported_ms
        run = self._tasks.new()
        rest_ms = max(0.0, run.ms - new_ms)
        if not rows:
            return
        if self._warming:
            self._warming -= 1
        else:
            self.rest.add(rows, rest_ms, tasks=run.tasks)
        rest_ms = self.rest.beside(rows, new_ms)
        if math.isnan(rest_ms):
            if not operators:
                return  # the cost of records is still unknown
            rest_ms = 0.0
        self._rows += rows
        self._rest_ms += rest_ms

    def _look(
        self, progress: dict[str, Any], work: Work | None, operators: dict[str, Work]
    ) -> Look:
        began_s = datetime.fromisoformat(progress["timestamp"]).timestamp()
        for number, source in enumerate(progress["sources"]):
            latest, end = offsets_of(source) or ({}, {})
            if latest:
                self._lags.setdefault(number, SourceLag()).add(began_s, latest, end)
        return Look(
            began_s=began_s,
            taken_s=float(progress["durationMs"].get("triggerExecution", 0)) / 1000,
            rows=float(progress["numInputRows"]),
            behind=records_behind(self._spark, self._query, progress),
            work=work,
            state_bytes=sum(float(one["memoryUsedBytes"]) for one in progress["stateOperators"]),
            operators=operators,
            read_s=self._read_s(progress),
        )

    def _read_s(self, progress: dict[str, Any]) -> float | None:
        """Return when the records of the first batch of this run were read.

        The batch may be one that a run before this one began. Its offsets were logged then.
        """
        if self._begun or not progress["numInputRows"]:
            return None
        self._begun = True
        with contextlib.suppress(JvmError, KeyError, TypeError, ValueError):
            return internals.batch_began_s(self._spark, self._query, int(progress["batchId"]))
        return None


class TaskTime:
    """The run time of a query's tasks.

    Args:
        spark: session of the query.
        run: identity of the query's run; also the group of its jobs.
    """

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._spark = spark
        self._run = run
        self._last = max(internals.jobs_after(spark, run, -1), default=-1)
        self._running: list[int] = []
        self._stage = -1

    def new(self) -> internals.RunTime:
        """Return the run time of tasks of all jobs that have ended since the last call."""
        jobs = self._running + internals.jobs_after(self._spark, self._run, self._last)
        self._last = max([self._last, *jobs])
        self._running = []
        found: list[internals.RunTime] = []
        for job in jobs:
            # Spark forgets old jobs and stages; they then count as 0.
            with contextlib.suppress(JvmError):
                done = internals.job_done(self._spark, job)
                if done is None:
                    self._running.append(job)
                    continue
                # Jobs of a batch may share stages, whose numbers only grow.
                new = [stage for stage in done.stages if stage > self._stage]
                found += [internals.run_time(self._spark, stage) for stage in new]
                self._stage = max([self._stage, *done.stages])
        return internals.RunTime(sum(one.ms for one in found), sum(one.tasks for one in found))


def reads_files(source: dict[str, Any]) -> bool:
    """Whether a source, as progress describes it, reads files."""
    return str(source["description"]).startswith("FileStreamSource")


def records_behind(spark: SparkSession, query: str, progress: dict[str, Any]) -> float:
    """Return the backlog of a query's sources in records, as far as it is known.

    Args:
        spark: any session of the application.
        query: identity of the active query.
        progress: newest progress of the query.
    """
    return math.fsum(
        _unread(spark, query, number, source=one) if reads_files(one) else offsets_behind(one)
        for number, one in enumerate(progress["sources"])
    )


def _unread(spark: SparkSession, query: str, number: int, *, source: dict[str, Any]) -> float:
    """Return the records of the files that a file source has not read."""
    end = source["endOffset"]
    if not isinstance(end, dict) or "logOffset" not in end:
        return 0.0
    # Another version of Spark may keep its files elsewhere: then they are unknown.
    with contextlib.suppress(JvmError, TypeError):
        batches = internals.unread_files(
            spark, query, source=number, log_offset=int(end["logOffset"])
        )
        return batches * float(source["numInputRows"])
    return 0.0


def offsets_behind(source: dict[str, Any]) -> float:
    """Return the backlog of a source that reports offsets by topic and partition.

    Example:
        >>> offsets_behind({"latestOffset": {"t": {"0": 9, "1": 7}}, "endOffset": {"t": {"0": 4}}})
        12.0
    """
    found = offsets_of(source)
    if found is None:
        return 0.0
    latest, end = found
    return math.fsum(max(0.0, offset - end.get(one, 0.0)) for one, offset in latest.items())


def offsets_of(source: dict[str, Any]) -> tuple[Offsets, Offsets] | None:
    """Return the newest and the reached offsets of a source; None if it has others.

    Example:
        >>> offsets_of({"latestOffset": {"t": {"0": 9}}, "endOffset": {"t": {"0": 4}}})
        ({('t', '0'): 9.0}, {('t', '0'): 4.0})
    """
    latest: Any = source.get("latestOffset")
    end: Any = source.get("endOffset")
    try:
        newest = {(t, p): float(n) for t, parts in latest.items() for p, n in parts.items()}
        # Only topics that still exist count.
        reached = {
            (t, p): float(n)
            for t in latest.keys() & end.keys()
            for p, n in end[t].items()
            if (t, p) in newest
        }
    except (AttributeError, TypeError, ValueError):
        return None  # offsets of another kind
    return newest, reached
