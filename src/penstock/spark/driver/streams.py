"""The streaming queries to which tasks belong, also those that do not know their query."""

import json
import logging
import threading
from collections import OrderedDict
from dataclasses import replace

from pyspark.sql import SparkSession

from penstock.control.newest import trim
from penstock.control.reports import Packed, TaskId
from penstock.errors import first_line
from penstock.spark import internals
from penstock.spark.internals import JvmError

log = logging.getLogger("penstock")

_EXECUTION = "execution "
# Executions and queries that are remembered.
_REMEMBERED = 256


class Streams:
    """Finds the query, the batch and the run of tasks. Thread safe.

    A thread that a user starts inside of `foreachBatch` does not pass on the identity of its query.
    The tasks of its jobs know their SQL execution only.

    Args:
        spark: any session of the application.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        # Query and batch of an execution; None for a batch job.
        self._found: OrderedDict[str, tuple[str, str] | None] = OrderedDict()
        self._runs: OrderedDict[str, str] = OrderedDict()
        # Queries of the runs that another run has followed.
        self._ended: OrderedDict[str, str] = OrderedDict()

    def resolved(self, task: TaskId) -> TaskId:
        """Return the identity of a task with its query, batch and run, if it has a query."""
        found = self._with_query(task)
        if self.has_ended(found.run):
            return found
        run = self.run_of(found.query, found.run)
        # The last reports of a query may arrive after its end.
        return replace(found, run=run or found.run or self._runs.get(found.query, ""))

    def _with_query(self, task: TaskId) -> TaskId:
        if task.query or not task.batch.startswith(_EXECUTION):
            return task
        with self._lock:
            if task.batch not in self._found:
                number = int(task.batch.removeprefix(_EXECUTION))
                try:
                    self._found[task.batch] = internals.stream_of(self._spark, number)
                except JvmError as error:
                    log.debug("the query of %s is unknown: %s", task.batch, first_line(error))
                    return task
                trim(self._found, _REMEMBERED)
            found = self._found[task.batch]
        return task if found is None else replace(task, query=found[0], batch=found[1])

    def task_of(self, report: Packed) -> TaskId | None:
        """Return the task of a report while its job still runs: later its run is unknown.

        What is no report has no task.
        """
        try:
            return self.resolved(TaskId(**json.loads(report[0])["task"]))
        except (KeyError, TypeError, ValueError):
            return None

    def run_of(self, query: str, run: str = "") -> str:
        """Return the run of an active query; empty if it is unknown.

        Args:
            query: identity of the query; empty for a batch job.
            run: run that a task of the query has named; it is probably the active one.
        """
        if not query or self._runs.get(query) == run != "":
            return self._runs.get(query, "")
        try:
            active = internals.run_of(self._spark, query)
        except JvmError:
            return ""
        with self._lock:
            before = self._runs.get(query)
            if active in self._ended:  # another thread has heard of the next run meanwhile
                return before or ""
            if active and before and before != active:
                self._ended[before] = query
                trim(self._ended, _REMEMBERED)
            if active or not before:
                self._runs[query] = active
                trim(self._runs, _REMEMBERED)
        return active

    def is_running(self, query: str, batches: set[str]) -> bool | None:
        """Return whether some batches run; None if nobody knows.

        Args:
            query: identity of their query; empty for batch jobs.
            batches: names of the batches.
        """
        if query:
            return bool(self.run_of(query))
        numbers = [one.removeprefix(_EXECUTION) for one in batches if one.startswith(_EXECUTION)]
        try:
            if any(internals.is_running(self._spark, int(number)) for number in numbers):
                return True
        except JvmError:
            return None  # the application stops
        return False if len(numbers) == len(batches) else None

    def has_ended(self, run: str) -> bool:
        """Whether another run of the same query has followed this one."""
        return run in self._ended

    def ended_of(self, query: str) -> set[str]:
        """Return the runs of a query that others have followed, as far as they are remembered."""
        with self._lock:
            return {run for run, of in self._ended.items() if of == query}
