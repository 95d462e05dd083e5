"""The control plane: one for each application, for all its operators."""

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from pyspark import Accumulator
from pyspark.sql import SparkSession

from penstock.control import Controller, FinishedBatch, Notices
from penstock.control.key_names import HOT_KEYS
from penstock.control.reports import ExecutionReport, Packed, TaskId, unpack
from penstock.errors import PenstockError, first_line
from penstock.spark import internals
from penstock.spark.channel import Answer, ControlServer, RefusedError
from penstock.spark.driver.checkpoint_files import PIN, SNAPSHOT, CheckpointFiles
from penstock.spark.driver.dropped import DroppedOperators
from penstock.spark.driver.queries import Queries
from penstock.spark.driver.registry import Registration, Registry
from penstock.spark.driver.slots import SlotCounter
from penstock.spark.driver.stale_files import StaleFiles
from penstock.spark.driver.streams import Streams
from penstock.spark.executor.reporting import MAILBOXES, ReportParam, Reports
from penstock.spark.internals import JvmError

log = logging.getLogger("penstock")

# Longest time between two looks at the inbox, longest wait for reports in it, time between two
# searches for dropped operators.
_LOOK_S = 0.5
_FLUSH_S = 10.0
_CLEAN_S = 30.0
# Reports, with their tasks as they were known when the reports arrived.
_Delivered = list[tuple[TaskId | None, Packed]]


