"""The driver's side: one for an application, for all its balanced operators."""

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark import Accumulator
from pyspark.sql import SparkSession

from penstock.control import Controller, Journal, Policies, Snapshot
from penstock.control.reports import Packed, unpack
from penstock.errors import PenstockError
from penstock.spark import internals
from penstock.spark.channel import ControlServer
from penstock.spark.internals import first_line
from penstock.spark.spill import Spill
from penstock.spark.tasks import MAILBOXES, ReportParam, Reports

log = logging.getLogger("penstock")

# Costs are saved when nothing has been reported for a moment, and at the latest after a while.
_IDLE_S = 0.5
_SAVE_S = 2.0


@dataclass
class Registered:
    """An operator as the driver knows it: a controller for each query it is used in."""

    spark: SparkSession
    name: str
    policies: Policies
    journal: Journal
    controllers: dict[str, Controller]
    spill: Spill | None
    in_front: bool


class Driver:
    """Receives reports, answers routers, and keeps what was learnt next to the checkpoints."""

    _of_application: ClassVar[dict[str, "Driver"]] = {}
    _starting = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        self._operators: dict[str, Registered] = {}
        self._checkpoints: dict[str, str] = {}
        self._lock = threading.RLock()
        self._files = threading.Lock()
        self._inbox: queue.SimpleQueue[Reports | threading.Event | None] = queue.SimpleQueue()
        self._application = spark.sparkContext.applicationId
        MAILBOXES[self._application] = self._inbox.put
        self.reports: Accumulator[Reports] = spark.sparkContext.accumulator(
            [], ReportParam(self._application)
        )
        listen, host = internals.driver_addresses(spark)
        self.server = ControlServer(listen, self._answer, host)
        self._loop = threading.Thread(target=self._run, name="penstock-loop", daemon=True)
        self._loop.start()
        atexit.register(self.stop)

    @classmethod
    def of(cls, spark: SparkSession) -> "Driver":
        """Return the driver of an application, and start it when it is first needed."""
        with cls._starting:
            application = spark.sparkContext.applicationId
            for other in [known for known in cls._of_application if known != application]:
                # Its context has been stopped: there is one at a time.
                cls._of_application.pop(other).stop()
            if application not in cls._of_application:
                cls._of_application[application] = cls(spark)
            return cls._of_application[application]

    @classmethod
    def running(cls, spark: SparkSession) -> "Driver | None":
        """Return the driver of an application, if it has balanced operators."""
        return cls._of_application.get(spark.sparkContext.applicationId)

    def register(
        self,
        spark: SparkSession,
        identity: str,
        name: str,
        policies: Policies,
        journal: Journal,
        spill: Spill | None = None,
        in_front: bool = False,
    ) -> None:
        """Make an operator known, before any of its tasks runs; used again, it goes on learning.

        Args:
            spark: the session.
            identity: of the operator.
            name: for people.
            policies: that decide.
            journal: where observations and plans go.
            spill: where shed records are kept: a batch must then be decided about in the same
                way after a restart.
            in_front: whether it only sheds, in front of operators that report nothing.
        """
        with self._lock:
            known = self._operators.get(identity)
            if known is not None and known.policies == policies:
                known.spark = spark
                return
            self._operators[identity] = Registered(
                spark, name, policies, journal, {}, spill, in_front
            )

    def unregister(self, identity: str) -> None:
        """Save what an operator has learnt, and forget it."""
        self.flush()
        with self._lock:
            operator = self._operators.pop(identity, None)
        if operator is not None:
            for controller in operator.controllers.values():
                self._save(operator, controller)

    def controllers(self, identity: str) -> list[Controller]:
        """Return an operator's controllers, in the order of its queries."""
        with self._lock:
            found = self._operators.get(identity)
            return list(found.controllers.values()) if found else []

    def controllers_of(self, query: str) -> list[Controller]:
        """Return the controllers of a query's operators, in the order in which they were made."""
        with self._lock:
            return [
                operator.controllers[query]
                for operator in self._operators.values()
                if query in operator.controllers and not operator.in_front
            ]

    def flush(self) -> None:
        """Wait until all reports that have arrived are counted."""
        reached = threading.Event()
        self._inbox.put(reached)
        reached.wait(10)

    def stop(self) -> None:
        """Save what was learnt, and close the channel."""
        atexit.unregister(self.stop)
        self._inbox.put(None)
        self._loop.join(timeout=5)
        self.server.close()
        MAILBOXES.pop(self._application, None)

    def _controller(self, identity: str, query: str) -> Controller:
        with self._lock:
            operator = self._operators[identity]
            if query not in operator.controllers:
                operator.controllers[query] = self._begin(operator, query)
            return operator.controllers[query]

    def _begin(self, operator: Registered, query: str) -> Controller:
        """Return the controller of an operator in a query that has just been started."""

        def keep(data: bytes) -> None:
            path = self._path(operator, controller, "batch")
            if path is not None:
                with self._files:
                    internals.write_file(operator.spark, path, data)
            elif query:
                controller.warn(
                    "checkpoint",
                    "the checkpoint is not found, so what a batch is decided with is not kept: "
                    "after a restart records may be both processed and spilled",
                )

        kept = keep if operator.spill is not None else None
        given = operator.name, query, operator.policies, operator.journal
        controller = Controller(*given, keep=kept, in_front=operator.in_front)
        self._save_others(operator, controller)
        self._load(operator, controller, "snapshot", controller.load)
        if operator.spill is not None:
            self._load(operator, controller, "batch", controller.load_pin)
            self._clean(operator, controller)
        self._warn_of_trigger(operator, controller)
        return controller

    def _clean(self, operator: Registered, controller: Controller) -> None:
        """Remove what a batch has spilled that will run again: it may be cut otherwise now."""
        checkpoint = self._checkpoints.get(controller.query)
        if operator.spill is None or checkpoint is None:
            return
        try:
            with self._files:
                batch = internals.unfinished_batch(operator.spark, checkpoint)
            if batch is not None:
                operator.spill.remove(controller.query, batch)
        except (OSError, Py4JError) as error:
            controller.warn("clean", f"old spilled files cannot be removed: {first_line(error)}")

    def _warn_of_trigger(self, operator: Registered, controller: Controller) -> None:
        """Say so if records wait longer for their batch to begin than they may."""
        shedder = operator.policies.shedder
        target = shedder.target if shedder is not None else None
        if target is None or not controller.query:
            return
        interval_ms = internals.trigger_interval_ms(operator.spark, controller.query)
        if interval_ms is not None and interval_ms > target.limit_ms:
            controller.warn(
                "trigger",
                f"batches begin every {interval_ms:g} ms, so records wait longer than the target "
                f"({target}) allows before they are looked at; trigger more often",
            )

    def _save_others(self, operator: Registered, controller: Controller) -> None:
        """Save what an earlier run of the same query in this process has not saved yet."""
        for other in self._operators.values():
            earlier = other.controllers.get(controller.query)
            if other is not operator and other.name == operator.name and earlier is not None:
                self._save(other, earlier)

    def _answer(self, request: dict[str, Any]) -> Snapshot:
        """Answer a router: on a thread of the channel."""
        try:
            controller = self._controller(str(request["operator"]), str(request["query"]))
            return controller.snapshot(str(request["batch"]))
        except Py4JError as error:
            log.warning("a router gets no answer, and routes by shuffle: %s", first_line(error))
            raise ConnectionError("decisions cannot be kept in the checkpoint") from None

    def _run(self) -> None:
        saved_s = time.monotonic()
        while True:
            try:
                reports = self._inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                self._save_all()
                saved_s = time.monotonic()
                continue
            if reports is None:
                self._save_all()
                return
            if time.monotonic() - saved_s > _SAVE_S:
                self._save_all()
                saved_s = time.monotonic()
            if isinstance(reports, threading.Event):
                reports.set()
                continue
            for report in reports:
                self._take(report)

    def _take(self, packed: Packed) -> None:
        try:
            report = unpack(packed)
            if report.place.operator not in self._operators:
                return  # closed while a task of a stopped query was still at work
            controller = self._controller(report.place.operator, report.place.query)
            controller.observe(report)
            operator = self._operators[report.place.operator]
            if operator.in_front and controller.query:
                # Its batch has just begun, so the one before is over.
                done = internals.last_batch(operator.spark, controller.query)
                if done is not None and done[0] != report.place.batch:
                    controller.finished(*done)
        except Exception:
            # The loop is there to help: what it cannot use must not stop it, nor the query.
            log.exception("a report could not be used; routing goes on with what is known")

    def _path(self, operator: Registered, controller: Controller, kind: str) -> str | None:
        """Where an operator keeps something; found while its query runs, and then remembered."""
        query = controller.query
        if query and query not in self._checkpoints:
            found = internals.checkpoint_of(operator.spark, query)
            if found:
                self._checkpoints[query] = found
        checkpoint = self._checkpoints.get(query)
        return f"{checkpoint}/penstock/{controller.name}.{kind}" if checkpoint else None

    def _load(
        self,
        operator: Registered,
        controller: Controller,
        kind: str,
        load: Callable[[bytes], None],
    ) -> None:
        """Load what an earlier run of the same query has kept."""
        path = self._path(operator, controller, kind)
        if path is None:
            return
        try:
            with self._files:
                data = internals.read_file(operator.spark, path)
            if data is not None:
                load(data)
        except (PenstockError, Py4JError) as error:
            reason = first_line(error)
            follows = "learning anew" if kind == "snapshot" else "its batch is decided about anew"
            log.warning("%s: %s cannot be used, %s (%s)", controller.name, path, follows, reason)

    def _save_all(self) -> None:
        with self._lock:
            operators = list(self._operators.values())
        for operator in operators:
            for controller in list(operator.controllers.values()):
                if controller.unsaved:
                    self._save(operator, controller)

    def _save(self, operator: Registered, controller: Controller) -> None:
        path = self._path(operator, controller, "snapshot")
        if path is None:
            return
        controller.unsaved = False
        # Before files are locked: a controller that pins a batch wants them while it is locked.
        learnt = controller.save()
        try:
            with self._files:
                internals.write_file(operator.spark, path, learnt)
        except Exception as error:
            controller.unsaved = True
            reason = first_line(error)
            log.warning("%s: costs cannot be saved at %s (%s)", controller.name, path, reason)
