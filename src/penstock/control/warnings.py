"""Warnings: what a person should know about an operator."""

import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeAlias

from penstock.control.batches import Batch, trim
from penstock.control.reports import RouterReport
from penstock.policies.shedding import Target

log = logging.getLogger("penstock")

_KEPT = 20


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

    def all(self) -> tuple[str, ...]:
        """Return the messages, the newest last."""
        return tuple(self._newest.values())


Kind: TypeAlias = str
Message: TypeAlias = str


def about_router(report: RouterReport) -> Iterator[tuple[Kind, Message]]:
    """Yield warnings about the records of a router."""
    where = f"records of batch {report.task.batch}"
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


def about_batch(number: str, batch: Batch, target: Target) -> Iterator[tuple[Kind, Message]]:
    """Yield reasons why a target cannot hold."""
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
