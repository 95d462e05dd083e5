"""The control plane: one for each application, for all its operators."""

import atexit
import logging
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark import Accumulator
from pyspark.sql import SparkSession

from penstock.control import Controller, Journal, OperatorPolicies, Snapshot
from penstock.control.reports import Packed, unpack
from penstock.errors import first_line
from penstock.spark import internals
from penstock.spark.channel import ControlServer
from penstock.spark.driver.checkpoint_files import PIN, SNAPSHOT, CheckpointFiles
from penstock.spark.executor.reporting import MAILBOXES, ReportParam, Reports
from penstock.spark.internals import JvmError
from penstock.spark.spill import Spill

log = logging.getLogger("penstock")

# Costs are saved when no report has arrived for a moment, and at the latest after a while.
_IDLE_S = 0.5
_SAVE_S = 2.0


@dataclass
class Registration:
    """An operator that the control plane knows.

    Attributes:
        spark: newest session that uses the operator.
        name: name of the operator, for people.
        policies: policies that decide.
        journal: journal for observations and plans.
        spill: folder of shed records; None if they are not kept. With a folder, a batch must be
            decided about in the same way after a restart.
        in_front: whether the operator only sheds, in front of operators that report nothing.
        controllers: controller of each query that uses the operator.
    """

    spark: SparkSession
    name: str
    policies: OperatorPolicies
    journal: Journal
    spill: Spill | None = None
    in_front: bool = False
    controllers: dict[str, Controller] = field(default_factory=dict)


class ControlPlane:
    """Receives reports, answers routers, and keeps learnt costs next to the checkpoints.

    `_lock` guards the operators and their controllers. Reports are handled on one thread of the
    control plane, requests of routers on the threads of the channel.
    """

    _of_application: ClassVar[dict[str, "ControlPlane"]] = {}
    _starting = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        self._operators: dict[str, Registration] = {}
        self._lock = threading.RLock()
        self._files = CheckpointFiles()
        self._inbox: queue.SimpleQueue[Reports | threading.Event | None] = queue.SimpleQueue()
        self._application = spark.sparkContext.applicationId
        MAILBOXES[self._application] = self._inbox.put
        self.reports: Accumulator[Reports] = spark.sparkContext.accumulator(
            [], ReportParam(self._application)
        )
        listen, host = internals.driver_addresses(spark)
        self.server = ControlServer(listen, self._answer, host=host)
        self._loop = threading.Thread(target=self._run, name="penstock-loop", daemon=True)
        self._loop.start()
        atexit.register(self.stop)

    @classmethod
    def of(cls, spark: SparkSession) -> "ControlPlane":
        """Return the control plane of an application, and start it when it is first needed."""
        with cls._starting:
            application = spark.sparkContext.applicationId
            for other in [known for known in cls._of_application if known != application]:
                # Its context has been stopped: a process has one at a time.
                cls._of_application.pop(other).stop()
            if application not in cls._of_application:
                cls._of_application[application] = cls(spark)
            return cls._of_application[application]

    @classmethod
    def running(cls, spark: SparkSession) -> "ControlPlane | None":
        """Return the control plane of an application; None if it has no Penstock operator."""
        return cls._of_application.get(spark.sparkContext.applicationId)

    def register(self, identity: str, registration: Registration) -> None:
        """Register an operator before any of its tasks runs; used again, it goes on learning."""
        with self._lock:
            known = self._operators.get(identity)
            if known is not None and known.policies == registration.policies:
                known.spark = registration.spark
            else:
                self._operators[identity] = registration

    def unregister(self, identity: str) -> None:
        """Save the learnt costs of an operator, and forget it."""
        self.flush()
        with self._lock:
            operator = self._operators.pop(identity, None)
        if operator is not None:
            for controller in operator.controllers.values():
                self._files.save(operator.spark, controller)

    def controllers(self, identity: str) -> list[Controller]:
        """Return an operator's controllers, in the order of its queries."""
        with self._lock:
            found = self._operators.get(identity)
            return list(found.controllers.values()) if found else []

    def controllers_of(self, query: str) -> list[Controller]:
        """Return the controllers of a query's operators, in the order of registration."""
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
        """Save learnt costs, and close the channel."""
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

    def _begin(self, operator: Registration, query: str) -> Controller:
        """Return the controller of an operator in a query that has just started.

        The caller holds `_lock`.
        """
        files, spark = self._files, operator.spark

        def keep(data: bytes) -> None:
            path = files.path(spark, controller, PIN)
            if path is not None:
                files.write(spark, path, data)
            elif query:
                controller.warn(
                    "checkpoint",
                    "the checkpoint is unknown, so the snapshot of a batch is not kept: after a "
                    "restart records may be both processed and spilled",
                )

        controller = Controller(
            operator.name,
            query,
            operator.policies,
            journal=operator.journal,
            keep=keep if operator.spill is not None else None,
            in_front=operator.in_front,
        )
        self._save_earlier(operator, query)
        files.load(spark, controller, SNAPSHOT, into=controller.load)
        if operator.spill is not None:
            files.load(spark, controller, PIN, into=controller.load_pin)
            files.clean_spill(spark, controller, operator.spill)
        self._warn_of_trigger(operator, controller)
        return controller

    def _save_earlier(self, operator: Registration, query: str) -> None:
        """Save the costs of an earlier run of the same query in this process."""
        for other in self._operators.values():
            earlier = other.controllers.get(query)
            if other is not operator and other.name == operator.name and earlier is not None:
                self._files.save(other.spark, earlier)

    def _warn_of_trigger(self, operator: Registration, controller: Controller) -> None:
        """Warn if records wait longer for the start of their batch than the target allows."""
        shedder = operator.policies.shedder
        target = shedder.target if shedder is not None else None
        if target is None or not controller.query:
            return
        interval_ms = internals.trigger_interval_ms(operator.spark, controller.query)
        if interval_ms is not None and interval_ms > target.limit_ms:
            controller.warn(
                "trigger",
                f"batches start every {interval_ms:g} ms, so records wait longer than the target "
                f"({target}) allows before their batch starts; trigger more often",
            )

    def _answer(self, request: dict[str, Any]) -> Snapshot:
        """Answer a router. Called on a thread of the channel."""
        try:
            controller = self._controller(str(request["operator"]), str(request["query"]))
            return controller.snapshot(str(request["batch"]))
        except JvmError as error:
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
                self._receive(report)

    def _receive(self, packed: Packed) -> None:
        try:
            report = unpack(packed)
            task = report.task
            with self._lock:
                operator = self._operators.get(task.operator)
                if operator is None:
                    return  # closed while a task of a stopped query was still running
                controller = self._controller(task.operator, task.query)
            controller.observe(report)
            if operator.in_front and controller.query:
                # The batch of this report has just started, so the one before it has ended.
                done = internals.last_batch(operator.spark, controller.query)
                if done is not None and done.batch != task.batch:
                    controller.finished(done.batch, done.duration_ms)
        except Exception:
            # A report that cannot be used must stop neither this loop nor the query.
            log.exception("a report could not be used; routing goes on with older costs")

    def _save_all(self) -> None:
        with self._lock:
            unsaved = [
                (operator.spark, controller)
                for operator in self._operators.values()
                for controller in operator.controllers.values()
                if controller.unsaved
            ]
        for spark, controller in unsaved:
            self._files.save(spark, controller)
