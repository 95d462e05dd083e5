"""The driver's side: one for an application, for all its balanced operators."""

import atexit
import logging
import queue
import threading
from dataclasses import dataclass
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark import Accumulator
from pyspark.sql import SparkSession

from penstock.control import Controller, Journal, Snapshot
from penstock.control.reports import Packed, unpack
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.spark import internals
from penstock.spark.channel import ControlServer
from penstock.spark.tasks import MAILBOXES, ReportParam, Reports

log = logging.getLogger("penstock")

_IDLE_S = 0.5


@dataclass
class Registered:
    """An operator as the driver knows it: a controller for each query it is used in."""

    name: str
    grouping: Grouping
    journal: Journal
    controllers: dict[str, Controller]


class Driver:
    """Receives reports, answers routers, and keeps what was learnt next to the checkpoints."""

    _of_application: ClassVar[dict[str, "Driver"]] = {}
    _starting = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._operators: dict[str, Registered] = {}
        self._checkpoints: dict[str, str] = {}
        self._lock = threading.RLock()
        self._inbox: queue.SimpleQueue[Reports | threading.Event | None] = queue.SimpleQueue()
        application = spark.sparkContext.applicationId
        MAILBOXES[application] = self._inbox.put
        self.reports: Accumulator[Reports] = spark.sparkContext.accumulator(
            [], ReportParam(application)
        )
        self.server = ControlServer(internals.driver_host(spark), self._answer)
        self._loop = threading.Thread(target=self._run, name="penstock-loop", daemon=True)
        self._loop.start()
        atexit.register(self.stop)

    @classmethod
    def of(cls, spark: SparkSession) -> "Driver":
        """Return the driver of an application, and start it when it is first needed."""
        with cls._starting:
            application = spark.sparkContext.applicationId
            if application not in cls._of_application:
                cls._of_application[application] = cls(spark)
            return cls._of_application[application]

    def register(self, identity: str, name: str, grouping: Grouping, journal: Journal) -> None:
        """Make an operator known, before any of its tasks runs."""
        with self._lock:
            self._operators[identity] = Registered(name, grouping, journal, {})

    def unregister(self, identity: str) -> None:
        """Save what an operator has learnt, and forget it."""
        self.flush()
        with self._lock:
            operator = self._operators.pop(identity, None)
        for controller in operator.controllers.values() if operator else ():
            self._save(controller)

    def controllers(self, identity: str) -> list[Controller]:
        """Return an operator's controllers, in the order of its queries."""
        with self._lock:
            found = self._operators.get(identity)
            return list(found.controllers.values()) if found else []

    def flush(self) -> None:
        """Wait until all reports that have arrived are counted."""
        reached = threading.Event()
        self._inbox.put(reached)
        reached.wait(10)

    def stop(self) -> None:
        """Save what was learnt, and close the channel."""
        self._inbox.put(None)
        self._loop.join(timeout=5)
        self.server.close()

    def _controller(self, identity: str, query: str) -> Controller:
        with self._lock:
            operator = self._operators[identity]
            if query not in operator.controllers:
                controller = Controller(operator.name, query, operator.grouping, operator.journal)
                operator.controllers[query] = controller
                self._resume(controller)
            return operator.controllers[query]

    def _answer(self, request: dict[str, Any]) -> Snapshot:
        """Answer a router: on a thread of the channel."""
        controller = self._controller(str(request["operator"]), str(request["query"]))
        return controller.snapshot(str(request["batch"]))

    def _run(self) -> None:
        while True:
            try:
                reports = self._inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                self._save_all()
                continue
            if reports is None:
                self._save_all()
                return
            if isinstance(reports, threading.Event):
                reports.set()
                continue
            for report in reports:
                self._take(report)

    def _take(self, packed: Packed) -> None:
        try:
            report = unpack(packed)
            self._controller(report.place.operator, report.place.query).observe(report)
        except Exception:
            # The loop is there to help: what it cannot use must not stop it, nor the query.
            log.exception("a report could not be used; routing goes on with what is known")

    def _path(self, controller: Controller) -> str | None:
        """Where an operator's costs are kept; found while its query runs, and then remembered."""
        query = controller.query
        if query and query not in self._checkpoints:
            found = internals.checkpoint_of(self._spark, query)
            if found:
                self._checkpoints[query] = found
        checkpoint = self._checkpoints.get(query)
        return f"{checkpoint}/penstock/{controller.name}.snapshot" if checkpoint else None

    def _resume(self, controller: Controller) -> None:
        """Load what an earlier run of the same query has learnt."""
        path = self._path(controller)
        if path is None:
            return
        try:
            data = internals.read_file(self._spark, path)
            if data is not None:
                controller.load(data)
        except (PenstockError, Py4JError) as error:
            reason = _first_line(error)
            log.warning("%s: %s cannot be used, learning anew (%s)", controller.name, path, reason)

    def _save_all(self) -> None:
        with self._lock:
            operators = list(self._operators.values())
        for operator in operators:
            for controller in list(operator.controllers.values()):
                if controller.unsaved:
                    self._save(controller)

    def _save(self, controller: Controller) -> None:
        path = self._path(controller)
        if path is None:
            return
        try:
            internals.write_file(self._spark, path, controller.save())
        except (Py4JError, OSError) as error:
            reason = _first_line(error)
            log.warning("%s: costs cannot be saved at %s (%s)", controller.name, path, reason)


def _first_line(error: Exception) -> str:
    """Return what py4j says without the JVM's stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__
