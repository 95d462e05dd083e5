"""What a running query tells of itself: its batches, its sources, the time of its tasks."""

import contextlib
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Controller
from penstock.control.timeline import Look, Work
from penstock.spark import internals
from penstock.spark.driver import Driver

# What stands for all of a query that has no balanced operators.
WHOLE = "query"


class QuerySensor:
    """Reads the progress of a query, and turns it into looks for a timeline.

    The work of a balanced operator is what its instances report. All other time of tasks (reading,
    routing, other operators, the sink) goes to the first one; in a query without balanced
    operators it is all there is. Tasks on executors that have just come first have to start
    Python and to compile: what they do besides is then taken to cost as much as before.

    Args:
        spark: the session.
        query: a streaming query that is active.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark = spark
        self._query = str(query.id)
        self._tasks = TaskTime(spark, str(query.runId))
        self._timestamp = ""
        self._warming = True
        self._rows = self._rest_ms = 0.0
        self._usual_ms = self._usual_rows = self._reported_ms = 0.0

    def controllers(self) -> list[Controller]:
        """Return what controls the query's balanced operators, in the order they were made."""
        driver = Driver.running(self._spark)
        return driver.controllers_of(self._query) if driver is not None else []

    def executors_joined(self) -> None:
        """Hear that there are new executors."""
        self._warming = True

    def looks(self) -> list[Look]:
        """Return what has happened since the last call."""
        told = internals.progress_after(self._spark, self._query, self._timestamp)
        if not told:
            return []
        self._timestamp = str(told[-1]["timestamp"])
        self._count(sum(float(one["numInputRows"]) for one in told))
        work = self._work()
        # Only the end of the last one is now: what was done is known for that.
        return [
            self._look(one, work if number == len(told) else {})
            for number, one in enumerate(told, start=1)
        ]

    def _count(self, rows: float) -> None:
        """Count rows, and the time of tasks that no balanced operator accounts for."""
        total_ms = self._tasks.new_ms()
        balanced = self.controllers()
        reported_ms = sum(one.work().busy_ms for one in balanced)
        rest_ms = max(0.0, total_ms - (reported_ms - self._reported_ms))
        self._reported_ms = reported_ms
        if not rows:
            return
        if self._warming:
            if not self._usual_rows and not balanced:
                self._warming = False
                return  # nothing is known yet of what records cost
            rest_ms = rows * self._usual_ms / self._usual_rows if self._usual_rows else 0.0
            self._warming = False
        else:
            self._usual_ms += rest_ms
            self._usual_rows += rows
        self._rows += rows
        self._rest_ms += rest_ms

    def _work(self) -> dict[str, Work]:
        balanced = self.controllers()
        if not balanced:
            return {WHOLE: Work(self._rows, self._rows, self._rest_ms)}
        found = {}
        for number, one in enumerate(balanced):
            done = one.work()
            more_ms = self._rest_ms if number == 0 else 0.0
            found[one.name] = Work(done.processed, done.emitted, done.busy_ms + more_ms)
        return found

    def _look(self, told: dict[str, Any], work: dict[str, Work]) -> Look:
        return Look(
            began_s=datetime.fromisoformat(told["timestamp"]).timestamp(),
            taken_s=float(told["durationMs"].get("triggerExecution", 0)) / 1000,
            rows=float(told["numInputRows"]),
            behind=sum(self._behind(i, one) for i, one in enumerate(told["sources"])),
            work=work,
            state_bytes=sum(float(one["memoryUsedBytes"]) for one in told["stateOperators"]),
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
        self._stages: set[int] = set()

    def new_ms(self) -> float:
        """Return the time of tasks of all jobs that have ended since the last call."""
        jobs = self._running + internals.jobs_after(self._spark, self._run, self._last)
        self._last = max([self._last, *jobs])
        self._running = []
        total_ms = 0.0
        for job in jobs:
            # Spark forgets old jobs and stages: they count for nothing then.
            with contextlib.suppress(Py4JError):
                stages = internals.stages_of(self._spark, job)
                if stages is None:
                    self._running.append(job)
                    continue
                for stage in set(stages) - self._stages:
                    self._stages.add(stage)
                    total_ms += internals.task_ms(self._spark, stage)
        return total_ms


def offsets_behind(source: dict[str, Any]) -> float:
    """Return by how many records a source is behind that tells offsets by topic and partition.

    Example:
        >>> offsets_behind({"latestOffset": {"t": {"0": 9, "1": 7}}, "endOffset": {"t": {"0": 4}}})
        12.0
    """
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not isinstance(latest, dict) or not isinstance(end, dict):
        return 0.0
    behind = 0.0
    for topic, partitions in latest.items():
        if not isinstance(partitions, dict):
            return 0.0
        read = end.get(topic) or {}
        behind += sum(max(0.0, float(n) - float(read.get(p, 0))) for p, n in partitions.items())
    return behind
