"""The lag of a query behind a source with offsets: in records, in seconds, by partition."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

# A partition of a source, such as ("orders", "3").
Partition: TypeAlias = tuple[str, str]
Offsets: TypeAlias = Mapping[Partition, float]

# Largest number of known points of a partition.
_POINTS = 1_000
# A partition is skewed if it gets this many times the mean of all partitions, or this share.
_TIMES = 2.0
_SHARE = 0.75
# Number of records from which on shares mean something.
_ENOUGH = 100


class Skew(NamedTuple):
    """A partition that gets far more records than the others.

    Attributes:
        partition: name of the source's part, and number of the partition.
        share: share of all records that arrived in it.
        partitions: number of partitions.
    """

    partition: Partition
    share: float
    partitions: int


class SourceLag:
    """Follows the offsets of one source: the newest ones, and those that a query has reached.

    The lag in seconds is the age of the oldest unread record. The record at an offset arrived
    when the newest offset passed it. That moment is known up to the time between two looks, in
    which records are assumed to arrive evenly. Records that were there at the first look count
    from then on.

    Example:
        >>> lag = SourceLag()
        >>> for second in range(4):
        ...     lag.add(second, {("t", "0"): 100.0 * second}, {("t", "0"): 0.0})
        >>> lag.records, lag.seconds
        (300.0, 3.0)
        >>> lag.add(4, {("t", "0"): 400.0}, {("t", "0"): 250.0})
        >>> lag.records, lag.seconds
        (150.0, 1.5)
    """

    def __init__(self) -> None:
        self.records = 0.0
        self.seconds = 0.0
        self._points: dict[Partition, deque[tuple[float, float]]] = {}
        self._first: dict[Partition, float] = {}
        self._newest: dict[Partition, float] = {}

    def add(self, now_s: float, latest: Offsets, end: Offsets) -> None:
        """Add a look: the newest offsets, and those up to which the query has read."""
        self.records = self.seconds = 0.0
        # Partitions of a topic that was removed are forgotten.
        for gone in self._points.keys() - latest.keys():
            del self._points[gone], self._first[gone], self._newest[gone]
        known = bool(self._newest)
        for partition, offset in latest.items():
            read = end.get(partition, 0.0)
            points = self._points.setdefault(partition, deque())
            if points and offset < points[-1][1]:
                points.clear()  # the topic was made again
                self._first.pop(partition)
            # A partition that is new while the query runs began with its first record.
            self._first.setdefault(partition, 0.0 if known else read)
            self._newest[partition] = offset
            points.append((now_s, offset))
            self._forget(points, read)
            if offset > read:
                self.records += offset - read
                self.seconds = max(self.seconds, now_s - _passed_s(points, read))

    @staticmethod
    def _forget(points: deque[tuple[float, float]], read: float) -> None:
        """Forget points that no unread record needs; thin out the rest if there are too many."""
        while len(points) > 1 and points[1][1] <= read:
            points.popleft()
        if len(points) > _POINTS:
            kept = [*list(points)[:-1:2], points[-1]]
            points.clear()
            points.extend(kept)

    def skewed(self) -> list[Skew]:
        """Return the partitions that get far more records than the others, the largest first."""
        came = {one: max(0.0, self._newest[one] - self._first[one]) for one in self._newest}
        total, partitions = sum(came.values()), len(came)
        if total < _ENOUGH or partitions < 2:
            return []
        least = min(_TIMES / partitions, _SHARE) * total
        found = [Skew(one, n / total, partitions) for one, n in came.items() if n >= least]
        return sorted(found, key=lambda one: -one.share)


def _passed_s(points: deque[tuple[float, float]], read: float) -> float:
    """Return the time at which the newest offset passed an offset that is unread."""
    before: tuple[float, float] | None = None
    for at_s, offset in points:
        if offset > read:
            if before is None:
                return at_s
            return before[0] + (at_s - before[0]) * (read - before[1]) / (offset - before[1])
        before = at_s, offset
    return points[-1][0]
