"""A trace as the simulator takes it: records with arrivals, executors, trigger and overheads."""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.rehearsal.speeds import slowdowns_of
from penstock.rehearsal.trace import RecordedBatch, Trace
from penstock.sim.batch_parts import Overheads, Stage, Worker
from penstock.sim.batches import BatchRun
from penstock.sim.workloads import Stream

# From this number of batches on the first one, which starts Python workers, is left out.
_WITHOUT_FIRST = 4
# Records that are simulated at most; of a longer trace the newest batches are taken.
_MOST_RECORDS = 500_000
# A batch is rehearsed as a whole, record by record.
_LARGEST_BATCH = 10_000_000
# Arrivals that are older on average are times of events, not of arrivals.
_OLDEST_MS = 24 * 3600 * 1000.0
_TASK_MS = 10.0
# Batches that take a larger part of the time from one to the next do not wait for a trigger.
_BUSY = 0.95


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded stream, and the setting in which it was recorded.

    Attributes:
        name: name of the operator or query.
        stream: records in the order of arrival, the first at time 0.
        span_ms: time that the records cover.
        workers: executors.
        instances: number of instances.
        grouping: registered name of the grouping; empty if records are tasks that stay as they are.
        servers: number of records that an instance executes at a time.
        trigger_ms: interval of the trigger; 0 if batches follow one another.
        counts: number of records of each batch.
        limited: whether batches keep these numbers, because arrivals are unknown and batches
            follow one another: a limit of the source is all that is known.
        overheads: time that Spark spends besides the records.
        batches: number of recorded batches.
        measured_ms: measured duration of each batch in which calibration is possible.
        rehearsed_ms: simulated duration of the same batches.
        notes: sentences about assumptions.
    """

    name: str
    stream: Stream
    span_ms: float
    workers: tuple[Worker, ...]
    instances: int
    grouping: str
    servers: int = 1
    trigger_ms: float = 0.0
    counts: tuple[int, ...] = ()
    limited: bool = False
    overheads: Overheads = field(default_factory=Overheads)
    batches: int = 0
    measured_ms: Float64 = field(default_factory=lambda: np.zeros(0))
    rehearsed_ms: Float64 = field(default_factory=lambda: np.zeros(0))
    notes: tuple[str, ...] = ()

    def as_batches(self) -> "Recorded":
        """Return the same stream in batches of the recorded sizes, whenever records arrive."""
        return replace(self, limited=True)

    @property
    def batch_ms(self) -> float:
        """Recorded time from one batch to the next."""
        return self.span_ms / max(1, self.batches)

    @property
    def error(self) -> float:
        """Median relative error of the simulated batches; NaN without any."""
        if not self.measured_ms.size:
            return float("nan")
        return float(np.median(np.abs(self.rehearsed_ms / self.measured_ms - 1)))


def grouping_named(name: str, instances: int, *, servers: int, sized: bool) -> Grouping:
    """Return a grouping in the way of `penstock.balance`, with nothing learnt."""
    parameters = Grouping.registered()[name].parameters() if name in Grouping.registered() else ()
    more = {"servers": servers} if "servers" in parameters else {}
    if sized and "sized" in parameters:
        more["sized"] = True
    return Grouping.named(name, instances=instances, **more)


def recorded(trace: Trace) -> Recorded:
    """Return a trace as a stream, with the setting in which it was recorded."""
    batches = trace.batches[1:] if len(trace.batches) >= _WITHOUT_FIRST else trace.batches
    total = np.cumsum([one.weight.sum() for one in batches[::-1]])
    fitting = max(1, int(np.searchsorted(total, _MOST_RECORDS, side="right")))
    notes = list(trace.notes)
    if fitting < len(batches):
        notes.append(f"Only the newest {fitting} batches are rehearsed.")
    batches = batches[-fitting:]
    largest = max(float(one.weight.sum()) for one in batches)
    if largest < 1:
        raise PenstockError("TRACE must have records; all of its batches are empty")
    if largest > _LARGEST_BATCH:
        raise PenstockError(
            f"TRACE has a batch of {largest:,.0f} records; batches of at most "
            f"{_LARGEST_BATCH:,} records can be rehearsed: record smaller ones"
        )
    last = batches[-1].numbers
    names, workers, speeds = _workers(batches)
    parts = [_expanded(one, names, speeds) for one in batches]
    costs_ms = _filled(parts, batches, notes)
    dated = _dated(batches, parts, notes)
    arrivals_ms = _arrivals(batches, parts, dated=dated)
    sizes = np.concatenate([one.sizes for one in parts])
    keys = np.concatenate([one.keys for one in parts])
    in_batches = Stream(keys, costs_ms, arrivals_ms, None if np.isnan(sizes).all() else sizes)
    order = np.argsort(arrivals_ms, kind="stable")
    start_ms = float(arrivals_ms[order[0]])
    found = Recorded(
        name=trace.operator,
        stream=Stream(
            keys[order],
            costs_ms[order],
            arrivals_ms[order] - start_ms,
            None if in_batches.sizes is None else in_batches.sizes[order],
        ),
        span_ms=_span_ms(batches, arrivals_ms),
        workers=workers,
        instances=max(1, last.instances),
        grouping=last.grouping,
        servers=last.servers,
        trigger_ms=last.trigger_ms or 0.0,
        counts=tuple(one.keys.size for one in parts if one.keys.size),
        limited=not dated and _follow(batches, notes),
        overheads=Overheads(task_ms=_TASK_MS, batch_ms=_batch_ms(batches)),
        batches=len(batches),
        notes=tuple(notes),
    )
    return _calibrated(found, in_batches, batches, parts=parts)


@dataclass(frozen=True, eq=False)
class _Part:
    """The records of one batch, each as often as it stands for records."""

    keys: Int64
    costs_ms: Float64
    sizes: Float64
    arrival_ms: Float64
    shed: Bool


def _expanded(batch: RecordedBatch, names: list[str], speeds: Float64) -> _Part:
    """Repeat sampled records by their weights; costs become those of a usual executor."""
    ends = np.floor(np.cumsum(batch.weight) + 0.5).astype(np.int64)
    often = np.diff(ends, prepend=0)
    place = {name: number for number, name in enumerate(names)}
    factor = np.array([speeds[place[one]] if one in place else 1.0 for one in batch.executors])
    return _Part(
        keys=np.repeat(batch.keys, often),
        costs_ms=np.repeat(batch.costs_ms / factor, often),
        sizes=np.repeat(batch.sizes, often),
        arrival_ms=np.repeat(batch.arrival_ms, often),
        shed=np.repeat(batch.shed, often),
    )


def _workers(batches: list[RecordedBatch]) -> tuple[list[str], tuple[Worker, ...], Float64]:
    """Return names, slots and slowdowns of all executors of the newest batches."""
    slots: dict[str, int] = {}
    for one in batches:
        for name, count in one.numbers.executors.items():
            slots[name] = max(slots.get(name, 0), count)
    if not slots:
        # An operator in front of others knows the duration of batches only: one slot stands for
        # the cluster.
        return [], (Worker(slots=1),), np.ones(0)
    names = sorted(slots)
    known = [
        (one, np.flatnonzero((one.costs_ms > 0) & np.isin(one.executors.astype(str), names)))
        for one in batches
    ]
    speeds = slowdowns_of(
        names,
        keys=np.concatenate([one.keys[some] for one, some in known]),
        executors=[name for one, some in known for name in one.executors[some]],
        costs_ms=np.concatenate([one.costs_ms[some] for one, some in known]),
    )
    workers = [Worker(slots[name], float(speeds[i])) for i, name in enumerate(names)]
    return names, tuple(workers), speeds


def _filled(parts: list[_Part], batches: list[RecordedBatch], notes: list[str]) -> Float64:
    """Return the costs of all records; unknown ones are those of their key, or the mean."""
    if batches[-1].numbers.in_front:
        notes.append("The operator only sheds: all records of a batch have the same cost.")
        return np.concatenate([_even_costs(p, b) for p, b in zip(parts, batches, strict=True)])
    costs_ms = np.concatenate([one.costs_ms for one in parts])
    unknown = np.isnan(costs_ms)
    if unknown.all():
        raise PenstockError("TRACE must have costs of records; all of its records were shed")
    if unknown.any():
        notes.append("Shed records have the mean cost of their key, or that of all keys.")
        _, key = np.unique(np.concatenate([one.keys for one in parts]), return_inverse=True)
        count = np.bincount(key[~unknown], minlength=key.max() + 1)
        total = np.bincount(key[~unknown], costs_ms[~unknown], minlength=key.max() + 1)
        mean_ms = float(costs_ms[~unknown].mean())
        of_key = np.where(count > 0, total / np.maximum(count, 1), mean_ms)
        costs_ms = np.where(unknown, of_key[key], costs_ms)
    return costs_ms


def _even_costs(part: _Part, batch: RecordedBatch) -> Float64:
    admitted = max(1, batch.numbers.received - batch.numbers.shed)
    return np.full(part.keys.size, np.nan_to_num(batch.numbers.duration_ms) / admitted)


def _dated(batches: list[RecordedBatch], parts: list[_Part], notes: list[str]) -> bool:
    """Whether times of arrival are known, and are no times of events."""
    ages_ms = [b.numbers.began_ms - p.arrival_ms for b, p in zip(batches, parts, strict=True)]
    known = np.concatenate(ages_ms)
    known = known[~np.isnan(known)]
    if known.size > 0 and 0 <= float(np.median(known)) < _OLDEST_MS:
        return True
    reason = "are unknown" if not known.size else "are days before their batches"
    notes.append(f"Times of arrival {reason}: records of a batch are spread evenly before it.")
    return False


def _follow(batches: list[RecordedBatch], notes: list[str]) -> bool:
    """Whether batches follow one another, and never wait for a trigger.

    Such batches do not get all that arrives at the recorded rate. Otherwise the smallest error of
    the simulator would let them grow or shrink without end.
    """
    gaps_ms = np.diff([one.numbers.began_ms for one in batches])
    whole = dict(one.numbers.before for one in batches if one.numbers.before is not None)
    lasted_ms = [whole.get(one.numbers.batch, one.numbers.duration_ms) for one in batches[:-1]]
    waits = gaps_ms.size > 0 and float(np.nanmedian(lasted_ms / np.maximum(gaps_ms, 1.0))) < _BUSY
    if batches[-1].numbers.trigger_ms and waits:
        return False
    notes.append("Batches follow one another: they keep their recorded numbers of records.")
    return True


def _arrivals(batches: list[RecordedBatch], parts: list[_Part], *, dated: bool) -> Float64:
    """Return times of arrival; unknown ones are spread evenly since the batch before."""
    began_ms = np.array([one.numbers.began_ms for one in batches])
    gaps_ms = np.diff(began_ms)
    usual_ms = float(np.median(gaps_ms)) if gaps_ms.size else batches[0].numbers.duration_ms
    before_ms = np.concatenate([[began_ms[0] - max(np.nan_to_num(usual_ms), 1.0)], began_ms[:-1]])
    found = []
    for i, part in enumerate(parts):
        count = part.keys.size
        share = (np.arange(count) + 0.5) / max(1, count)
        even = before_ms[i] + (began_ms[i] - before_ms[i]) * share
        own = np.minimum(part.arrival_ms, began_ms[i])
        found.append(np.where(np.isnan(own), even, own) if dated else even)
    return np.concatenate(found)


def _span_ms(batches: list[RecordedBatch], arrivals_ms: Float64) -> float:
    """Return the time that the records cover, with the gap before the next one."""
    spread_ms = float(arrivals_ms.max() - arrivals_ms.min())
    return max(spread_ms * (1 + 1 / max(1, arrivals_ms.size - 1)), 1.0)


def _batch_ms(batches: list[RecordedBatch]) -> float:
    """Return the time of a batch outside of the operator: planning, offsets, commits, others."""
    whole = dict(one.numbers.before for one in batches if one.numbers.before is not None)
    rest = [
        whole[one.numbers.batch] - one.numbers.duration_ms
        for one in batches
        if one.numbers.batch in whole and not one.numbers.in_front
    ]
    return max(0.0, float(np.nanmedian(rest))) if rest else 0.0


def _calibrated(
    found: Recorded, stream: Stream, batches: list[RecordedBatch], *, parts: list[_Part]
) -> Recorded:
    """Simulate the recorded batches, and take what is missing as the time of the routing stage."""
    measured_ms = np.array([one.numbers.duration_ms for one in batches])
    if batches[-1].numbers.in_front or np.isnan(measured_ms).all():
        return found
    bare = replace(found.overheads, batch_ms=0.0)
    name = found.grouping if found.grouping in Grouping.registered() else "round_robin"
    sized = stream.sizes is not None
    grouping = grouping_named(name, found.instances, servers=found.servers, sized=sized)
    run = BatchRun(
        stream, found.workers, 1, servers=found.servers, overheads=bare, schedule=[], seed=0
    )
    durations_ms = np.zeros(len(batches))
    start = 0
    for number, part in enumerate(parts):
        chosen = start + np.flatnonzero(~part.shed)
        if chosen.size:
            durations_ms[number] = run.batch(number, [Stage(grouping)], chosen)
        start += part.keys.size
    rest_ms = measured_ms - durations_ms
    router_ms = max(0.0, float(np.nanmedian(rest_ms[len(rest_ms) // 2 :])))
    known = ~np.isnan(measured_ms) & (durations_ms > 0)
    return replace(
        found,
        overheads=replace(found.overheads, router_ms=router_ms),
        measured_ms=measured_ms[known],
        rehearsed_ms=durations_ms[known] + router_ms,
    )
