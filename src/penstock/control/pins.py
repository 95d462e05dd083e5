"""Pinned snapshots: a batch is decided about in the same way, however often its tasks run."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from penstock.control.newest import trim
from penstock.control.snapshots import Snapshot

# Batches whose snapshots are kept: a task that runs again must route as it did before.
KEPT = 8


class Pins:
    """The snapshots of the newest batches. Not thread safe: the controller holds its lock.

    Args:
        keep: function that stores the bytes of a pin beyond this process, before any router gets
            the snapshot; None stores nothing.
    """

    def __init__(self, keep: Callable[[bytes], None] | None = None) -> None:
        self._keep = keep
        self._pinned: OrderedDict[str, Snapshot] = OrderedDict()
        self._asked_s: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pinned)

    @property
    def batches(self) -> list[str]:
        """Names of the batches whose snapshots are pinned."""
        return [*self._pinned]

    def get(self, batch: str) -> Snapshot | None:
        """Return the snapshot of a batch; None if none is pinned."""
        return self._pinned.get(batch)

    def add(self, batch: str, snapshot: Snapshot) -> None:
        """Pin a snapshot, and store it."""
        if self._keep is not None:
            self._keep(snapshot.pin(batch))
        self.restore(batch, snapshot)

    def restore(self, batch: str, snapshot: Snapshot) -> None:
        """Pin a snapshot that is stored already."""
        self._pinned[batch] = snapshot
        trim(self._pinned, KEPT)

    def touch(self, batch: str) -> None:
        """Note that a router has asked: its batch is kept longer than others."""
        self._pinned.move_to_end(batch)
        self._asked_s.setdefault(batch, time.time())
        trim(self._asked_s, KEPT)

    def asked_s(self, batch: str) -> float:
        """Return when a router of this process first asked for a batch; infinite if none did."""
        return self._asked_s.get(batch, math.inf)
