"""Targets: how long records may wait."""

from dataclasses import dataclass

from penstock.policies.validation import milliseconds, positive, whole


@dataclass(frozen=True)
class Target:
    """A limit for the waiting time of admitted records, or for its average.

    Made by `average`, `sliding_average` and `each_record`. One rule serves all of them: the mean
    of waiting times must not pass the limit, where a waiting time counts $1 - 1/n$ times as much
    with every record that follows, and $n$ is how many are averaged.

    Attributes:
        limit_ms: the limit.
        records: n, how many waiting times are averaged; 0 for all of the stream.
    """

    limit_ms: float
    records: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit_ms", positive("limit_ms", self.limit_ms))
        whole("records", self.records, least=0)

    @property
    def fade(self) -> float:
        """How much a waiting time counts after one more record: 1 for an average over all."""
        return 1 - 1 / self.records if self.records else 1.0

    def __str__(self) -> str:
        what = {0: "waiting time, on average over the stream,", 1: "waiting time of each record"}
        default = f"waiting time, on average over {self.records:,} records,"
        return f"{what.get(self.records, default)} at most {self.limit_ms:g} ms"


def average(limit: float | str) -> Target:
    """Hold the average waiting time over the whole stream: what the paper calls AVG.

    A quiet time leaves room that a later burst may use up, however long ago it was.

    Args:
        limit: in milliseconds, or text such as "32 ms", "2 s", "1 min".

    Example:
        >>> average("2 s")
        Target(limit_ms=2000.0, records=0)
    """
    return Target(milliseconds("limit", limit))


def sliding_average(limit: float | str, records: int = 4_000) -> Target:
    """Hold the average waiting time of the last records; older ones fade away.

    They do not leave all at once, as from a window with an edge: whatever happened, happened
    again with every length of such a window, as high waiting times that leave make room for high
    ones.

    Args:
        limit: in milliseconds, or text such as "2 s".
        records: how many admitted records are averaged, >= 1.

    Example:
        >>> print(sliding_average(64, records=1_000))
        waiting time, on average over 1,000 records, at most 64 ms
    """
    return Target(milliseconds("limit", limit), whole("records", records, least=1))


def each_record(limit: float | str) -> Target:
    """Hold the waiting time of every single record: what the paper calls ABS.

    Args:
        limit: in milliseconds, or text such as "2 s".

    Example:
        >>> each_record("1.5 s")
        Target(limit_ms=1500.0, records=1)
    """
    return Target(milliseconds("limit", limit), records=1)
