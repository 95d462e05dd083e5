"""The diagnosis of queries: where their time goes, the main cause, and cures."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.diagnosis.causes import Cause, Split, split
from penstock.diagnosis.cures import cures_of
from penstock.diagnosis.executors import slowdowns
from penstock.diagnosis.log import Log
from penstock.diagnosis.patient import Cure, Patient
from penstock.diagnosis.provisioning import Supply, Treated, supply_of
from penstock.diagnosis.queries import Batch, Query, Slots, queries_of

# A smaller share of the time is no main cause.
_NOTABLE = 0.10
# The first batches load classes, compile code and start Python workers.
_WARM_UP = {4: 1, 8: 2}
# Delays of the driver are reported with the times, not as a disease of its own.
_NO_MAIN_CAUSE = (Cause.LATE_TASKS,)
# Smaller shares are left out.
_SMALLEST_SHARE = 0.005


@dataclass(frozen=True)
class Share:
    """The part of a cause in the time of a query.

    Attributes:
        cause: the cause.
        seconds: time of it in all examined batches.
        share: part of the batches' time; of the whole time for `over_provisioned`.
    """

    cause: Cause
    seconds: float
    share: float


@dataclass(frozen=True)
class QueryDiagnosis:
    """The diagnosis of one query.

    Attributes:
        name: name of the query.
        streaming: whether it is a streaming query.
        batches: number of its batches.
        examined: batches without the first ones and without those that had no records.
        slots: number of slots of the cluster.
        main_cause: cause with the largest share, or `healthy`.
        causes: causes with their shares, the largest first.
        cures: cures with their predicted gains, the largest first.
        time_s: time of the examined batches by phase, and of waits between them.
        splits: split of each group of stages, for each examined batch.
        notes: sentences about data that is missing.
    """

    name: str
    streaming: bool
    batches: int
    examined: tuple[Batch, ...]
    slots: int
    main_cause: Cause
    causes: tuple[Share, ...]
    cures: tuple[Cure, ...]
    time_s: dict[str, float]
    splits: tuple[tuple[Split, ...], ...]
    notes: tuple[str, ...]

    @property
    def duration_s(self) -> float:
        """Time of all examined batches."""
        return sum(batch.duration_ms for batch in self.examined) / 1000

    @property
    def worst(self) -> int:
        """Place of the examined batch that lost the most time."""
        lost = [sum(one.wall_ms - one.ideal_ms for one in own) for own in self.splits]
        return max(range(len(lost)), key=lost.__getitem__)


@dataclass
class Diagnosis:
    """The diagnosis of an application.

    Attributes:
        name: name of the application.
        version: version of Spark.
        queries: streaming queries, then others by their time.
        executors: names of its executors.
        notes: sentences about data that is missing.
    """

    name: str
    version: str
    queries: list[QueryDiagnosis] = field(default_factory=list)
    executors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the diagnosis in the form of its JSON file."""
        return {
            "application": self.name,
            "spark": self.version,
            "notes": self.notes,
            "queries": [_document(query) for query in self.queries],
        }


def diagnose(log: Log, only: int | None = None) -> Diagnosis:
    """Return the diagnosis of all queries of a log.

    Args:
        log: log that `read_log` returned.
        only: largest number of queries; None for all of them.
    """
    slots = Slots(log)
    found = queries_of(log, slots)
    notes = log.notes
    if not found:
        notes.append("No task has ended in this log: there is nothing to diagnose.")
    return Diagnosis(
        name=log.name,
        version=log.version,
        queries=[_diagnosed(query, log, slots) for query in found[:only]],
        executors=[executor.name for executor in log.executors],
        notes=notes,
    )


def _examined(query: Query) -> list[Batch]:
    """Return the batches that a diagnosis rests on."""
    # A query that is stopped leaves a batch without a report, some of whose tasks never end.
    batches = [batch for batch in query.batches if batch.reported] or query.batches
    full = [batch for batch in batches if batch.rows != 0 and batch.groups]
    full = full or [batch for batch in query.batches if batch.groups] or query.batches
    if not query.streaming:
        return full
    skipped = max((n for least, n in _WARM_UP.items() if len(full) >= least), default=0)
    return full[skipped:]


