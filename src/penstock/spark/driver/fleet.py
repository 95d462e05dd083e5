"""The executors of an application: requested and removed without disturbing a query."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from threading import Thread

import numpy as np
from pyspark.sql import SparkSession

from penstock.errors import first_line
from penstock.spark import internals

log = logging.getLogger("penstock")

# Time in which a surplus executor must be emptied, in multiples of the patience.
_DRAIN = 12
# Executors from which the time until a new one works is known.
_LEADS = 5
# Modules that the tasks of operators import.
_MODULES = "penstock.spark.executor.router", "penstock.spark.executor.work"


class Fleet:
    """Brings an application to a number of executors.

    Python starts on new executors as soon as they have joined, in a small job of its own.
    Executors are removed between two batches of the query: within a batch other tasks may need
    their part of a shuffle. Those that joined last go first, because they hold the least state. An
    executor that other queries keep busy is removed after a while; Spark then runs its tasks again
    elsewhere.

    Args:
        spark: session of the application.
        pause: function that waits for the end of a batch, and returns whether there was one.
        patience_s: time to wait for an executor that other queries keep busy.
    """

    def __init__(self, spark: SparkSession, pause: Callable[[], bool], patience_s: float) -> None:
        self._spark = spark
        self._pause = pause
        self._patience_s = patience_s
        self._aim: int | None = None
        self._since_s = 0.0
        self._leaving: set[str] = set()
        self._known: set[str] = set()
        self._requested_s: float | None = None
        self._starting: dict[str, float] = {}
        self.leads_s: deque[float] = deque(maxlen=_LEADS)

    def executors(self) -> list[str]:
        """Return the executors that are not being removed, the oldest first."""
        there = internals.executors(self._spark)
        self._leaving &= set(there)
        return [one for one in there if one not in self._leaving]

    def joined(self) -> bool:
        """Whether executors have joined since the last call."""
        there = set(self.executors())
        new = there - self._known
        self._known = there
        if self._requested_s is not None and new:
            self._starting.update(dict.fromkeys(new, self._requested_s))
            # A query's batch would have to wait for Python to start.
            Thread(target=self._start_python, args=(new,), daemon=True).start()
        self._measure_leads()
        return bool(new)

    def _start_python(self, new: set[str]) -> None:
        """Start Python on new executors, in a thread of its own."""
        try:
            internals.start_python(self._spark, new, _MODULES)
        except Exception as error:
            log.debug("Python was not started on new executors: %s", first_line(error))

    def _measure_leads(self) -> None:
        """Note how long new executors took from their request until their first task was done.

        That task is mostly the one that starts Python.
        """
        if not self._starting:
            return
        working = internals.executors_at_work(self._spark)
        for one in [one for one in self._starting if one in working or one not in self._known]:
            since_s = self._starting.pop(one)
            if one in working:
                self.leads_s.append(time.monotonic() - since_s)

    @property
    def lead_s(self) -> float:
        """Time from the request of an executor until it works; NaN before the first one."""
        return float(np.median(self.leads_s)) if self.leads_s else math.nan

    def aim(self, total: int) -> bool:
        """Request a number of executors; return whether the cluster accepted the request."""
        if total > max(self._aim or 0, len(self.executors())):
            self._requested_s = time.monotonic()
        self._aim = total
        self._since_s = time.monotonic()
        return internals.request_executors(self._spark, total)

    def surplus(self) -> list[str]:
        """Return the executors above the requested number: those that joined last."""
        return [] if self._aim is None else self.executors()[self._aim :]

    @property
    def leaving(self) -> frozenset[str]:
        """Executors above the requested number, and those that are being removed."""
        return frozenset(self._leaving) | frozenset(self.surplus())

    def approach(self, holders: frozenset[str] = frozenset()) -> list[str]:
        """Remove surplus executors that can go now; return those that still hold state.

        Args:
            holders: executors that should be emptied first. One that still holds state after
                twelve times the patience is removed anyway; Spark reloads that state from the
                checkpoint.
        """
        surplus = self.surplus()[::-1]
        waited_s = time.monotonic() - self._since_s
        if not surplus:
            self._since_s = time.monotonic()
            return []
        full = waited_s > _DRAIN * self._patience_s
        going = [one for one in surplus if full or one not in holders]
        if not going or not self._pause():
            return []
        force = waited_s > self._patience_s
        gone = internals.remove_executors(self._spark, going, force=force)
        self._leaving |= set(gone)
        return [one for one in gone if one in holders]

    @property
    def missing(self) -> int:
        """Number of requested executors that have not joined."""
        return max(0, (self._aim or 0) - len(self.executors()))

    def shrink_to(self, total: int) -> None:
        """Go back to a number of executors at once, if there are more: their query has ended."""
        if self._aim is not None and max(self._aim, len(self.executors())) > total:
            self.aim(total)
            internals.remove_executors(self._spark, self.surplus(), force=True)
