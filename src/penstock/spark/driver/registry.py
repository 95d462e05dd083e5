"""The operators of an application, and their controllers."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from penstock.control import Callbacks, Controller, Journal, OperatorPolicies
from penstock.spark import internals
from penstock.spark.driver.recorder import Recorder
from penstock.spark.spill import Spill


@dataclass
class Registration:
    """An operator that the control plane knows, with a number of instances.

    Attributes:
        spark: newest session that uses the operator.
        operator: identity of the operator.
        name: name of the operator, for people.
        policies: policies that decide.
        journal: journal for observations and plans.
        spill: folder of shed records; None if they are not kept. With a folder, a batch must be
            decided about in the same way after a restart.
        errors: folder of failed records; None if they are not kept.
        in_front: whether the operator only sheds, in front of operators that report nothing.
        follows_slots: whether the active instances are as many as the cluster has slots.
        callbacks: functions of the user that are called with each finished batch.
        recorder: writer of the trace; None if nothing is recorded.
        controllers: controller of each query that uses the operator.
        lock: guards the controllers; held while a controller reads its files.
        used_s: time at which it was applied, or a task has last used it, on the monotonic clock.
        streaming: whether it was applied to a stream.
    """

    spark: SparkSession
    operator: str
    name: str
    policies: OperatorPolicies
    journal: Journal
    spill: Spill | None = None
    errors: Spill | None = None
    in_front: bool = False
    follows_slots: bool = False
    callbacks: Callbacks = field(default_factory=lambda: Callbacks(""))
    recorder: Recorder | None = None
    controllers: dict[str, Controller] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    used_s: float = field(default_factory=time.monotonic)
    streaming: bool = False

    @property
    def folders(self) -> list[Spill]:
        """Folders in which the operator keeps records."""
        return [folder for folder in (self.spill, self.errors) if folder is not None]

    @property
    def identity(self) -> str:
        """Identity of the operator with its number of instances.

        Tasks of a running query keep their number of instances if the operator is used again with
        another one.
        """
        return f"{self.operator}-{self.policies.grouping.instances}"

    @property
    def idle_s(self) -> float:
        """Time for which no task has used the operator, in seconds."""
        return time.monotonic() - self.used_s

    def warn_of_trigger(self, controller: Controller) -> None:
        """Warn if records wait longer for the start of their batch than the target allows."""
        target = self.policies.target
        if target is None or not controller.query:
            return
        interval_ms = internals.trigger_interval_ms(self.spark, controller.query)
        if interval_ms is not None and interval_ms > target.limit_ms:
            controller.warn(
                "trigger",
                f"batches start every {interval_ms:g} ms, so records wait longer than the target "
                f"({target}) allows before their batch starts; trigger more often",
            )

    def stand_in(self, query: str) -> Controller:
        """Return a controller for the last tasks of a run that has ended; it changes nothing."""
        return Controller(self.name, query, self.policies, journal=Journal())


class Registry:
    """The registered operators. Thread safe: `_lock` guards the dictionary only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registered: dict[str, Registration] = {}

    def add(self, registration: Registration) -> str:
        """Register an operator before any of its tasks runs; return its identity for tasks.

        An operator that is used again goes on learning, as the newest one.
        """
        identity = registration.identity
        with self._lock:
            known = self._registered.pop(identity, None)
            if known is not None and known.policies == registration.policies:
                known.spark = registration.spark
                known.used_s = registration.used_s
                known.streaming |= registration.streaming
                registration = known
            self._registered[identity] = registration
        return identity

    def get(self, identity: str) -> Registration | None:
        """Return a registration; None if it was removed."""
        with self._lock:
            return self._registered.get(identity)

    def all(self, operator: str | None = None) -> list[Registration]:
        """Return the registrations of an operator, or all of them, the oldest first."""
        with self._lock:
            found = list(self._registered.values())
        return [one for one in found if operator is None or one.operator == operator]

    def newest(self) -> list[tuple[Registration, Controller]]:
        """Return the controllers, but for those whose query goes on with a newer operator.

        An operator that is made again for each batch has the same name each time.
        """
        found: dict[tuple[str, str], tuple[Registration, Controller]] = {}
        for one in self.all():
            for query, controller in [*one.controllers.items()]:
                found[query, one.name if query else one.identity] = one, controller
        return list(found.values())

    def remove(self, registrations: Iterable[Registration]) -> None:
        """Forget registrations."""
        with self._lock:
            for one in registrations:
                if self._registered.get(one.identity) is one:
                    del self._registered[one.identity]

    def predecessor(self, successor: Registration, query: str, run: str) -> Controller | None:
        """Return the controller of the same query and name that learnt last; None without one.

        The query was started again with another operator, or an operator is made for each batch.
        Controllers of earlier runs are forgotten.
        """
        found = None
        for other in self.all():
            same = other.operator == successor.operator or (query and other.name == successor.name)
            if other is successor or not same:
                continue
            found = other.controllers.get(query, found)
            if found is not None and query and found.run != run:
                other.controllers.pop(query, None)
        return found
