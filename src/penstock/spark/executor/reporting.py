"""Reports of tasks on their way to the driver, in an accumulator."""

import gc
from collections.abc import Callable

from pyspark import Accumulator, TaskContext
from pyspark.accumulators import AccumulatorParam

from penstock.control.reports import Packed, Report, pack

Reports = list[Packed]


class ReportParam(AccumulatorParam[Reports]):
    """Carries reports to the driver, which delivers them to a mailbox and keeps nothing.

    Args:
        mailbox: name of the driver's mailbox: the identity of the application.
    """

    def __init__(self, mailbox: str) -> None:
        self.mailbox = mailbox

    def zero(self, value: Reports) -> Reports:
        """Return an empty list of reports."""
        return []

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802
        """Collect reports in a task; deliver them on the driver.

        Called by Spark: on the executor by `add`, on the driver for every finished task.
        """
        if TaskContext.get() is not None:
            return value1 + value2
        MAILBOXES[self.mailbox](value2)
        return []


# On the driver only: the function that receives the reports of each application.
MAILBOXES: dict[str, Callable[[Reports], None]] = {}


def send(reports: "Accumulator[Reports]", report: Report) -> None:
    """Report to the driver; Spark delivers the report when this task has succeeded."""
    reports.add([pack(report)])
    settle(type(report).__name__)


# Kinds of tasks that this Python worker has run.
_settled: set[str] = set()


def settle(kind: str) -> None:
    """Exclude imported modules from the garbage collection that Spark runs after each task.

    With Numba and pandas loaded a collection takes 40 to 90 ms of a core and frees nothing.
    """
    if kind not in _settled:
        _settled.add(kind)
        gc.collect()
        gc.freeze()
