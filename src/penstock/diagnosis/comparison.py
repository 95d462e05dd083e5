"""Two runs of the same queries, side by side: what changed, and what was predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.diagnosis.analysis import Diagnosis, QueryDiagnosis
from penstock.diagnosis.bootstrap import Batches, Estimate, difference, ratio
from penstock.diagnosis.causes import Cause
from penstock.diagnosis.patient import Cure
from penstock.errors import PenstockError
from penstock.policies.kernels import Float64

# Batches whose mean numbers of records differ by more are compared by the time of a record.
_SAME_SIZE = 0.10
_FEW = 5
# Causes that take a smaller share of the time, before and after, are left out.
_SMALLEST_SHARE = 0.01


@dataclass(frozen=True)
class CauseChange:
    """A cause in both runs.

    Attributes:
        cause: the cause.
        before_s: its time in a batch before.
        after_s: its time in a batch after.
        saved_s: difference of both, with its interval.
    """

    cause: Cause
    before_s: float
    after_s: float
    saved_s: Estimate


@dataclass(frozen=True)
class Comparison:
    """Two runs of a query.

    Attributes:
        name: name of the query.
        before_s: duration of each batch before.
        after_s: duration of each batch after.
        per_record: whether times of records are compared, not those of batches.
        gain: how many times as fast it is after.
        predicted: cures that were predicted for the first run.
        causes: causes that took time in a run, those that saved the most first.
        notes: sentences about limits of the comparison.
        measured: what `before_s` and `after_s` are the times of.
    """

    name: str
    before_s: Float64
    after_s: Float64
    per_record: bool
    gain: Estimate
    predicted: tuple[Cure, ...]
    causes: tuple[CauseChange, ...]
    notes: tuple[str, ...]
    measured: str = "a batch"

    @property
    def changed(self) -> bool:
        """Whether the change is larger than the noise between batches."""
        return not self.gain.low <= 1 <= self.gain.high

    def fits(self, cure: Cure) -> bool:
        """Whether the interval of the achieved gain and that of a cure overlap."""
        return self.gain.low <= cure.high and cure.low <= self.gain.high

    def document(self) -> dict[str, Any]:
        """Return the comparison in the form of its JSON file."""
        return {
            "name": self.name,
            "batches": {"before": self.before_s.size, "after": self.after_s.size},
            "seconds": {
                "before": round(float(self.before_s.mean()), 4),
                "after": round(float(self.after_s.mean()), 4),
            },
            "per_record": self.per_record,
            "changed": self.changed,
            "gain": _rounded(self.gain, "gain"),
            "predicted": [
                {
                    "cure": cure.cure,
                    "gain": round(cure.gain, 3),
                    "low": round(cure.low, 3),
                    "high": round(cure.high, 3),
                    "fits": self.fits(cure),
                }
                for cure in self.predicted
            ],
            "causes": [
                {
                    "cause": str(one.cause),
                    "before": round(one.before_s, 4),
                    "after": round(one.after_s, 4),
                    **_rounded(one.saved_s, "saved"),
                }
                for one in self.causes
            ],
            "notes": list(self.notes),
        }


def _rounded(estimate: Estimate, name: str) -> dict[str, float]:
    mid, low, high = (round(number, 4) for number in estimate)
    return {name: mid, "low": low, "high": high}


def compare(before: Diagnosis, after: Diagnosis, query: str | None = None) -> list[Comparison]:
    """Compare the queries that two applications have in common.

    Args:
        before: diagnosis of the first run.
        after: diagnosis of the second run.
        query: name of the query to compare; all by default.

    Raises:
        PenstockError: if they have no query in common.
    """
    pairs = _pairs(before.queries, after.queries, query)
    if not pairs:
        names = [", ".join(q.name for q in one.queries[:5]) or "none" for one in (before, after)]
        asked = f" named {query!r}" if query else ""
        raise PenstockError(
            f"BEFORE and AFTER must have a query{asked} in common; BEFORE has {names[0]}; AFTER "
            f"has {names[1]}"
        )
    return [_compared(one, other) for one, other in pairs]


def _pairs(
    before: Sequence[QueryDiagnosis], after: Sequence[QueryDiagnosis], query: str | None
) -> list[tuple[QueryDiagnosis, QueryDiagnosis]]:
    """Return queries of the same name; the only streaming query of both may have changed it."""
    later = {one.name: one for one in reversed(after)}
    found = [
        (one, later[one.name])
        for one in before
        if one.name in later and query in {None, one.name} and one.examined
    ]
    streams = [[one for one in side if one.streaming] for side in (before, after)]
    if not found and query is None and all(len(side) == 1 for side in streams):
        return [(streams[0][0], streams[1][0])]
    streaming = [pair for pair in found if pair[0].streaming]
    return streaming or found


def _compared(before: QueryDiagnosis, after: QueryDiagnosis) -> Comparison:
    rows = [np.array([batch.rows or 0 for batch in one.examined]) for one in (before, after)]
    known = all((own > 0).all() for own in rows)
    per_record = known and bool(abs(rows[0].mean() / rows[1].mean() - 1) > _SAME_SIZE)
    weights = [own.astype(np.float64) if per_record else np.ones(own.size) for own in rows]
    times_s = [_durations_s(one) for one in (before, after)]
    gain = ratio(Batches(times_s[0], weights[0]), Batches(times_s[1], weights[1]))
    return Comparison(
        name=before.name,
        before_s=times_s[0],
        after_s=times_s[1],
        per_record=per_record,
        gain=gain,
        predicted=before.cures,
        causes=_changes(before, after),
        notes=tuple(_notes(before, after, per_record=per_record)),
    )


def _durations_s(query: QueryDiagnosis) -> Float64:
    return np.array([batch.duration_ms for batch in query.examined]) / 1000


def _seconds_of(query: QueryDiagnosis, cause: Cause) -> Float64:
    """Return the time of a cause in each examined batch."""
    own = [sum(one.causes_ms.get(cause, 0.0) for one in splits) for splits in query.splits]
    return np.array(own) / 1000


def _changes(before: QueryDiagnosis, after: QueryDiagnosis) -> tuple[CauseChange, ...]:
    usual_s = max(float(_durations_s(before).mean()), float(_durations_s(after).mean()))
    found = []
    for cause in Cause:
        both = [_seconds_of(one, cause) for one in (before, after)]
        means = [float(own.mean()) if own.size else 0.0 for own in both]
        if max(means) < _SMALLEST_SHARE * usual_s:
            continue
        batches = [Batches(own, np.ones(own.size)) for own in both]
        found.append(CauseChange(cause, means[0], means[1], difference(batches[0], batches[1])))
    return tuple(sorted(found, key=lambda one: -one.saved_s.mid))


def _notes(before: QueryDiagnosis, after: QueryDiagnosis, *, per_record: bool) -> list[str]:
    notes = []
    if per_record:
        notes.append("Batches have other numbers of records: the time of a record is compared.")
    if before.slots != after.slots:
        notes.append(f"The cluster had {before.slots} slots before, and {after.slots} after.")
    few = min(len(before.examined), len(after.examined))
    if few < _FEW:
        noun = "batch" if few == 1 else "batches"
        notes.append(f"A run has only {few} {noun}: the interval is too narrow to be trusted.")
    if before.name != after.name:
        notes.append(f"The query is called {after.name!r} after.")
    return notes
