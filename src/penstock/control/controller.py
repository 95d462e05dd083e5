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
from penstock.control.stats import OperatorStats, Tally, imbalance
from penstock.control.warnings import Warnings
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.feedback import Feedback
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
        self.instances = policies.grouping.instances
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
        self._where: list[tuple[str, int]] = [("", 0)] * self.instances
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
                pinned = replace(self._newest, began_s=time.time(), shares=shares)
                if self._keep is not None:
                    self._keep(pinned.pin(batch))
                self._pin(batch, pinned)
                self._write_plan(batch)
            self._pins.move_to_end(batch)
            return self._pins[batch]

    def load_pin(self, data: bytes) -> None:
        """Decide about a batch once more as it was decided before a restart."""
        batch, snapshot = read_pin(data)
        self._policies.clone().restore(snapshot.data)  # refuses what does not fit
        with self._lock:
            # A version of its own: routers remember what they have by it.
            self._pin(batch, replace(snapshot, version=self._version))
            self._version += 1

    def _pin(self, batch: str, snapshot: Snapshot) -> None:
        self._pins[batch] = snapshot
        trim(self._pins, _PINNED)

    def _write_plan(self, batch: str) -> None:
        states = ", ".join(one.state for one in self._policies.all)
        reason = f"{self.instances} instances, {states}, from {self._reports} reports"
        fields = {"operator": self.name, "query": self.query, "batch": batch}
        self.journal.write("plan", **fields, version=self._version, reason=reason)

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
            self._write_observation(report, fallback=report.fallback)
        else:
            tally.snapshot_age_ms = report.snapshot_age_ms
        where = f"records of batch {report.place.batch}"
        if report.undated:
            self.warn(
                "undated",
                f"{report.undated:,} {where} have no time of arrival; they count as if they had "
                "just arrived",
            )
        if report.early:
            self.warn(
                "early",
                f"{report.early:,} {where} arrive in the future: the clocks of the source and of "
                "the driver differ; they count as if they had just arrived",
            )

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
        executor, stayed = self._where[instance]
        self._where[instance] = report.executor, stayed + 1 if executor == report.executor else 1
        if batch.complete:
            self._complete(report.place.batch, batch)
        self._write_observation(
            report,
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
        if feedback is None:
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
        self._tell_utilization(batch.busy_ms)
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
                busy_ms=float(batch.busy_ms.mean()),
            )
            self._policies.shedder.observe(feedback)
            self._changed()
        self._judge(number, batch)
        fields = {"operator": self.name, "query": self.query, "batch": number}
        counts = {"received": batch.received, "shed": batch.shed, "processed": batch.processed}
        waiting = round(batch.waiting_ms, 3) if batch.waits else None
        self.journal.write("observation", **fields, **counts, waiting_ms=waiting)

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
        if target is None or not batch.received:
            return
        late = batch.waits and batch.waiting_ms > target.limit_ms
        if late and batch.protected == batch.received:
            self.warn(
                "protected",
                f"all records of batch {number} are protected; the target "
                f"({target}) cannot hold as nothing may be shed",
            )
        if batch.shed == batch.received:
            self.warn(
                "all shed",
                f"all {batch.received:,} records of batch {number} were shed: "
                f"they had waited too long for the target ({target}) when it began",
            )

    def warn(self, kind: str, message: str) -> None:
        """Tell people, once for each kind in the log, and keep the newest for the stats."""
        with self._lock:
            self._warnings.add(kind, message)
            self.journal.write("warning", operator=self.name, query=self.query, reason=message)

    def _tell_utilization(self, busy_ms: Float64) -> None:
        """Tell the grouping how busy instances were in a batch, if that says how fast they are.

        Spark gives a task to any executor: what an instance does on another one every time says
        nothing about itself, so all must have stayed for a while.
        """
        mean_ms = float(busy_ms.mean())
        batches = max(1, self._tally.batches)
        enough = self._tally.records.sum() >= _TELLING * busy_ms.size * batches
        stayed = min(batches_there for _, batches_there in self._where) >= _STAYED
        grouping = self._policies.grouping
        if not grouping.learns or not enough or not stayed or mean_ms <= 0:
            return
        for instance, ms in enumerate(busy_ms):
            utilization = _EVEN * float(ms) / mean_ms
            grouping.observe(Feedback(instance, utilization=utilization))
        self._changed()

    def _write_observation(self, report: Report, **fields: object) -> None:
        where = {"operator": self.name, "query": self.query, "batch": report.place.batch}
        self.journal.write("observation", **where, **fields)

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
                imbalance=imbalance(batch.busy_ms) if batch and batch.complete else 0.0,
                fallbacks=tally.fallbacks,
                fallback_reason=tally.fallback_reason,
                router_ms=tally.router_ms,
                snapshot_age_ms=tally.snapshot_age_ms,
                waiting_ms=waiting_ms,
                last=batch.stats(number) if batch else None,
                warnings=self._warnings.all(),
            )

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
            instances = np.array([self.instances])
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
        before.resize(self.instances)
        if before.shedder is not None:
            before.shedder.restart()
        with self._lock:
            self._policies = before
            self._routed = state.get("routed", self._routed)
            self._version += 1
            self.journal.write(
                "plan", operator=self.name, query=self.query, reason="resumed with saved costs"
            )
