"""Warnings: what a person should know about an operator."""

import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeAlias

from penstock.control.batches import Batch
from penstock.control.newest import trim
from penstock.control.reports import ExecutionReport, RouterReport
from penstock.policies.shedding import Target

log = logging.getLogger("penstock")

_KEPT = 20


# Time for which an async function may block its event loop.
_STALLED_S = 1.0
# Time that an executor takes over that of the median one, from which on it is called slow.
_SLOW = 1.5


class Warnings:
    """The newest message of each kind; the first one of a kind goes to the log.

    Args:
        name: name of the operator, for the log.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._newest: OrderedDict[str, str] = OrderedDict()

    def add(self, kind: str, message: str) -> None:
        """Add a message, and log it if it is the first one of its kind."""
        if kind not in self._newest:
            log.warning("%s: %s", self.name, message)
        self._newest[kind] = message
        self._newest.move_to_end(kind)
        trim(self._newest, _KEPT)

    def __contains__(self, kind: str) -> bool:
        """Whether there is a message of a kind."""
        return kind in self._newest

    def all(self) -> tuple[str, ...]:
        """Return the messages, the newest last."""
        return tuple(self._newest.values())


Kind: TypeAlias = str
Message: TypeAlias = str


def about_executors(slowdowns: dict[str, float]) -> Iterator[tuple[Kind, Message]]:
    """Yield a warning about each executor that is much slower than the others."""
    for name, slowdown in slowdowns.items():
        if slowdown >= _SLOW:
            yield (
                f"slow executor {name}",
                f"executor {name} takes {slowdown:.1f} times as long for the same records as the "
                "others; look at its machine. It gets less work meanwhile",
            )


def about_router(report: RouterReport) -> Iterator[tuple[Kind, Message]]:
    """Yield warnings about the records of a router."""
    where = f"records of batch {report.task.batch}"
    if report.fallback:
        yield (
            "fallback",
            f"routers decide as if nothing had been learnt, and shed nothing: {report.fallback}. "
            "Executors must reach the driver at this address; spark.penstock.port sets the port",
        )
    if report.undated:
        yield (
            "undated",
            f"{report.undated:,} {where} have no time of arrival; they count as just arrived",
        )
    if report.early:
        yield (
            "early",
            f"{report.early:,} {where} arrive in the future: the clocks of the source and of "
            "the driver differ; they count as just arrived",
        )
    if report.unsized:
        yield (
            "unsized",
            f"{report.unsized:,} {where} have no size, or a negative one; they count as records "
            "of mean size",
        )


def about_execution(report: ExecutionReport) -> Iterator[tuple[Kind, Message]]:
    """Yield warnings about a task of the operator."""
    if report.stalled_s > _STALLED_S:
        yield (
            "blocking call",
            f"the async function has blocked its event loop for {report.stalled_s:.1f} s in batch "
            f"{report.task.batch}: it makes a blocking call. Await an async client instead, or "
            "move the call to asyncio.to_thread",
        )
    if report.failed:
        yield (
            "failed records",
            f"the function failed on {report.failed:,} of {report.records + report.failed:,} "
            f"records of a task in batch {report.task.batch}, for example on {report.errors[0]}",
        )


def about_batch(number: str, batch: Batch, target: Target | None) -> Iterator[tuple[Kind, Message]]:
    """Yield reasons why a target, if there is one, cannot hold."""
    if target is None:
        return
    late = batch.waits and batch.waiting_ms > target.limit_ms
    if late and batch.received and batch.protected == batch.received:
        yield (
            "protected",
            f"all records of batch {number} are protected; the target "
            f"({target}) cannot hold as nothing may be shed",
        )
    if batch.received and batch.shed == batch.received:
        yield (
            "all shed",
            f"all {batch.received:,} records of batch {number} were shed: "
            f"they had waited too long for the target ({target}) when it began",
        )
