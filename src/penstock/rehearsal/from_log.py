"""An event log as the simulator takes it: its tasks are records that stay as they are."""

from pathlib import Path

import numpy as np

from penstock.diagnosis import find_logs, read_log
from penstock.diagnosis.causes import heaviest
from penstock.diagnosis.executors import slowdowns
from penstock.diagnosis.queries import Batch, Query, Slots, queries_of
from penstock.diagnosis.tasks import Tasks
from penstock.errors import PenstockError
from penstock.policies.kernels import Float64
from penstock.rehearsal.recorded import Recorded
from penstock.sim.batch_parts import Overheads, Worker
from penstock.sim.workloads import Stream

_WITHOUT_FIRST = 4
# Batches that wait for a larger part of their interval are started by a trigger.
_IDLE = 0.05
_NOTE = (
    "An event log has no costs of records: the tasks of the longest stage are rehearsed as they "
    "are, and all other time of a batch is overhead."
)


def recorded_log(path: str | Path, query: str | None = None) -> Recorded:
    """Return the streaming query of an event log, with the setting in which it ran.

    A log has run times of tasks, and no costs of records. So other numbers of executors, rates,
    slow executors and triggers can be rehearsed, and groupings cannot.

    Args:
        path: event log, or the folder of a rolling one.
        query: name of the query; that with the most batches by default.
    """
    logs = find_logs(Path(path))
    if len(logs) > 1:
        raise PenstockError(f"TRACE must be one event log; {str(path)!r} has {len(logs)}")
    log = read_log(logs[0])
    slots = Slots(log)
    found = _chosen([one for one in queries_of(log, slots) if one.streaming], query)
    batches = [one for one in found.batches if one.groups]
    batches = batches[1:] if len(batches) >= _WITHOUT_FIRST else batches
    if not batches:
        raise PenstockError(f"TRACE: no task of query {found.name!r} has ended in this log")
    tasks = [_longest_stage(one) for one in batches]
    slowdown = slowdowns([group for one in batches for group in one.groups], len(log.executors))
    costs_ms = [one.run_ms / slowdown[one.executor.astype(np.int64)] for one in tasks]
    arrivals_ms = _arrivals(batches, [one.size for one in tasks])
    both = zip(batches, tasks, strict=True)
    other_ms = [batch.duration_ms - (own.end_ms - own.start_ms) for batch, own in both]
    overhead_ms = np.concatenate([one.duration_ms - one.run_ms for one in tasks])
    trigger_ms = _trigger_ms(batches)
    counts = slots.of_executors(batches[-1].start_ms)
    known = [Worker(n, float(slowdown[i])) for i, n in enumerate(counts) if n]
    return Recorded(
        name=found.name,
        stream=Stream(
            np.concatenate([one.partition.astype(np.int64) for one in tasks]),
            np.concatenate(costs_ms),
            arrivals_ms - arrivals_ms[0],
        ),
        span_ms=float(batches[-1].start_ms - arrivals_ms[0]),
        workers=tuple(known) or (Worker(slots.at(batches[-1].start_ms)),),
        instances=max(one.size for one in tasks),
        grouping="",
        trigger_ms=trigger_ms,
        counts=tuple(one.size for one in tasks),
        limited=not trigger_ms,
        overheads=Overheads(
            task_ms=max(0.0, float(np.median(overhead_ms))),
            batch_ms=max(0.0, float(np.median(other_ms))),
        ),
        batches=len(batches),
        notes=(_NOTE,),
    )


def _chosen(queries: list[Query], name: str | None) -> Query:
    """Return the query of a name, or that with the most batches."""
    if not queries:
        raise PenstockError("TRACE must have a streaming query; this event log has none")
    if name is None:
        return max(queries, key=lambda one: len(one.batches))
    for one in queries:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in queries)
    raise PenstockError(f"TRACE has no query {name!r}; it has {names}")


def _longest_stage(batch: Batch) -> Tasks:
    """Return the tasks of the stage with the most work, by their partitions."""
    runs = [heaviest(group) for group in batch.groups]
    tasks = max(runs, key=lambda run: float(run.tasks.run_ms.sum())).tasks
    return tasks.chosen(np.argsort(tasks.partition, kind="stable"))


def _arrivals(batches: list[Batch], counts: list[int]) -> Float64:
    """Spread the tasks of each batch evenly over the time since the start of the one before."""
    starts_ms = np.array([one.start_ms for one in batches])
    gap_ms = float(np.median(np.diff(starts_ms))) if len(batches) > 1 else batches[0].duration_ms
    before_ms = np.concatenate([[starts_ms[0] - gap_ms], starts_ms[:-1]])
    parts = [
        a + (b - a) * (np.arange(count) + 0.5) / count
        for a, b, count in zip(before_ms, starts_ms, counts, strict=True)
    ]
    return np.concatenate(parts)


def _trigger_ms(batches: list[Batch]) -> float:
    """Return the interval of the trigger, if batches wait for one; 0 otherwise."""
    gaps_ms = np.diff([one.start_ms for one in batches])
    if not gaps_ms.size:
        return 0.0
    idle = 1 - np.array([one.duration_ms for one in batches[:-1]]) / np.maximum(gaps_ms, 1.0)
    return float(np.median(gaps_ms)) if np.median(idle) > _IDLE else 0.0
