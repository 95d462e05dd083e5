"""What a person should know."""

import logging
from collections import OrderedDict

from penstock.control.batches import trim

log = logging.getLogger("penstock")

_KEPT = 20


class Warnings:
    """The newest message of each kind; the first one of a kind goes to the log.

    Args:
        name: of the operator, for the log.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._newest: OrderedDict[str, str] = OrderedDict()

    def add(self, kind: str, message: str) -> None:
        """Take a message."""
        if kind not in self._newest:
            log.warning("%s: %s", self._name, message)
        self._newest[kind] = message
        self._newest.move_to_end(kind)
        trim(self._newest, _KEPT)

    def all(self) -> tuple[str, ...]:
        """Return the messages, the newest last."""
        return tuple(self._newest.values())
