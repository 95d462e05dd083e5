"""The loop of a balanced operator: reports in, snapshots out."""

import math
import secrets
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.control.batches import Batch, trim
from penstock.control.journal import Journal
from penstock.control.policies import Policies
from penstock.control.reports import ExecutionReport, Report, RouterReport, unpack_costs
from penstock.control.snapshots import Snapshot, read_pin
from penstock.control.stats import OperatorStats, Tally
from penstock.control.timeline import Work
from penstock.control.utilization import Utilization
from penstock.control.warnings import Warnings, about_batch, about_router
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64

# Batches whose snapshots are kept: a task that is run again must route as it did before.
_PINNED = 8
# Batches whose tasks are remembered: a report that comes twice counts once.
_REMEMBERED = 64
_SAVED = "penstock-operator"


class Controller:
    """Feeds the reports of one operator in one query to its policies, and publishes snapshots.

    Thread safe: routers ask from the threads of the control channel, reports come from another.

    Args:
        name: of the operator, for people.
        query: identity of the query; empty for batch jobs.
        policies: of the operator; the controller's own copies learn.
        journal: where observations and plans are written.
        keep: called with what a batch is decided with, before its routers know.
        in_front: whether it only sheds, in front of operators that report nothing: batches are
            then known by how long they take.
    """

    def __init__(
        self,
        name: str,
        query: str,
        policies: Policies,
        journal: Journal,
        keep: Callable[[bytes], None] | None = None,
        in_front: bool = False,
    ) -> None:
        self.name = name
        self.query = query
        self.journal = journal
        self.instances = self.active = policies.grouping.instances
        self._policies = policies.clone()
        self._keep = keep
        self._in_front = in_front
        self._lock = threading.RLock()
        # Routers remember versions: those of another controller must not be taken for its own.
        self._version = secrets.randbits(48)
        self._reports = 0
        self._newest: Snapshot | None = None
        self._pins: OrderedDict[str, Snapshot] = OrderedDict()
        self._seen: OrderedDict[str, set[tuple[str, int]]] = OrderedDict()
        self._tally = Tally(self.instances)
        self._batches: OrderedDict[str, Batch] = OrderedDict()
        self._routed = np.zeros(0)
        self._utilization = Utilization(self.instances)
        self._warnings = Warnings(name)
        self.unsaved = False

    def snapshot(self, batch: str) -> Snapshot:
        """Return what a batch is routed with: the newest at its first request, then the same."""
        with self._lock:
            if batch not in self._pins:
                if self._newest is None or self._newest.version != self._version:
                    packed = zlib.compress(self._policies.snapshot(), 1)
                    self._newest = Snapshot(self._version, time.time(), packed)
                total = self._routed.sum()
                shares = tuple(map(float, self._routed / total)) if total else ()
                pinned = replace(
                    self._newest, began_s=time.time(), shares=shares, instances=self.active
                )
                if self._keep is not None:
                    self._keep(pinned.pin(batch))
                self._pin(batch, pinned)
                self._write_plan(batch)
            self._pins.move_to_end(batch)
            return self._pins[batch]

    def load_pin(self, data: bytes) -> None:
        """Decide about a batch once more as it was decided before a restart."""
        batch, snapshot = read_pin(data)
        instances = snapshot.instances or self.instances
        if instances > self.instances:
            raise PenstockError(f"it is for {instances} instances, and there are {self.instances}")
        fitting = self._policies.clone(instances)
        fitting.restore(snapshot.data)  # refuses what does not fit
        with self._lock:
            # A version of its own: routers remember what they have by it.
            self._pin(batch, replace(snapshot, version=self._version))
            self._version += 1

    def _pin(self, batch: str, snapshot: Snapshot) -> None:
        self._pins[batch] = snapshot
        trim(self._pins, _PINNED)

    def _write_plan(self, batch: str) -> None:
        states = ", ".join(one.state for one in self._policies.all)
        reason = f"{self.active} instances, {states}, from {self._reports} reports"
        self._write("plan", batch=batch, version=self._version, reason=reason)

    def _write(self, kind: str, **fields: object) -> None:
        self.journal.write(kind, operator=self.name, query=self.query, **fields)

    def activate(self, instances: int) -> None:
        """Give records to the first instances only, from the next batch on.

        A grouping that does not learn asks nobody how many there are: it goes on with all of them.
        """
        with self._lock:
            active = min(max(1, instances), self.instances)
            if active == self.active or not self._policies.learns:
                return
            self._policies.resize(active)
            self._changed()
            self._write("plan", reason=f"{self.active} -> {active} active instances")
            self.active = active

    def observe(self, report: Report) -> None:
        """Take a report, if it is the first one of its task."""
        with self._lock:
            place = report.place
            tasks = self._seen.setdefault(place.batch, set())
            trim(self._seen, _REMEMBERED)
            task = type(report).__name__, place.partition
            if task in tasks:
                return
            tasks.add(task)
            batch = self._batches.get(place.batch)
            if batch is None:
                self._close_empty()
                batch = self._batches[place.batch] = Batch(self.instances)
                self._forget_old()
                self._tally.batches += self._in_front
            if isinstance(report, RouterReport):
                self._routed_by(report, batch)
            elif place.partition < self.instances:
                self._executed(report, batch)

    def _close_empty(self) -> None:
        """Close batches before a new one of which everything was shed: nobody else will."""
        for number, batch in self._batches.items():
            if batch.settled and not batch.complete and not self._in_front:
                batch.busy_ms[:] = 0
                self._tally.batches += 1
                self._complete(number, batch)

    def _forget_old(self) -> None:
        """Keep the newest batches; what never became complete is in no count of a shedder's."""
        while len(self._batches) > _PINNED:
            _, old = self._batches.popitem(last=False)
            if self._policies.shedder is not None and not self._in_front and not old.settled:
                self._tally.received -= old.received
                self._tally.shed -= old.shed
                self._tally.incomplete += old.processed

    def _routed_by(self, report: RouterReport, batch: Batch) -> None:
        tally = self._tally
        batch.add_router(report)
        tally.received += report.records
        tally.shed += report.shed
        if self._in_front:
            tally.records[0] += report.records - report.shed
        tally.router_ms += report.router_ms
        if report.fallback:
            tally.fallbacks += 1
            tally.fallback_reason = report.fallback
            self._write("observation", batch=report.place.batch, fallback=report.fallback)
        else:
            tally.snapshot_age_ms = report.snapshot_age_ms
        for kind, message in about_router(report):
            self.warn(kind, message)

    def _executed(self, report: ExecutionReport, batch: Batch) -> None:
        instance = report.place.partition
        expected_ms = self._learn(report, instance)
        tally = self._tally
        tally.batches += bool(np.isnan(batch.busy_ms).all())
        batch.add_instance(report)
        tally.records[instance] += report.records
        tally.busy_ms[instance] += report.busy_ms
        tally.expected_ms[instance] += expected_ms
        tally.emitted += report.emitted
        tally.waited_ms += report.waited_ms
        tally.waits += report.waits
        self._utilization.ran(instance, report.executor)
        if batch.complete:
            self._complete(report.place.batch, batch)
        self._write(
            "observation",
            batch=report.place.batch,
            instance=instance,
            records=report.records,
            busy_ms=round(report.busy_ms, 3),
            expected_ms=round(expected_ms, 3),
            executor=report.executor,
        )

    def finished(self, number: str, duration_ms: float) -> None:
        """Learn how long a batch took whose operators report nothing."""
        with self._lock:
            batch = self._batches.get(number)
            if batch is None or batch.complete:
                return
            self._tally.busy_ms[0] += duration_ms
            batch.busy_ms[:] = duration_ms
            batch.processed = batch.received - batch.shed
            self._complete(number, batch)

    def _learn(self, report: ExecutionReport, instance: int) -> float:
        """Learn measured costs; return what the policies expected."""
        measuring = self._policies.measuring
        feedback = unpack_costs(report.costs, measuring, instance)
        if feedback is None or instance >= self.active:
            return 0.0
        expected_ms = measuring.expected_total_ms(feedback)
        self._policies.observe(feedback)
        self._changed()
        self._reports += 1
        return expected_ms

    def _changed(self) -> None:
        self._version += 1
        self.unsaved = True

    def _complete(self, number: str, batch: Batch) -> None:
        """Learn from a batch as a whole."""
        self._tell_utilization(batch.busy_ms[: self._active_in(number)])
        if self._policies.shedder is None:
            return
        self._follow_routers(batch)
        if batch.processed:
            # What nobody has measured is taken to be as planned.
            measured = batch.waits > 0
            feedback = Feedback(
                0,
                waited_ms=batch.waiting_ms * batch.processed if measured else batch.planned_ms,
                records=batch.processed,
                planned_ms=batch.planned_ms,
                # Policies know how many instances there are now, not how many there were.
                busy_ms=float(batch.busy_ms.sum()) / self.active,
            )
            self._policies.shedder.observe(feedback)
            self._changed()
        self._judge(number, batch)
        counts = {"received": batch.received, "shed": batch.shed, "processed": batch.processed}
        waiting = round(batch.waiting_ms, 3) if batch.waits else None
        self._write("observation", batch=number, **counts, waiting_ms=waiting)

    def _active_in(self, number: str) -> int:
        """Return how many instances got records of a batch."""
        pinned = self._pins.get(number)
        return (pinned.instances if pinned else 0) or self.active

    def _follow_routers(self, batch: Batch) -> None:
        """Follow how records are spread over routers: each gets its share of the capacity."""
        width = max(batch.routed, default=-1) + 1
        if not batch.received:
            return
        routed = np.zeros(width)
        for router, records in batch.routed.items():
            routed[router] = records
        # Nobody is left without a share: it may have more to route the next time.
        routed += routed.sum() / width / 20
        before = self._routed if self._routed.size == width else routed
        self._routed = (before + routed) / 2

    def _judge(self, number: str, batch: Batch) -> None:
        """Say so if the target cannot hold."""
        target = self._policies.shedder.target if self._policies.shedder else None
        if target is not None:
            for kind, message in about_batch(number, batch, target):
                self.warn(kind, message)

    def warn(self, kind: str, message: str) -> None:
        """Tell people, once for each kind in the log, and keep the newest for the stats."""
        with self._lock:
            self._warnings.add(kind, message)
            self._write("warning", reason=message)

    def _tell_utilization(self, busy_ms: Float64) -> None:
        """Tell the grouping how busy instances were in a batch, if that means something."""
        if not self._policies.grouping.learns or busy_ms.size != self.active:
            return
        records_per_batch = float(self._tally.records.sum()) / max(1, self._tally.batches)
        told = self._utilization.of_batch(busy_ms, records_per_batch)
        for feedback in told:
            self._policies.grouping.observe(feedback)
        if told:
            self._changed()

    def stats(self) -> OperatorStats:
        """Return what has been counted so far."""
        with self._lock:
            tally = self._tally
            number, batch = self._last_complete()
            received, shed, processed = self._counts()
            if batch is not None and not batch.complete:
                self._judge(number, batch)
            waiting_ms = tally.waited_ms / tally.waits if tally.waits else math.nan
            return OperatorStats(
                name=self.name,
                query=self.query,
                state=self._policies.all[-1].state,
                batches=tally.batches,
                received=received,
                shed=shed,
                processed=processed,
                emitted=tally.emitted,
                instances=tally.per_instance(),
                active=self.active,
                imbalance=batch.imbalance(self._active_in(number)) if batch else 0.0,
                fallbacks=tally.fallbacks,
                fallback_reason=tally.fallback_reason,
                router_ms=tally.router_ms,
                snapshot_age_ms=tally.snapshot_age_ms,
                waiting_ms=waiting_ms,
                last=batch.stats(number) if batch else None,
                warnings=self._warnings.all(),
            )

    def work(self) -> Work:
        """Return what has been done so far, for a timeline."""
        with self._lock:
            tally = self._tally
            done = float(tally.records.sum())
            return Work(done, float(tally.emitted), float(tally.busy_ms.sum()))

    def received(self, batch: str) -> tuple[int, float | None]:
        """Return how many records of a batch routers have reported, and when it began (s)."""
        with self._lock:
            found, pinned = self._batches.get(batch), self._pins.get(batch)
            rows = found.received if found is not None else 0
            return rows, pinned.began_s if pinned is not None else None

    def _counts(self) -> tuple[int, int, int]:
        """Return records received, shed and processed: received = processed + shed.

        Of an operator that sheds only complete batches count: of others it is not yet known.
        """
        received, shed, processed = self._tally.received, self._tally.shed, self._tally.processed
        if self._policies.shedder is None or self._in_front:
            return received, shed, processed
        for batch in self._batches.values():
            if not batch.settled:
                received -= batch.received
                shed -= batch.shed
                processed -= batch.processed
        return received, shed, processed

    def _last_complete(self) -> tuple[str, Batch | None]:
        """Return the newest batch of which everything is known."""
        for number, batch in reversed(self._batches.items()):
            if batch.settled:
                return number, batch
        return "", None

    def save(self) -> bytes:
        """Return all that was learnt, to be kept beyond this process."""
        with self._lock:
            learnt = np.frombuffer(self._policies.snapshot(), dtype=np.uint8)
            instances = np.array([self.active])
            arrays = {"instances": instances, "learnt": learnt, "routed": self._routed}
            return codec.encode(_SAVED, arrays)

    def load(self, data: bytes) -> None:
        """Take back what `save` gave, also with another number of instances."""
        state = codec.decode(_SAVED, data)
        try:
            before = self._policies.clone(instances=int(state["instances"][0]))
            before.restore(state["learnt"].tobytes())
        except (KeyError, TypeError) as error:
            raise PenstockError(f"saved state does not fit {self._policies!r}: {error}") from None
        before.resize(self.active)
        if before.shedder is not None:
            before.shedder.restart()
        with self._lock:
            self._policies = before
            self._routed = state.get("routed", self._routed)
            self._version += 1
            self._write("plan", reason="resumed with saved costs")
