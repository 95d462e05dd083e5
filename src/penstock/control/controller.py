"""The loop of a balanced operator: reports in, snapshots out."""

import secrets
import threading
import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from penstock.control.journal import Journal
from penstock.control.reports import ExecutionReport, Report, RouterReport, unpack_costs
from penstock.control.stats import OperatorStats, Tally, imbalance
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64

# Batches whose snapshots are kept: a task that is run again must route as it did before.
_PINNED = 8
# Batches whose tasks are remembered: a report that comes twice counts once.
_REMEMBERED = 64
# A batch tells how busy instances are if they have executed so many records on average, and an
# instance's speed is that of its executor if it has been there for so many batches.
_TELLING = 50
_STAYED = 8
# What counts as full use of an instance, as batches have no load of their own: they end with the
# busiest one, so it should be as busy as the mean.
_EVEN = 0.8
_SAVED = "penstock-operator"

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """What routers route with.

    Attributes:
        version: different for different contents.
        created_s: when it was made, in seconds since 1970.
        packed: the grouping's snapshot, compressed.
    """

    version: int
    created_s: float
    packed: bytes

    @property
    def data(self) -> bytes:
        """The grouping's snapshot."""
        return zlib.decompress(self.packed)


def _trim(by_batch: OrderedDict[str, T], most: int) -> None:
    while len(by_batch) > most:
        by_batch.popitem(last=False)


