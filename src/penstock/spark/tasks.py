"""What both kinds of tasks in executors share: where they are, and how they report."""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pyspark import Accumulator, TaskContext, cloudpickle
from pyspark.accumulators import AccumulatorParam

from penstock import __version__
from penstock.control import Policies
from penstock.control.reports import Packed, Place, Report, pack
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder
from penstock.spark.channel import Address
from penstock.spark.internals import batch_of

Reports = list[Packed]
T = TypeVar("T")


@dataclass(frozen=True)
class OperatorSpec:
    """What a task has to know of its operator.

    Attributes:
        identity: of the operator, unique in the application.
        name: for people.
        grouping: class and parameters; it is made anew in tasks, as its arrays may be large.
        shedder: class and parameters; None if nothing is shed.
        address: of the driver's control channel.
        spill: tasks that keep what is shed; 0 if nothing is kept.
    """

    identity: str
    name: str
    grouping: tuple[type[Grouping], dict[str, Any]]
    shedder: tuple[type[Shedder], dict[str, Any]] | None
    address: Address
    spill: int = 0

    @classmethod
    def of(
        cls, identity: str, name: str, policies: Policies, address: Address, spill: int = 0
    ) -> Self:
        """Return what tasks have to know of an operator with these policies."""
        shedder = policies.shedder
        shed = None if shedder is None else (type(shedder), shedder.params())
        routed = type(policies.grouping), policies.grouping.params()
        return cls(identity, name, routed, shed, address, spill)

    def policies(self) -> Policies:
        """Return the policies with nothing learnt."""
        kind, params = self.grouping
        shedder = None if self.shedder is None else self.shedder[0](**self.shedder[1])
        return Policies(kind(**params), shedder)

    @property
    def instances(self) -> int:
        """How many instances the operator has."""
        return int(self.grouping[1]["instances"])


class ReportParam(AccumulatorParam[Reports]):
    """Carries reports to the driver, which hands them on and keeps nothing."""

    def __init__(self, mailbox: str) -> None:
        self.mailbox = mailbox

    def zero(self, value: Reports) -> Reports:
        """Nothing to report."""
        return []

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802
        """Collect in a task; deliver on the driver."""
        if TaskContext.get() is not None:
            return value1 + value2
        MAILBOXES[self.mailbox](value2)
        return []


# On the driver only: what takes the reports of each application.
MAILBOXES: dict[str, Callable[[Reports], None]] = {}


def place(spec: OperatorSpec) -> Place:
    """Return where this task is."""
    context = TaskContext.get()
    if context is None:
        raise PenstockError("a balanced operator runs in tasks of Spark only")
    query, batch = batch_of(context)
    return Place(spec.identity, query, batch, context.partitionId())


def send(reports: "Accumulator[Reports]", report: Report) -> None:
    """Report to the driver when this task has succeeded."""
    reports.add([pack(report)])
    settle(type(report).__name__)


# Kinds of tasks that this Python worker has run.
_settled: set[str] = set()


def settle(kind: str) -> None:
    """Spare what has been imported the garbage collection that Spark's workers do after each task.

    With Numba and pandas loaded that takes 40 to 90 ms of a core for every task, and frees nothing.
    """
    if kind not in _settled:
        _settled.add(kind)
        gc.collect()
        gc.freeze()


def executor() -> str:
    """Return what tells this executor from others."""
    return os.environ.get("SPARK_EXECUTOR_ID") or f"process {os.getppid()}"


def shipped(function: Callable[[Iterator[T]], Iterator[T]]) -> Callable[[Iterator[T]], Iterator[T]]:
    """Return a function that runs on executors, or says clearly why it cannot.

    What is sent is self-contained: it can be unpickled where Penstock is missing.
    """
    payload = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    expected = __version__

    def run(batches: Iterator[T]) -> Iterator[T]:
        import pickle  # noqa: PLC0415 - what Spark itself unpickles tasks with
        import sys  # noqa: PLC0415

        here = f"the Python of this executor ({sys.executable})"
        try:
            import penstock  # noqa: PLC0415
        except ImportError:
            raise RuntimeError(
                f"penstock is not installed in {here}; see docs/deploy.md of Penstock"
            ) from None
        if penstock.__version__ != expected:
            raise RuntimeError(
                f"penstock {penstock.__version__} is installed in {here}, the driver has "
                f"{expected}; install the same version on both"
            )
        yield from pickle.loads(payload)(batches)  # noqa: S301 - part of the task itself

    # They would name this module, which is then needed to unpickle the function.
    run.__annotations__ = {}
    return run
