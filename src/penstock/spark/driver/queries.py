"""Names and ends of the queries that use operators."""

import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark import internals
from penstock.spark.internals import JvmError

# Queries that are remembered, unless more of them run.
_REMEMBERED = 256


@dataclass(frozen=True)
class QueryState:
    """The state of a query.

    Attributes:
        query: identity of the query.
        name: name of the query; its identity if it has no name.
        active: whether it runs.
        failure: first line of the error that has ended it; empty if there was none.
    """

    query: str
    name: str
    active: bool = True
    failure: str = ""


class Queries:
    """The newest queries of an application that use an operator. Thread safe.

    Spark forgets a query as soon as it ends, and with it the reason. A reference to the query,
    which is taken while it runs, still has both.

    Args:
        spark: any session of the application.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._active = internals.ActiveQueries(spark)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, QueryState] = OrderedDict()
        self._executions: dict[str, Any] = {}
        # In the order in which their ends were seen.
        self._ended: dict[str, None] = {}

    def begin(self, query: str) -> str:
        """Follow a query that has just started, or started again; return its name.

        Args:
            query: identity of the query; empty for a batch job, which has no name.
        """
        if not query:
            return ""
        follows = self._follow(query)
        with self._lock:
            if not follows and query not in self._known:  # it has ended already
                self._remember(QueryState(query, query, active=False))
            name = self._known[query].name
        self._forget_ended()
        return name

    def _follow(self, query: str) -> bool:
        """Follow a query; return whether it runs."""
        try:
            execution = internals.execution_of(self._spark, query)
            name = internals.name_of(execution) or query
        except JvmError:
            return False
        if execution is None:
            return False
        with self._lock:
            self._remember(QueryState(query, name))
            self._executions[query] = execution
        return True

    def _remember(self, state: QueryState) -> None:
        """Remember the newest state of a query. The caller holds the lock."""
        self._known[state.query] = state
        self._known.move_to_end(state.query)
        self._ended.pop(state.query, None)
        if not state.active:
            self._ended[state.query] = None

    def _forget_ended(self) -> None:
        """Forget the queries that ended first, above a number; those that run are all kept."""
        if len(self._known) <= _REMEMBERED:
            return
        self.states()  # sees which have ended
        with self._lock:
            for query in [*self._ended][: max(0, len(self._known) - _REMEMBERED)]:
                del self._known[query], self._ended[query]

    def follow_all(self) -> None:
        """Follow all queries of the application that run, with operators or without."""
        try:
            active = self._active.now()
        except JvmError:
            return  # the application stops
        with self._lock:
            followed = set(self._executions)
        for query in sorted(active - followed):
            self._follow(query)  # unless it has just ended
        self._forget_ended()

    def progress(self) -> dict[str, dict[str, Any]]:
        """Return the newest progress of each followed query; of one that has just ended, too."""
        with self._lock:
            followed = dict(self._executions)
        found = {}
        for query, execution in followed.items():
            with contextlib.suppress(JvmError):  # the application stops
                progress = internals.newest_progress(execution)
                if progress is not None:
                    found[query] = progress
        return found

    def states(self) -> list[QueryState]:
        """Return the states of all queries, the oldest first."""
        with self._lock:
            followed = dict(self._executions)
        failures = self._failures(followed)
        with self._lock:
            for query, failure in failures.items():
                if self._executions.get(query) is followed[query]:  # not started again meanwhile
                    del self._executions[query]
                    ended = replace(self._known[query], active=False, failure=failure)
                    self._known[query] = ended
                    self._ended[query] = None
            return list(self._known.values())

    def _failures(self, followed: dict[str, Any]) -> dict[str, str]:
        """Return the failures of queries that have ended; empty texts for those without one."""
        if not followed:
            return {}
        try:
            active = self._active.now()
        except JvmError:
            return {}  # the application stops
        return {
            query: internals.failure_of(execution)
            for query, execution in followed.items()
            if query not in active
        }
