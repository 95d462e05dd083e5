"""Two journals side by side: the work of tasks in each batch, or the cost of a record."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.diagnosis.bootstrap import Batches, difference, ratio
from penstock.diagnosis.causes import Cause
from penstock.diagnosis.comparison import CauseChange, Comparison
from penstock.errors import PenstockError
from penstock.policies.kernels import Float64

# Batches whose mean numbers of records differ by more are compared by the time of a record.
_SAME_SIZE = 0.10
# The first batch starts Python workers; it is left out if there are several.
_FIRST = 1
# No measured number is smaller, but for 0, or larger.
_SMALLEST, _LARGEST = 1e-6, 1e15


@dataclass(frozen=True, eq=False)
class JournalRun:
    """Entries of a journal about one operator, or about one attached query.

    Attributes:
        name: name of the operator or query.
        busiest_s: for each batch, work of the busiest instance; for a query, the cost of 1,000
            records at each observation.
        even_s: for each batch, work of a mean instance; empty for a query.
        records: records of each batch; empty for a query.
    """

    name: str
    busiest_s: Float64
    even_s: Float64
    records: Float64


def is_journal(path: str | Path) -> bool:
    """Whether a file begins with an entry of a journal."""
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        entry = _entry(opened.readline(1 << 20))
    return entry is not None


def read_journal(path: str | Path, name: str | None = None) -> JournalRun:
    """Read a journal, with its older files.

    Args:
        path: file that was given as `journal=`.
        name: name of the operator or query; that with the most entries by default.

    Raises:
        PenstockError: if the journal has no measurements.
    """
    tasks: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(dict)
    costs_ms: dict[str, list[float]] = defaultdict(list)
    for entry in _entries(Path(path)):
        if entry["kind"] != "observation":
            continue
        numbers = [_number(entry.get(one)) for one in ("instance", "busy_ms", "records")]
        cost_ms = _number(entry.get("cost_ms"))
        if not np.isnan(numbers).any():
            batch = tasks[str(entry.get("operator"))].setdefault(str(entry.get("batch")), {})
            own = batch.setdefault(int(numbers[0]), [0.0, 0.0])
            own[0] += numbers[1]
            own[1] += numbers[2]
        elif cost_ms > 0:
            costs_ms[str(entry.get("query"))].append(cost_ms)
    measured = {
        operator: [own for own in batches.values() if _is_measured(own)]
        for operator, batches in tasks.items()
    }
    found = {one: len(batches) for one, batches in measured.items() if batches}
    found |= {one: len(own) for one, own in costs_ms.items() if one not in found}
    if not found:
        raise PenstockError(f"{str(path)!r} is a journal without measurements: nothing to compare")
    chosen = name or max(found, key=found.__getitem__)
    if chosen not in found:
        names = ", ".join(sorted(found))
        raise PenstockError(f"{str(path)!r} has no operator or query {chosen!r}; it has {names}")
    batches = measured.get(chosen)
    if batches:
        return _of_operator(chosen, batches[_FIRST:] or batches)
    own = costs_ms[chosen]
    # Milliseconds of one record are seconds of 1,000.
    return JournalRun(chosen, np.array(own[_FIRST:] or own), np.zeros(0), np.zeros(0))


def _is_measured(batch: dict[int, list[float]]) -> bool:
    """Whether a batch has executed records, and taken time for them."""
    return all(sum(column) > 0 for column in zip(*batch.values(), strict=True))


def _of_operator(name: str, batches: list[dict[int, list[float]]]) -> JournalRun:
    instances = 1 + max(number for batch in batches for number in batch)
    busy_ms = [[one[0] for one in batch.values()] for batch in batches]
    return JournalRun(
        name=name,
        busiest_s=np.array([max(own) for own in busy_ms]) / 1000,
        even_s=np.array([sum(own) for own in busy_ms]) / instances / 1000,
        records=np.array([sum(one[1] for one in batch.values()) for batch in batches]),
    )


def compare_journals(before: JournalRun, after: JournalRun) -> Comparison:
    """Compare two runs: of an operator the busiest instance of each batch, of a query its costs.

    Args:
        before: first run.
        after: second run.
    """
    if bool(before.records.size) != bool(after.records.size):
        raise PenstockError(
            "BEFORE and AFTER must be journals of the same kind: both of balance or aggregate, or "
            "both of attach"
        )
    runs = before, after
    of_queries = not before.records.size
    sizes = [1.0 if of_queries else float(one.records.mean()) for one in runs]
    per_record = of_queries or bool(abs(sizes[0] / max(sizes[1], 1e-9) - 1) > _SAME_SIZE)
    weights = [
        one.records if per_record and not of_queries else np.ones(one.busiest_s.size)
        for one in runs
    ]
    sides = [Batches(one.busiest_s, own) for one, own in zip(runs, weights, strict=True)]
    return Comparison(
        name=before.name,
        before_s=before.busiest_s,
        after_s=after.busiest_s,
        per_record=per_record,
        gain=ratio(sides[0], sides[1]),
        predicted=(),
        causes=() if of_queries else (_unevenness(before, after),),
        notes=tuple(_notes(before, after, of_queries=of_queries)),
        measured="1,000 records" if of_queries else "the busiest instance of a batch",
    )


def _unevenness(before: JournalRun, after: JournalRun) -> CauseChange:
    """Return the time by which the busiest instance exceeds the mean one."""
    lost = [one.busiest_s - one.even_s for one in (before, after)]
    means = [float(own.mean()) for own in lost]
    sides = [Batches(own, np.ones(own.size)) for own in lost]
    change = difference(sides[0], sides[1])
    return CauseChange(Cause.UNEVEN_COSTS, means[0], means[1], change)


def _notes(before: JournalRun, after: JournalRun, *, of_queries: bool) -> Iterator[str]:
    if of_queries:
        yield "Journals of attach have costs of records: times are those of a slot."
    else:
        yield (
            "Journals have the work of tasks only: times are those of the busiest instance; "
            "overheads and other causes are in event logs."
        )
    if before.name != after.name:
        yield f"The operator or query is called {after.name!r} after."


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Return all entries of a journal and its rotated files, the oldest first."""
    older = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    older.sort(key=lambda one: -int(one.suffix[1:]))
    for file in [*older, path]:
        with file.open("rb") as opened:
            # The last line of a running query may be cut.
            yield from (entry for line in opened if (entry := _entry(line)) is not None)


def _number(value: object) -> float:
    """Return a measured number; NaN for anything else, such as a value of a damaged line."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if value == 0 or _SMALLEST <= value <= _LARGEST else math.nan


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(entry, dict) and isinstance(entry.get("kind"), str) and "time" in entry
    return entry if known else None
