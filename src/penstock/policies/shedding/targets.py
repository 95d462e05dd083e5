"""Targets: limits of the waiting time of records."""

from dataclasses import dataclass

from penstock.policies.validation import milliseconds, positive, whole

# Beyond it the weights of records are so equal that an average over all of them is the same.
_MOST_RECORDS = 10**12


@dataclass(frozen=True)
class Target:
    """A limit for the waiting time of admitted records, or for its average.

    Made by `average`, `sliding_average` and `each_record`. One rule serves all of them: the mean
    of waiting times must not exceed the limit. With every record that follows, the weight of a
    waiting time is multiplied by $1 - 1/n$, where $n$ is the number of averaged records.

    Attributes:
        limit_ms: limit of the waiting time, or of its average, > 0.
        records: n, number of waiting times that are averaged, >= 0; 0 for all of the stream.
    """

    limit_ms: float
    records: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit_ms", positive("limit_ms", self.limit_ms))
        whole("records", self.records, least=0, most=_MOST_RECORDS)

    @property
    def fade(self) -> float:
        """Weight of a waiting time after one more record: 1 for an average over all records."""
        return 1 - 1 / self.records if self.records else 1.0

    def __str__(self) -> str:
        what = {0: "waiting time, on average over the stream,", 1: "waiting time of each record"}
        default = f"waiting time, on average over {self.records:,} records,"
        return f"{what.get(self.records, default)} at most {self.limit_ms:g} ms"


def average(limit: float | str) -> Target:
    """Hold the average waiting time over the whole stream (AVG in the paper).

    Quiet times leave room for later bursts, however long ago they were.

    Args:
        limit: limit in milliseconds, or text such as "32 ms", "2 s", "1 min".

    Example:
        >>> average("2 s")
        Target(limit_ms=2000.0, records=0)
    """
    return Target(milliseconds("limit", limit))


def sliding_average(limit: float | str, records: int = 4_000) -> Target:
    """Hold the average waiting time of the last records; older ones fade away.

    A window with a sharp edge would repeat its past: high waiting times that leave the window make
    room for new high ones.

    Args:
        limit: limit in milliseconds, or text such as "2 s".
        records: number of admitted records that are averaged, >= 1.

    Example:
        >>> print(sliding_average(64, records=1_000))
        waiting time, on average over 1,000 records, at most 64 ms
    """
    return Target(
        milliseconds("limit", limit), whole("records", records, least=1, most=_MOST_RECORDS)
    )


def each_record(limit: float | str) -> Target:
    """Hold the waiting time of every single record (ABS in the paper).

    Args:
        limit: limit in milliseconds, or text such as "2 s".

    Example:
        >>> each_record("1.5 s")
        Target(limit_ms=1500.0, records=1)
    """
    return Target(milliseconds("limit", limit), records=1)
