"""The slow loop of one query: scaling and placement, planned together."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Journal
from penstock.errors import PenstockError, first_line
from penstock.spark import internals
from penstock.spark.driver.placement import QueryPlacement, StatePlaces
from penstock.spark.driver.query_sensor import name_of_query
from penstock.spark.driver.scaling import QueryScaling
from penstock.spark.driver.web import Served

log = logging.getLogger("penstock")

# Longest time between two looks at a query, and looks in a period.
_LOOK_S = 1.0
_LOOKS = 5

Batch = Callable[[DataFrame, int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class AttachStats:
    """The state of an attachment.

    Attributes:
        query: name or identity of the query.
        executors: number of executors that the application has now.
        wanted: number of executors in the last plan; None before the first one.
        rate_per_s: rate at which records arrive; NaN before the first plan.
        pending: number of records that wait for capacity; NaN before the first plan.
        reason: reasons of the last plans.
        distance: load distance of executors at the last plan, in points; NaN without a placer.
        moved: number of key groups that have moved and have run on the planned executor.
        not_moved: number of key groups that did not reach the planned executor.
        dry_run: whether plans are written to the journal only.
        running: whether the loop still runs.
        failures: number of failures of the loop; the query goes on unchanged.
        failure: message of the last failure.
        behind: number of records that sources with offsets, such as Kafka, hold unread; NaN
            without such a source, without a scaler, and before the first batch has ended.
        lag_s: age in seconds of the oldest of these records; NaN in the same cases.
        lead_s: median time in seconds from the request of an executor until it works; NaN before
            the first one, and without a scaler.
    """

    query: str
    executors: int
    wanted: int | None
    rate_per_s: float
    pending: float
    reason: str
    distance: float
    moved: int
    not_moved: int
    dry_run: bool
    running: bool
    failures: int
    failure: str
    behind: float = float("nan")
    lag_s: float = float("nan")
    lead_s: float = float("nan")


class Attachment:
    """The slow loop of one query: made by `penstock.attach`.

    Every period executors are planned, surplus ones are marked, key groups are planned with these
    marks, and empty executors are removed: Algorithm 1 of the ALBIC paper. The paper tries to
    balance before it scales; a scaler here sees the whole work of a query as if it were balanced.

    Args:
        spark: session of the query.
        query: active streaming query.
        scaling: scaling of the query; None scales nothing.
        placement: placement of the query; None places nothing.
        period_s: time between two plans.
        dry_run: whether plans are written to the journal only.
        journal: journal of the attachment.

    Attributes:
        dashboard: live page that ends with the attachment; None without one.
    """

    _of_query: ClassVar[dict[str, "Attachment"]] = {}
    _starting = threading.Lock()

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        *,
        scaling: QueryScaling | None,
        placement: QueryPlacement | None,
        period_s: float,
        dry_run: bool,
        journal: Journal,
    ) -> None:
        self.query = name_of_query(query)
        self.identity = str(query.id)
        self.dry_run = dry_run
        self.journal = journal
        self.dashboard: Served | None = None
        self._spark = spark
        self._query = query
        self._scaling = scaling
        self._placement = placement
        self._period_s = period_s
        self._due_s = 0.0
        self._failures = 0
        self._failure = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-attach", daemon=True)

    def begin(self) -> "Attachment":
        """Start the loop; refuse a second one for the same query or the same executors."""
        cls, key = type(self), self.identity
        with cls._starting:
            cls._of_query = {k: one for k, one in cls._of_query.items() if one.running}
            if key in cls._of_query:
                raise PenstockError(
                    f"query {self.query} is attached already; penstock.detach(query) first"
                )
            other = next((one.query for one in cls._of_query.values() if one.scales), None)
            if other is not None and self.scales:
                raise PenstockError(
                    f"query {other} already scales this application, whose executors are shared by "
                    "its queries; detach it first, or use dry_run=True"
                )
            cls._of_query[key] = self
            self._thread.start()
        return self

    @classmethod
    def of(cls, query: StreamingQuery) -> "Attachment | None":
        """Return the running attachment of a query."""
        found = cls._of_query.get(str(query.id))
        return found if found is not None and found.running else None

    @classmethod
    def all(cls) -> list["Attachment"]:
        """Return all attachments: those that run, and those that have ended lately."""
        return list(cls._of_query.values())

    @classmethod
    def hint_all(cls) -> None:
        """Give Spark the hints of all moves, just before a batch runs."""
        for one in list(cls._of_query.values()):
            if one.running and one._placement is not None:
                one._try(one._placement.hint)

    @property
    def scales(self) -> bool:
        """Whether it adds and removes executors."""
        return self._scaling is not None and not self.dry_run

    @property
    def running(self) -> bool:
        """Whether the loop runs: until the query ends or it is detached."""
        return self._thread.is_alive() and not self._stop.is_set() and self._active

    @property
    def _active(self) -> bool:
        """Whether the query is active; False if its application has stopped."""
        with contextlib.suppress(Exception):
            return bool(self._query.isActive)
        return False

    def stats(self) -> AttachStats:
        """Return the present state, and the reasons of the last plans."""
        scale = self._scaling.plan if self._scaling else None
        place = self._placement.plan if self._placement else None
        reasons = [plan.reason for plan in (scale, place) if plan is not None]
        return AttachStats(
            query=self.query,
            executors=len(internals.executors(self._spark)),
            wanted=scale.executors if scale else None,
            rate_per_s=scale.rate_per_s if scale else float("nan"),
            pending=scale.pending if scale else float("nan"),
            reason="; ".join(reasons) or "no plan yet",
            distance=place.distance_before if place else float("nan"),
            moved=self._placement.moved if self._placement else 0,
            not_moved=self._placement.not_moved if self._placement else 0,
            dry_run=self.dry_run,
            running=self.running,
            failures=self._failures,
            failure=self._failure,
            behind=self._scaling.behind if self._scaling else float("nan"),
            lag_s=self._scaling.lag_s if self._scaling else float("nan"),
            lead_s=self._scaling.lead_s if self._scaling else float("nan"),
        )

    def places(self) -> StatePlaces | None:
        """Return where the state of the query lives; None without a placer."""
        return self._placement.places() if self._placement is not None else None

    def detach(self) -> None:
        """End the loop: executors stay as they are, and all instances get records again.

        Its dashboard, if it has one, ends, too.
        """
        if self.dashboard is not None:
            self.dashboard.close()
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        pause_s = min(_LOOK_S, self._period_s / _LOOKS)
        self._due_s = time.monotonic() + self._period_s
        ended = False
        while not ended and not self._stop.wait(pause_s):
            ended = not self._active
            if ended:
                self.journal.write("end", query=self.query, reason="the query has ended")
            else:
                self._step()
        scaling = self._scaling
        if scaling is not None:
            self._try(lambda: scaling.release(ended=ended))

    def _try(self, work: Callable[[], T]) -> T | None:
        """Do a part of the work; report a failure, and go on with the rest.

        After the end of Spark there is nobody to report to.
        """
        try:
            return work()
        except Exception as error:
            if not internals.is_stopped(self._spark):
                self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._failure = f"{type(error).__name__}: {first_line(error)}"
        self.journal.write("failure", query=self.query, reason=self._failure)
        if self._failures == 1:
            log.warning(
                "%s: the loop has failed, executors and key groups stay unchanged (%s)",
                self.query,
                self._failure,
            )

    def _step(self) -> None:
        """Look at the query; plan if the period is over."""
        due = time.monotonic() >= self._due_s
        if due:
            self._due_s = time.monotonic() + self._period_s
        scaling, placement = self._scaling, self._placement
        if scaling is not None:
            self._try(scaling.look)
            if due:
                self._try(scaling.decide)
        if placement is not None:
            self._try(placement.look)
            if due:
                self._try(lambda: placement.decide(scaling.marked if scaling else frozenset()))
        if scaling is not None and not self._stop.is_set():
            self._try(lambda: scaling.follow(placement.holders() if placement else frozenset()))


def with_placement(function: Batch) -> Batch:
    """Return a function for `foreachBatch` that first gives Spark the hints of planned moves.

    The moves of `attach(..., place=...)` then hold for the next batch. Without this function
    Penstock gives hints between batches, and repeats them until they hold.

    Args:
        function: function of a batch and its number, as `foreachBatch` takes it.

    Example:
        >>> def write(batch, number): ...
        >>> with_placement(write).__name__
        'write'
    """

    def run(batch: DataFrame, number: int) -> Any:  # noqa: ANN401 - the user's result
        Attachment.hint_all()
        return function(batch, number)

    run.__name__ = getattr(function, "__name__", "run")
    return run
