"""What a running query tells of itself: its batches, its sources, the time of its tasks."""

import contextlib
import math
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Controller
from penstock.control.timeline import Look, Running, Work
from penstock.spark import internals
from penstock.spark.driver import Driver

# Batches in which tasks may have to start Python on executors that have just come: the one in
# which they came, and the next.
_WARM_UP = 2


class QuerySensor:
    """Reads the progress of a query, and turns it into looks for a timeline.

    What records cost is the time of all tasks. Those on executors that have just come first have
    to start Python and to compile: what they do besides a balanced operator's function, which
    measures itself, is then taken to cost as much as before.

    Args:
        spark: the session.
        query: a streaming query that is active.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark = spark
        self._query = str(query.id)
        self._tasks = TaskTime(spark, str(query.runId))
        self._timestamp = ""
        self._batch = -1
        self._batch_rows = 0.0
        self._warming = _WARM_UP
        self._rows = self._rest_ms = self._reported_ms = 0.0
        self._usual_ms = self._usual_rows = 0.0

    def controllers(self) -> list[Controller]:
        """Return what controls the query's balanced operators, in the order they were made."""
        driver = Driver.running(self._spark)
        return driver.controllers_of(self._query) if driver is not None else []

    def executors_joined(self) -> None:
        """Hear that there are new executors."""
        self._warming = _WARM_UP

    def running(self, active: bool) -> Running:
        """Return what the running batch has read, if its routers have told.

        They are those of the first balanced operator, which may get a part of the rows only.
        """
        balanced = self.controllers()
        if not balanced or self._batch < 0:
            return Running(active)
        before, _ = balanced[0].received(str(self._batch))
        now, began_s = balanced[0].received(str(self._batch + 1))
        return Running(active, now * self._batch_rows / before if before else 0.0, began_s)

    def looks(self) -> list[Look]:
        """Return what has happened since the last call."""
        told = internals.progress_after(self._spark, self._query, self._timestamp)
        if not told:
            return []
        self._timestamp = str(told[-1]["timestamp"])
        for one in told:
            if one["numInputRows"]:
                self._batch, self._batch_rows = int(one["batchId"]), float(one["numInputRows"])
        operators = {one.name: one.work() for one in self.controllers()}
        self._count(sum(float(one["numInputRows"]) for one in told), operators)
        busy_ms = self._rest_ms + self._reported_ms
        # What was done is known for now: that is the end of the last one.
        work = Work(self._rows, self._rows, busy_ms) if self._rows else None
        *earlier, last = told
        return [*(self._look(one, None, {}) for one in earlier), self._look(last, work, operators)]

    def _count(self, rows: float, operators: dict[str, Work]) -> None:
        """Count rows, and the time of tasks that no balanced operator accounts for."""
        reported_ms = sum(one.busy_ms for one in operators.values())
        new_ms, self._reported_ms = reported_ms - self._reported_ms, reported_ms
        rest_ms = max(0.0, self._tasks.new_ms() - new_ms)
        if not rows:
            return
        if self._warming:
            self._warming -= 1
            if not self._usual_rows and not operators:
                return  # nothing is known yet of what records cost
            rest_ms = rows * self._usual_ms / self._usual_rows if self._usual_rows else 0.0
        else:
            self._usual_ms += rest_ms
            self._usual_rows += rows
        self._rows += rows
        self._rest_ms += rest_ms

    def _look(self, told: dict[str, Any], work: Work | None, operators: dict[str, Work]) -> Look:
        return Look(
            began_s=datetime.fromisoformat(told["timestamp"]).timestamp(),
            taken_s=float(told["durationMs"].get("triggerExecution", 0)) / 1000,
            rows=float(told["numInputRows"]),
            behind=sum(self._behind(i, one) for i, one in enumerate(told["sources"])),
            work=work,
            state_bytes=sum(float(one["memoryUsedBytes"]) for one in told["stateOperators"]),
            operators=operators,
        )

    def _behind(self, number: int, source: dict[str, Any]) -> float:
        """Return how many records a source still has to give, as far as it tells."""
        if str(source["description"]).startswith("FileStreamSource"):
            end = source["endOffset"]
            if not isinstance(end, dict) or "logOffset" not in end:
                return 0.0
            # Another Spark may keep its files elsewhere: then nothing is known of them.
            with contextlib.suppress(Py4JError, TypeError):
                batches = internals.unread_files(
                    self._spark, self._query, number, int(end["logOffset"])
                )
                return batches * float(source["numInputRows"])
            return 0.0
        return offsets_behind(source)


class TaskTime:
    """How long tasks of a query's run have worked.

    Args:
        spark: the session.
        run: of the query; also the group of its jobs.
    """

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._spark = spark
        self._run = run
        self._last = max(internals.jobs_after(spark, run, -1), default=-1)
        self._running: list[int] = []
        self._stage = -1

    def new_ms(self) -> float:
        """Return the time of tasks of all jobs that have ended since the last call."""
        jobs = self._running + internals.jobs_after(self._spark, self._run, self._last)
        self._last = max([self._last, *jobs])
        self._running = []
        total_ms = 0.0
        for job in jobs:
            # Spark forgets old jobs and stages: they count for nothing then.
            with contextlib.suppress(Py4JError):
                done = internals.job_done(self._spark, job)
                if done is None:
                    self._running.append(job)
                    continue
                # Jobs of a batch may share stages; numbers only grow.
                for stage in done.stages:
                    if stage > self._stage:
                        total_ms += internals.task_ms(self._spark, stage)
                self._stage = max([self._stage, *done.stages])
        return total_ms


def offsets_behind(source: dict[str, Any]) -> float:
    """Return by how many records a source is behind that tells offsets by topic and partition.

    Example:
        >>> offsets_behind({"latestOffset": {"t": {"0": 9, "1": 7}}, "endOffset": {"t": {"0": 4}}})
        12.0
    """
    latest: Any = source.get("latestOffset")
    end: Any = source.get("endOffset")
    try:
        return math.fsum(
            max(0.0, float(offset) - float(end.get(topic, {}).get(partition, 0)))
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    except (AttributeError, TypeError, ValueError):
        return 0.0  # offsets of another kind
