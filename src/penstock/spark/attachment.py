"""The slow loop of one query: scaling and placing, planned together."""

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
from penstock.errors import PenstockError
from penstock.spark import internals
from penstock.spark.internals import first_line
from penstock.spark.placing import Placing
from penstock.spark.scaling import Scaling

log = logging.getLogger("penstock")

# How often a query is looked at, at most and as a share of the period.
_LOOK_S = 1.0
_LOOKS = 5

Batch = Callable[[DataFrame, int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class AttachStats:
    """What an attachment does.

    Attributes:
        query: name or identity of the query.
        executors: that the application has now.
        wanted: executors that the last plan wants; None before the first one.
        rate_per_s: at which records come; NaN before the first plan.
        pending: records that wait for want of capacity; NaN before the first plan.
        reason: of the last plans.
        distance: load distance of executors at the last plan, in points; NaN if it does not place.
        moved: key groups that have been moved, and have been seen where they should be.
        not_moved: key groups that did not come where they should be.
        dry_run: whether plans are only written down.
        running: whether the loop still runs.
        failures: how often the loop has failed; the query goes on as it is.
        failure: what the last one was.
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


def called(query: StreamingQuery) -> str:
    """Return how a query is called, for people."""
    return str(query.name or query.id)


class Attachment:
    """The slow loop of one query: made by `penstock.attach`.

    Every period executors are planned, those that are too many are marked, key groups are planned
    with these in mind, and what is drained goes: Algorithm 1 of the ALBIC paper. There, balancing
    is tried before scaling; a scaler here looks at all work of a query as if it were balanced.
    """

    _of_query: ClassVar[dict[str, "Attachment"]] = {}
    _starting = threading.Lock()

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        scaling: Scaling | None,
        placing: Placing | None,
        period_s: float,
        dry_run: bool,
        journal: Journal,
    ) -> None:
        self.query = called(query)
        self.dry_run = dry_run
        self.journal = journal
        self._spark = spark
        self._query = query
        self._scaling = scaling
        self._placing = placing
        self._period_s = period_s
        self._due_s = 0.0
        self._failures = 0
        self._failure = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-attach", daemon=True)

    def begin(self) -> "Attachment":
        """Start the loop, if nobody else does the same."""
        cls, key = type(self), str(self._query.id)
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
    def hint_all(cls) -> None:
        """Tell Spark where key groups should run, now that a batch is about to."""
        for one in list(cls._of_query.values()):
            if one.running and one._placing is not None:
                one._try(one._placing.hint)

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
        """Whether the query is active; not if its application has gone."""
        with contextlib.suppress(Exception):
            return bool(self._query.isActive)
        return False

    def stats(self) -> AttachStats:
        """Return what is done now, and why."""
        scale = self._scaling.plan if self._scaling else None
        place = self._placing.plan if self._placing else None
        reasons = [plan.reason for plan in (scale, place) if plan is not None]
        return AttachStats(
            query=self.query,
            executors=len(internals.executors(self._spark)),
            wanted=scale.executors if scale else None,
            rate_per_s=scale.rate_per_s if scale else float("nan"),
            pending=scale.pending if scale else float("nan"),
            reason="; ".join(reasons) or "nothing is planned yet",
            distance=place.distance_before if place else float("nan"),
            moved=self._placing.moved if self._placing else 0,
            not_moved=self._placing.failed if self._placing else 0,
            dry_run=self.dry_run,
            running=self.running,
            failures=self._failures,
            failure=self._failure,
        )

    def detach(self) -> None:
        """End the loop: executors stay as they are, and all instances get records again."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        pause_s = min(_LOOK_S, self._period_s / _LOOKS)
        self._due_s = time.monotonic() + self._period_s
        while not self._stop.wait(pause_s):
            if not self._active:
                self.journal.write("end", query=self.query, reason="the query has ended")
                break
            self._step()
        if self._scaling is not None:
            self._try(self._scaling.release)

    def _try(self, work: Callable[[], T]) -> T | None:
        """Do a part of the work; what fails is told, and the rest goes on, as does the query."""
        try:
            return work()
        except Exception as error:
            self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._failure = f"{type(error).__name__}: {first_line(error)}"
        self.journal.write("failure", query=self.query, reason=self._failure)
        if self._failures == 1:
            log.warning(
                "%s: the loop has failed, executors and key groups stay as they are (%s)",
                self.query,
                self._failure,
            )

    def _step(self) -> None:
        """Look at the query; plan if it is time."""
        due = time.monotonic() >= self._due_s
        if due:
            self._due_s = time.monotonic() + self._period_s
        scaling, placing = self._scaling, self._placing
        if scaling is not None:
            self._try(scaling.look)
            if due:
                self._try(scaling.decide)
        if placing is not None:
            self._try(placing.look)
            if due:
                self._try(lambda: placing.decide(scaling.marked if scaling else frozenset()))
        if scaling is not None and not self._stop.is_set():
            self._try(lambda: scaling.follow(placing.holders() if placing else frozenset()))


def placed(function: Batch) -> Batch:
    """Return a function for `foreachBatch` before which key groups are told where to run.

    Moves that `attach(..., allocate=...)` has planned then hold for the batch at once. Without it
    they are told between batches, again and again until they hold.

    Args:
        function: of a batch and its number, as `foreachBatch` takes it.

    Example:
        >>> def write(batch, number): ...
        >>> placed(write).__name__
        'write'
    """

    def run(batch: DataFrame, number: int) -> Any:  # noqa: ANN401 - whatever it returns
        Attachment.hint_all()
        return function(batch, number)

    run.__name__ = getattr(function, "__name__", "run")
    return run