class Controller:
    """Feeds the reports of one operator in one query to its grouping, and publishes snapshots.

    Thread safe: routers ask from the threads of the control channel, reports come from another.

    Args:
        name: of the operator, for people.
        query: identity of the query; empty for batch jobs.
        grouping: the policy; the controller's own copy learns.
        journal: where observations and plans are written.
    """

    def __init__(self, name: str, query: str, grouping: Grouping, journal: Journal) -> None:
        self.name = name
        self.query = query
        self.journal = journal
        self._grouping = grouping.clone()
        self._lock = threading.RLock()
        # Routers remember versions: those of another controller must not be taken for its own.
        self._version = secrets.randbits(48)
        self._reports = 0
        self._newest: Snapshot | None = None
        self._pins: OrderedDict[str, Snapshot] = OrderedDict()
        self._seen: OrderedDict[str, set[tuple[str, int]]] = OrderedDict()
        self._tally = Tally(grouping.instances)
        self._busy: OrderedDict[str, Float64] = OrderedDict()
        self._where: list[tuple[str, int]] = [("", 0)] * grouping.instances
        self.unsaved = False

    def snapshot(self, batch: str) -> Snapshot:
        """Return what a batch is routed with: the newest at its first request, then the same."""
        with self._lock:
            if batch not in self._pins:
                if self._newest is None or self._newest.version != self._version:
                    packed = zlib.compress(self._grouping.snapshot(), 1)
                    self._newest = Snapshot(self._version, time.time(), packed)
                self._pins[batch] = self._newest
                _trim(self._pins, _PINNED)
                self._write_plan(batch)
            self._pins.move_to_end(batch)
            return self._pins[batch]

    def _write_plan(self, batch: str) -> None:
        state = self._grouping.state
        reason = f"{self._grouping.instances} instances, {state}, from {self._reports} reports"
        fields = {"operator": self.name, "query": self.query, "batch": batch}
        self.journal.write("plan", **fields, version=self._version, reason=reason)

    def observe(self, report: Report) -> None:
        """Take a report, if it is the first one of its task."""
        with self._lock:
            place = report.place
            tasks = self._seen.setdefault(place.batch, set())
            _trim(self._seen, _REMEMBERED)
            task = type(report).__name__, place.partition
            if task in tasks:
                return
            tasks.add(task)
            if isinstance(report, RouterReport):
                self._routed(report)
            else:
                self._executed(report)

    def _routed(self, report: RouterReport) -> None:
        tally = self._tally
        tally.received += report.records
        tally.router_ms += report.router_ms
        if report.fallback:
            tally.fallbacks += 1
            tally.fallback_reason = report.fallback
            self._write_observation(report, fallback=report.fallback)
        else:
            tally.snapshot_age_ms = report.snapshot_age_ms

    def _executed(self, report: ExecutionReport) -> None:
        instance = report.place.partition
        if instance >= self._grouping.instances:
            return
        expected_ms = 0.0
        feedback = unpack_costs(report.costs, self._grouping, instance)
        if feedback is not None:
            expected_ms = self._grouping.expected_total_ms(feedback)
            self._grouping.observe(feedback)
            self._version += 1
            self._reports += 1
            self.unsaved = True
        tally = self._tally
        tally.batches += report.place.batch not in self._busy
        tally.records[instance] += report.records
        tally.busy_ms[instance] += report.busy_ms
        tally.expected_ms[instance] += expected_ms
        tally.emitted += report.emitted
        busy = self._busy.setdefault(report.place.batch, np.full(self._grouping.instances, np.nan))
        busy[instance] = report.busy_ms
        _trim(self._busy, _PINNED)
        executor, stayed = self._where[instance]
        self._where[instance] = report.executor, stayed + 1 if executor == report.executor else 1
        if not np.isnan(busy).any():
            self._tell_utilization(busy)
        self._write_observation(
            report,
            instance=instance,
            records=report.records,
            busy_ms=round(report.busy_ms, 3),
            expected_ms=round(expected_ms, 3),
            executor=report.executor,
        )

    def _tell_utilization(self, busy_ms: Float64) -> None:
        """Tell the grouping how busy instances were in a batch, if that says how fast they are.

        Spark gives a task to any executor: what an instance does on another one every time says
        nothing about itself, so all must have stayed for a while.
        """
        mean_ms = float(busy_ms.mean())
        batches = max(1, self._tally.batches)
        enough = self._tally.records.sum() >= _TELLING * busy_ms.size * batches
        stayed = min(batches_there for _, batches_there in self._where) >= _STAYED
        if not self._grouping.learns or not enough or not stayed or mean_ms <= 0:
            return
        for instance, ms in enumerate(busy_ms):
            utilization = _EVEN * float(ms) / mean_ms
            self._grouping.observe(Feedback(instance, utilization=utilization))
        self._version += 1
        self.unsaved = True

    def _write_observation(self, report: Report, **fields: object) -> None:
        where = {"operator": self.name, "query": self.query, "batch": report.place.batch}
        self.journal.write("observation", **where, **fields)

    def stats(self) -> OperatorStats:
        """Return what has been counted so far."""
        with self._lock:
            tally = self._tally
            return OperatorStats(
                name=self.name,
                query=self.query,
                state=self._grouping.state,
                batches=tally.batches,
                received=tally.received,
                processed=int(tally.records.sum()),
                emitted=tally.emitted,
                instances=tally.per_instance(),
                imbalance=imbalance(self._last_complete()),
                fallbacks=tally.fallbacks,
                fallback_reason=tally.fallback_reason,
                router_ms=tally.router_ms,
                snapshot_age_ms=tally.snapshot_age_ms,
            )

    def _last_complete(self) -> Float64:
        """Busy times of the newest batch of which all instances have reported."""
        for busy in reversed(self._busy.values()):
            if not np.isnan(busy).any():
                return busy
        return np.zeros(0)

    def save(self) -> bytes:
        """Return all that was learnt, to be kept beyond this process."""
        with self._lock:
            learnt = np.frombuffer(self._grouping.snapshot(), dtype=np.uint8)
            instances = np.array([self._grouping.instances])
            return codec.encode(_SAVED, {"instances": instances, "learnt": learnt})

    def load(self, data: bytes) -> None:
        """Take back what `save` gave, also with another number of instances."""
        state = codec.decode(_SAVED, data)
        try:
            before = self._grouping.clone(instances=int(state["instances"][0]))
            before.restore(state["learnt"].tobytes())
        except (KeyError, TypeError) as error:
            raise PenstockError(f"saved state does not fit {self._grouping!r}: {error}") from None
        before.resize(self._grouping.instances)
        with self._lock:
            self._grouping = before
            self._version += 1
            self.journal.write(
                "plan", operator=self.name, query=self.query, reason="resumed with saved costs"
            )