class ControlPlane:
    """Receives reports, answers routers, and keeps learnt costs next to the checkpoints.

    It ends soon after Spark is stopped, or at the end of the process. One thread handles reports;
    threads of the channel answer. `registry` guards operators, a registration its controllers.
    """

    _of_application: ClassVar[dict[str, "ControlPlane"]] = {}
    _starting = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        self.registry = Registry()
        # Dashboards that show names of keys: tasks report names only while there is one.
        self.name_readers: set[object] = set()
        self._files = CheckpointFiles()
        self._slots = SlotCounter()
        self.queries = Queries(spark)
        self._streams = Streams(spark)
        self.stale_files = StaleFiles(self._files, self._streams)
        self._notices = Notices()
        self._inbox: queue.SimpleQueue[_Delivered | threading.Event | None] = queue.SimpleQueue()
        self._spark = spark
        self._application = spark.sparkContext.applicationId
        self._dropped = DroppedOperators(self.registry, self._save, self._streams.is_running)
        self._refused: set[str] = set()
        MAILBOXES[self._application] = self._deliver
        self.reports: Accumulator[Reports] = spark.sparkContext.accumulator(
            [], ReportParam(self._application)
        )
        listen, host = internals.driver_addresses(spark)
        port, tries = internals.control_ports(spark)
        self.server = ControlServer(listen, self._answer, host=host, port=port, tries=tries)
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

    def unregister(self, operator: str) -> None:
        """Save the learnt costs of an operator, call its callbacks, and forget it."""
        self.flush()
        self._notices.drain()
        registered = self.registry.all(operator)
        self._save(registered)
        self.registry.remove(registered)

    def forget(self, operator: str) -> None:
        """Note that the user has dropped an operator; its state goes when its queries have ended.

        The garbage collector calls this, on any thread.
        """
        self._dropped.add(operator)

    def controllers(self, operator: str | None = None) -> list[Controller]:
        """Return the controllers of an operator or of all, in the order of registration."""
        found = self.registry.all(operator)
        return [one for registration in found for one in [*registration.controllers.values()]]

    def controllers_of(self, query: str) -> list[Controller]:
        """Return the controllers of a query's operators, in the order of registration."""
        found = [one.controllers.get(query) for one in self.registry.all() if not one.in_front]
        return [one for one in found if one is not None]

    def flush(self) -> None:
        """Wait until all reports that have arrived are counted."""
        reached = threading.Event()
        self._inbox.put(reached)
        end_s = time.monotonic() + _FLUSH_S
        while self._loop.is_alive() and not reached.wait(0.1) and time.monotonic() < end_s:
            pass

    def stop(self) -> None:
        """Save learnt costs, and close the channel."""
        atexit.unregister(self.stop)
        self._inbox.put(None)
        self._loop.join(timeout=5)
        self._close()

    def _close(self) -> None:
        self._notices.close()
        self._files.close()
        self.server.close()
        MAILBOXES.pop(self._application, None)

    def _controller(self, task: TaskId, *, asks: bool) -> Controller | None:
        """Return the controller of a task that asks or reports; None if its operator is closed."""
        registration = self.registry.get(task.operator)
        if registration is None:
            return None
        registration.used_s = time.monotonic()
        with registration.lock:
            ended = self._streams.has_ended(task.run)
            known = registration.controllers.get(task.query)
            if known is None and ended:  # the query goes on with another operator
                return registration.stand_in(task.query)
            if known is None:
                known = self._begin(registration, task, asks=asks)
                registration.controllers[task.query] = known
            elif task.run and known.run != task.run and not ended:
                self._begin_run(registration, known, task)
            return known

    def _begin(self, registration: Registration, task: TaskId, *, asks: bool) -> Controller:
        """Return the controller of an operator in a query that has just started.

        The caller holds the lock of the registration.
        """
        files, spark, query = self._files, registration.spark, task.query

        def keep(data: bytes) -> None:
            stem = files.stem(spark, controller, PIN)
            if stem is not None:
                files.write(spark, stem, data)
            elif query:
                controller.warn(
                    "checkpoint",
                    "the checkpoint is unknown, so the snapshot of a batch is not kept: after a "
                    "restart records may be both processed and spilled",
                )

        def finished(made: Callable[[], FinishedBatch]) -> None:
            self._notices.publish(registration.callbacks, made)

        controller = Controller(
            registration.name,
            query,
            registration.policies,
            journal=registration.journal,
            keep=keep if registration.spill is not None else None,
            in_front=registration.in_front,
            query_name=self.queries.begin(query),
            on_batch=finished,
        )
        controller.run = task.run
        earlier = self.registry.predecessor(registration, query, task.run)
        if earlier is not None:
            _inherit(controller, earlier)
        else:
            files.load(spark, controller, SNAPSHOT, into=controller.load)
        if registration.spill is not None:
            files.load(spark, controller, PIN, into=controller.load_pin)
        self.stale_files.begin(registration, controller, task, unmarked=asks)
        registration.warn_of_trigger(controller)
        return controller

    def _begin_run(self, registration: Registration, controller: Controller, task: TaskId) -> None:
        """Go on with a query that was started again; its last batch may run again.

        The caller holds the lock of the registration.
        """
        again = self._files.batch_to_repeat(registration.spark, controller)
        controller.begin_run(task.run, again)
        self.queries.begin(controller.query)
        if registration.recorder is not None:
            registration.recorder.forget(controller.query)
        # Tasks of this run that do not know it may have kept records already.
        self.stale_files.begin(registration, controller, task, unmarked=False)

    def _answer(self, request: dict[str, Any]) -> Answer:
        """Answer a router, or a task with failed records. Called on a thread of the channel."""
        try:
            asked = ("operator", "query", "batch", "run")
            operator, query, batch, run = (str(request[name]) for name in asked)
            task = self._streams.resolved(TaskId(operator, query, batch, 0, run=run))
            controller = self._controller(task, asks=True)
            if controller is None:
                raise self._refusal(operator)
            self._follow_slots(controller, task)
            wanted = self._unnamed(controller)
            answer = Answer(
                task.query, task.batch, controller.snapshot(task.batch), wanted=wanted, run=task.run
            )
            if "failed" not in request or self._streams.has_ended(task.run):
                return answer
            self.flush()  # all routers have reported
            who = str(request["use"]), int(request["partition"])
            failures = controller.failing(task.batch, who, int(request["failed"]))
            return answer._replace(failed=failures.failed, received=failures.received)
        except JvmError as error:
            log.warning("a router gets no answer, and decides alone: %s", first_line(error))
            raise RefusedError("decisions cannot be kept in the checkpoint") from None

    def _refusal(self, operator: str) -> RefusedError:
        """Log the first refusal of an operator: its reports are not counted either."""
        if operator not in self._refused:
            self._refused.add(operator)
            log.warning(
                "an operator was closed, or dropped before many others, and its tasks still run: "
                "they neither balance nor shed. Keep a reference to an operator while you use it"
            )
        return RefusedError("the operator was closed, or dropped before many others")

    def _unnamed(self, controller: Controller) -> tuple[int, ...]:
        """Return the hot keys whose names a dashboard lacks."""
        if not self.name_readers:
            return ()
        return controller.names.missing(one.key for one in controller.hot_keys(HOT_KEYS))

    def _follow_slots(self, controller: Controller, task: TaskId) -> None:
        """Use as many instances as there are slots, from a batch on that has just started."""
        registration = self.registry.get(task.operator)
        if registration is None or not registration.follows_slots or controller.managed:
            return
        slots = self._slots.now(registration.spark)
        if slots and not controller.has_pinned(task.batch):
            controller.activate(slots)
            if slots > controller.instances:
                controller.warn(
                    "slots",
                    f"the cluster runs {slots} tasks at a time, and the operator has "
                    f"{controller.instances} instances, as many as it had slots when the query "
                    f"was made; start it again, or give instances={slots}",
                )

    def _run(self) -> None:
        looked_s = cleaned_s = time.monotonic()
        while True:
            try:
                reports = self._inbox.get(timeout=_LOOK_S)
            except queue.Empty:
                reports = []
                if internals.is_stopped(self._spark):
                    self._close()
                    return
            if reports is None:
                self._files.save_all(self._known())
                return
            if isinstance(reports, threading.Event):
                reports.set()
                continue
            for task, report in reports:
                self._receive(task, report)
            if time.monotonic() - looked_s > _LOOK_S:
                looked_s = time.monotonic()
                self._files.save_aside(self._known())
            if time.monotonic() - cleaned_s > _CLEAN_S:
                cleaned_s = time.monotonic()
                self._dropped.remove()

    def _deliver(self, reports: Reports) -> None:
        """Put reports into the inbox. Called by Spark's scheduler, which waits for it."""
        self._inbox.put([(self._streams.task_of(one), one) for one in reports])

    def _receive(self, task: TaskId | None, packed: Packed) -> None:
        try:
            report = unpack(packed)
            if task is None:
                return
            controller = self._controller(task, asks=False)
            if controller is None:
                return  # closed while a task of a stopped query was still running
            report = replace(report, task=task)
            registration = self.registry.get(task.operator)
            ended = self._streams.has_ended(task.run)
            if registration is not None and registration.recorder is not None and not ended:
                registration.recorder.add(report)
            if isinstance(report, ExecutionReport) and self.name_readers:
                controller.names.learn(report.names)
            controller.observe(report, ended=ended)
            if registration is not None and registration.in_front and controller.query:
                # The batch of this report has started, so the one before it has ended.
                session, query = registration.spark, controller.query
                done = internals.last_batch(session, query, before=task.batch)
                if done is not None:
                    controller.finished(done.batch, done.duration_ms)
        except Exception:
            # A report that cannot be used must stop neither this loop nor the query.
            log.exception("a report could not be used; routing goes on with older costs")

    def _known(self) -> list[tuple[SparkSession, Controller]]:
        """Return the controllers whose costs are saved, with their sessions."""
        return [(one.spark, controller) for one, controller in self.registry.newest()]

    def _save(self, registrations: list[Registration]) -> None:
        """Save the learnt costs of operators, unless a newer one has taken the place of one."""
        self.stale_files.look(now=True)
        own = {one.identity for one in registrations}
        known = self.registry.newest()
        self._files.save_all([(one.spark, found) for one, found in known if one.identity in own])


def _inherit(controller: Controller, earlier: Controller) -> None:
    try:
        controller.load(earlier.save())
    except PenstockError as error:
        log.warning("%s: costs are learnt again (%s)", controller.name, first_line(error))