def _diagnosed(query: Query, log: Log, slots: Slots) -> QueryDiagnosis:
    batches = _examined(query)
    slowdown = slowdowns([g for batch in batches for g in batch.groups], len(log.executors))
    splits = [
        tuple(split(group, slowdown, slots.of_executors(group.start_ms)) for group in batch.groups)
        for batch in batches
    ]
    total: dict[Cause, float] = defaultdict(float)
    for own in splits:
        for one in own:
            for cause, value in one.causes_ms.items():
                total[cause] += value / 1000
    treated = [Treated(batch, own) for batch, own in zip(batches, splits, strict=True)]
    supply = supply_of(query, treated)
    shares = _shares(total, batches, supply)
    main = next((one for one in shares if one.cause not in _NO_MAIN_CAUSE), None)
    patient = Patient(
        query, treated, supply, settings=log.settings, version=log.version, slowdown=slowdown
    )
    cures = cures_of(patient)
    healthy = main is None or main.share < _NOTABLE
    return QueryDiagnosis(
        name=query.name,
        streaming=query.streaming,
        batches=len(query.batches),
        examined=tuple(batches),
        slots=max((group.slots for batch in batches for group in batch.groups), default=1),
        main_cause=Cause.HEALTHY if healthy or main is None else main.cause,
        causes=tuple(shares),
        cures=() if healthy else tuple(cures),
        time_s=_times(query, batches, splits),
        splits=tuple(splits),
        notes=tuple(_missing(query, batches)),
    )


def _shares(total: dict[Cause, float], batches: Sequence[Batch], supply: Supply) -> list[Share]:
    whole_s = sum(batch.duration_ms for batch in batches) / 1000
    found = [
        Share(cause, seconds, seconds / whole_s) for cause, seconds in total.items() if whole_s
    ]
    if supply.lacking_s > 0:
        share = supply.lacking_s / whole_s
        found.append(Share(Cause.UNDER_PROVISIONED, supply.lacking_s, share))
    if supply.needed is not None:
        idle = 1 - supply.needed / supply.slots
        found.append(Share(Cause.OVER_PROVISIONED, idle * supply.elapsed_s, idle))
    found.sort(key=lambda one: -one.share)
    return [one for one in found if one.share >= _SMALLEST_SHARE]


def _times(
    query: Query, batches: Sequence[Batch], splits: Sequence[Sequence[Split]]
) -> dict[str, float]:
    """Return the seconds of each phase; they add up to the time from first start to last end."""
    late = [sum(one.causes_ms.get(Cause.LATE_TASKS, 0.0) for one in own) for own in splits]
    ideal_ms = sum(one.ideal_ms for own in splits for one in own)
    stages_ms = sum(batch.stages_ms for batch in batches) - sum(late)
    found = {
        "planning": sum(batch.planning_ms for batch in batches),
        "offsets_and_commits": sum(batch.offsets_ms for batch in batches),
        "scheduling": sum(batch.scheduling_ms for batch in batches) + sum(late),
        "stages": stages_ms,
        "ideal": ideal_ms,
    }
    if query.streaming and batches:
        elapsed_ms = batches[-1].end_ms - batches[0].start_ms
        known_ms = sum(batch.duration_ms for batch in batches)
        found = {"trigger_wait": max(elapsed_ms - known_ms, 0.0), **found}
    return {name: value / 1000 for name, value in found.items()}


def _missing(query: Query, batches: Sequence[Batch]) -> list[str]:
    notes = list(query.notes)
    tasks = [run.tasks for batch in batches for group in batch.groups for run in group.runs]
    if not any(one.records.any() for one in tasks):
        notes.append("Tasks report no records: hot keys cannot be distinguished from uneven costs.")
    if not any(one.run_ms.any() for one in tasks):
        notes.append("Tasks report no metrics: only their durations are known.")
    if len(batches) < 3:
        noun = "batch" if len(batches) == 1 else "batches"
        notes.append(f"Only {len(batches)} {noun} could be examined: one slow start counts a lot.")
    return notes


def _document(query: QueryDiagnosis) -> dict[str, Any]:
    return {
        "name": query.name,
        "streaming": query.streaming,
        "batches": query.batches,
        "examined": len(query.examined),
        "slots": query.slots,
        "main_cause": str(query.main_cause),
        "seconds": round(query.duration_s, 3),
        "time": {name: round(value, 3) for name, value in query.time_s.items()},
        "causes": [
            {
                "cause": str(one.cause),
                "seconds": round(one.seconds, 3),
                "share": round(one.share, 4),
            }
            for one in query.causes
        ],
        "cures": [
            {
                "cure": cure.cure,
                "gain": round(cure.gain, 3),
                "low": round(cure.low, 3),
                "high": round(cure.high, 3),
                "what": cure.what,
            }
            for cure in query.cures
        ],
        "notes": list(query.notes),
    }
