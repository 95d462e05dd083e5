"""The backlog of a streaming query, from the offsets that its sources report."""

import json
from collections.abc import Iterable
from typing import Any, Protocol

# Metrics of sources that count records which have not been read.
_BEHIND = ("totalOffsetsBehindLatest", "numRowsOutstanding")


class SourceProgress(Protocol):
    """Offsets and metrics of a source in a batch."""

    end_offset: Any
    latest_offset: Any
    metrics: dict[str, Any] | None


def backlog_of(sources: Iterable[SourceProgress]) -> float | None:
    """Return the number of records that sources have beyond the end of a batch; None if unknown."""
    known = [found for source in sources if (found := _behind(source)) is not None]
    return sum(known) if known else None


def _behind(source: SourceProgress) -> float | None:
    for name in _BEHIND:
        value = (source.metrics or {}).get(name)
        if isinstance(value, int | float) or (isinstance(value, str) and value.isdecimal()):
            return float(value)
    latest, end = _parsed(source.latest_offset), _parsed(source.end_offset)
    if not isinstance(latest, dict) or not isinstance(end, dict):
        return None
    # Kafka: a number for each partition of each topic.
    return _difference(latest, end)


def _difference(latest: dict[str, Any], end: dict[str, Any]) -> float | None:
    """Return by how much the numbers of one tree exceed those of another of the same form.

    Example:
        >>> _difference({"topic": {"0": 7, "1": 5}}, {"topic": {"0": 4, "1": 5}})
        3.0
        >>> _difference({"topic": "text"}, {"topic": "text"}) is None
        True
    """
    total, seen = 0.0, False
    for name, value in latest.items():
        other = end.get(name, {} if isinstance(value, dict) else 0)
        if isinstance(value, dict) and isinstance(other, dict):
            inner = _difference(value, other)
            if inner is None:
                return None
            total, seen = total + inner, True
        elif isinstance(value, int) and isinstance(other, int):
            total, seen = total + max(value - other, 0), True
        else:
            return None
    return total if seen else None


def _parsed(offset: Any) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None
