"""Too many slots, or too few: does a query keep up with its sources, and with how many slots?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.diagnosis.causes import Split
from penstock.diagnosis.queries import Batch, Query
from penstock.policies.grouping.list_scheduling import makespan

# A query that waits this part of its time for the next trigger has slots to spare.
_IDLE = 0.3
# It keeps up safely if a batch takes at most this part of the time between two batches.
_SAFE = 0.7
# A query waits at most this part of its time if it is short of slots.
_BUSY = 0.1
# Arrivals above this multiple of what is processed make the backlog grow.
_GROWS = 1.05
_FEWEST_BATCHES = 3


class Treated(NamedTuple):
    """A batch, and the split of its stages."""

    batch: Batch
    splits: tuple[Split, ...]

    @property
    def lost_ms(self) -> float:
        """Time of stages above the ideal."""
        return sum(one.wall_ms - one.ideal_ms for one in self.splits)


class Supply(NamedTuple):
    """Slots that a query has, and slots that it needs.

    Attributes:
        slots: number of slots.
        arrivals: records that arrive for each processed one; above 1 the backlog grows.
        limited: whether the source limits batches, so that a backlog is left to be worked off.
        lacking_s: time of batches that is missing although nothing else were wrong.
        needed: number of slots with which it would keep up safely; None if all are needed.
        elapsed_s: time from the first start to the last end.
    """

    slots: int
    arrivals: float = 1.0
    limited: bool = False
    lacking_s: float = 0.0
    needed: int | None = None
    elapsed_s: float = 0.0


def supply_of(query: Query, treated: Sequence[Treated]) -> Supply:
    """Return the supply of a query; only streaming queries can have too many or too few slots."""
    batches = [one.batch for one in treated]
    slots = max((group.slots for batch in batches for group in batch.groups), default=1)
    if not query.streaming or len(batches) < _FEWEST_BATCHES:
        return Supply(slots)
    elapsed_ms = batches[-1].end_ms - batches[0].start_ms
    busy_ms = sum(batch.duration_ms for batch in batches)
    idle = 1 - busy_ms / elapsed_ms if elapsed_ms > 0 else 0.0
    arrivals, limited = _arrivals(batches)
    if idle < _BUSY and arrivals > _GROWS:
        cured_ms = busy_ms - sum(one.lost_ms for one in treated)
        lacking_s = max(cured_ms - busy_ms / arrivals, 0.0) / 1000
        return Supply(slots, arrivals, limited, lacking_s, elapsed_s=elapsed_ms / 1000)
    needed = _needed(treated, slots, elapsed_ms / len(batches)) if idle >= _IDLE else slots
    few = needed if needed <= slots / 2 else None
    return Supply(slots, arrivals, limited, needed=few, elapsed_s=elapsed_ms / 1000)


def _arrivals(batches: Sequence[Batch]) -> tuple[float, bool]:
    """Return the records that arrive for each processed one, and whether batches are limited."""
    rows = [batch.rows for batch in batches if batch.rows is not None]
    behind = [batch.backlog for batch in batches if batch.backlog is not None]
    if len(behind) == len(batches) and len(rows) == len(batches) and sum(rows[1:]) > 0:
        # The backlog of a batch is what its sources had beyond its end.
        grown = behind[-1] - behind[0]
        if grown > 0 and np.mean(np.diff(behind) > 0) > 0.5:
            return 1 + grown / sum(rows[1:]), True
    if len(rows) < len(batches) or min(rows) <= 0 or np.mean(np.diff(rows) > 0) < 0.7:
        return 1.0, False
    # Sources without a limit: a batch has all records that arrived since the start of the one
    # before.
    rate_per_ms = sum(rows[1:]) / max(batches[-1].start_ms - batches[0].start_ms, 1.0)
    ms_of_a_record = sum(batch.duration_ms for batch in batches) / sum(rows)
    return float(rate_per_ms * ms_of_a_record), False


def _needed(treated: Sequence[Treated], slots: int, cycle_ms: float) -> int:
    """Return the smallest number of slots with which batches stay short."""
    for count in range(1, slots):
        if np.mean([with_slots(one, count, slots) for one in treated]) <= _SAFE * cycle_ms:
            return count
    return slots


def with_slots(one: Treated, count: int, before: int) -> float:
    """Return the duration of a batch, in ms, if its tasks run on another number of slots.

    Args:
        one: batch.
        count: number of slots.
        before: number of slots that it ran on.
    """
    batch = one.batch
    stages_ms = 0.0
    for group, own in zip(batch.groups, one.splits, strict=True):
        times_ms = np.concatenate([run.tasks.duration_ms for run in group.runs])
        replayed_ms = makespan(times_ms, np.ones(count), 0.0)
        known_ms = makespan(times_ms, np.ones(before), 0.0)
        stages_ms += replayed_ms + max(own.wall_ms - known_ms, 0.0)
    return batch.duration_ms - batch.stages_ms + stages_ms
