"""Cures: what would help, and by how much, with an interval.

A gain of 1.4 means that batches would take 1 / 1.4 of their time. Gains are predicted by scheduling
recorded tasks again; for `balance` records are divided again in the simulator (`rebalance.py`).
"""

from collections.abc import Iterator

import numpy as np

from penstock.diagnosis.causes import Cause, heaviest
from penstock.diagnosis.patient import Cure, Patient, worth
from penstock.diagnosis.provisioning import with_slots
from penstock.diagnosis.queries import Group, Run
from penstock.diagnosis.rebalance import Interval, rebalanced
from penstock.diagnosis.settings import settings_for
from penstock.policies.grouping.list_scheduling import makespan
from penstock.policies.kernels import Float64

# Time that a further shuffle takes, in ms: at best it replaces one; expected, at worst.
_SHUFFLE_MS = Interval(0.0, 100.0, 250.0)
# More slots are requested than are needed at least, so that the backlog shrinks.
_SPARE = 1.25
# Part of the lacking speed that more slots bring at least.
_MOSTLY = 0.7
# Causes that depend on the division of the work into tasks.
_DIVISION = (Cause.TOO_FEW_TASKS, Cause.UNEVEN_COSTS, Cause.HOT_KEYS)
# Stages that are replayed in the simulator.
_REPLAYED = 24
# Smaller tasks that an uneven task is cut into.
_PIECES = 4


def cures_of(patient: Patient) -> list[Cure]:
    """Return the cures that are worth a change, the largest gain first."""
    if not patient.duration_ms:
        return []
    found = [cure for doctor in _DOCTORS for cure in doctor(patient)]
    found.sort(key=lambda cure: -cure.gain)
    return found


def _free(run: Run) -> bool:
    """Return whether records may go to any task, into a function in Python."""
    return run.stage.python and not run.stage.grouped


def _balance(patient: Patient) -> list[Cure]:
    """Divide records by their costs: uneven costs, hot keys of free operators, slow executors."""
    saved = Interval(0.0, 0.0, 0.0)
    causes = (Cause.UNEVEN_COSTS, Cause.HOT_KEYS, Cause.SLOW_EXECUTOR, Cause.TOO_FEW_TASKS)
    helped = [
        (group, own)
        for group, own in patient.stages(_free)
        if sum(own.causes_ms.get(cause, 0.0) for cause in causes[:3]) > 0.1 * own.wall_ms
    ]
    sample = helped[:: -(-len(helped) // _REPLAYED) or 1]
    for group, own in sample:
        curable_ms = sum(own.causes_ms.get(cause, 0.0) for cause in causes)
        speeds = 1 / _slowdowns_of_slots(group, patient.slowdown)
        after = rebalanced(own.work_ms, heaviest(group).tasks, speeds, overhead_ms=own.overhead_ms)
        now_ms = own.ideal_ms + curable_ms
        low = now_ms - after.high - _SHUFFLE_MS.high
        mid = now_ms - after.mid - _SHUFFLE_MS.mid
        high = now_ms - after.low - _SHUFFLE_MS.low
        saved = saved.plus(max(low, 0.0), max(mid, 0.0), max(high, 0.0))
    if not helped:
        return []
    saved = saved.times(len(helped) / len(sample))
    stages = sorted({heaviest(group).stage.name for group, _ in helped})
    what = f"Route the records of {_named(stages)} by their costs."
    return worth(patient.cure("balance", saved, what))


def _slowdowns_of_slots(group: Group, slowdown: Float64) -> Float64:
    """Return the slowdown of each slot; slots without tasks are as fast as others."""
    out = np.ones(group.slots)
    used = np.unique(np.concatenate([run.tasks.executor for run in group.runs])).astype(np.int64)
    each = max(group.slots // max(used.size, 1), 1)
    for place, executor in enumerate(used):
        out[place * each : (place + 1) * each] = slowdown[executor]
    return out


def _spread(patient: Patient) -> list[Cure]:
    """Cut stages that are not in Python into smaller tasks, so that idle slots take the rest."""
    saved = Interval(0.0, 0.0, 0.0)
    for group, own in patient.stages(lambda run: not run.stage.python and not run.stage.grouped):
        uneven_ms = own.causes_ms.get(Cause.UNEVEN_COSTS, 0.0)
        uneven_ms += own.causes_ms.get(Cause.HOT_KEYS, 0.0)
        if uneven_ms < 0.1 * own.wall_ms:
            continue
        pieces = np.repeat(own.work_ms / _PIECES, _PIECES)
        after_ms = makespan(pieces, np.ones(group.slots), own.overhead_ms)
        before_ms = own.ideal_ms + uneven_ms
        saved_ms = max(before_ms - after_ms - _SHUFFLE_MS.mid, 0.0)
        saved = saved.plus(0.0, saved_ms, uneven_ms)
    what = f"Cut uneven tasks into {_PIECES} times as many; a single key or file cannot be cut."
    return worth(patient.cure("repartition", saved, what))


def _aggregate(patient: Patient) -> list[Cure]:
    """Share a hot key between tasks, and merge their partial states."""
    hot_ms = patient.total_ms(Cause.HOT_KEYS, lambda run: run.stage.grouped)
    shuffles = len(patient.treated)
    saved = Interval(
        0.5 * hot_ms - shuffles * _SHUFFLE_MS.high,
        0.8 * hot_ms - shuffles * _SHUFFLE_MS.mid,
        hot_ms - shuffles * _SHUFFLE_MS.low,
    )
    what = "Let several tasks share a hot key, and merge their partial states."
    return worth(patient.cure("aggregate", saved, what))


def _place(patient: Patient) -> list[Cure]:
    """Move state partitions away from crowded or slow executors.

    Partitions are placed again, the longest first. At worst half of the time is saved: loads of
    partitions change from batch to batch, and a plan moves some of them only.
    """
    saved = Interval(0.0, 0.0, 0.0)
    for group, own in patient.stages(lambda run: run.stage.stateful):
        lost_ms = own.causes_ms.get(Cause.CROWDED_STATE, 0.0)
        lost_ms += own.causes_ms.get(Cause.SLOW_EXECUTOR, 0.0)
        if lost_ms < 0.05 * own.wall_ms or not own.work_ms.size:
            continue
        division_ms = sum(own.causes_ms.get(cause, 0.0) for cause in _DIVISION)
        slots = _slowdowns_of_slots(group, patient.slowdown)
        # What remains of the division into tasks, if any executor may have any partition.
        placed_ms = makespan(np.sort(own.work_ms)[::-1], slots, 0.0) - own.ideal_ms
        curable_ms = lost_ms + division_ms
        mid = max(curable_ms - max(placed_ms, 0.0), 0.0)
        saved = saved.plus(0.5 * mid, mid, max(curable_ms, mid))
    what = "Spread the partitions of the state over all executors by their load."
    return worth(patient.cure("attach(place=)", saved, what))


def _scale(patient: Patient) -> list[Cure]:
    """Request more executors, or return some."""
    supply = patient.supply
    if supply.needed is not None:
        return [_with_fewer_slots(patient, supply.needed)]
    if supply.lacking_s <= 0:
        return []
    count = int(np.ceil(supply.slots * supply.arrivals * _SPARE))
    # Tasks of the same number do not use more slots: their number has to grow, too.
    fixed_ms = sum(one.batch.duration_ms - one.batch.stages_ms for one in patient.treated)
    stages_ms = patient.duration_ms - fixed_ms
    even_ms = patient.duration_ms - (fixed_ms + stages_ms * supply.slots / count)
    saved = Interval(0.6, 0.9, 1.0).times(even_ms)
    what = f"Use about {count} slots instead of {supply.slots}, with as many tasks."
    cure = patient.cure("attach(scale=)", saved, what)
    if not supply.limited:
        # A query that keeps up processes as much as arrives, and no more; while a backlog is left,
        # it is as fast as its slots allow.
        most = max(cure.high, supply.arrivals)
        least = 1 + _MOSTLY * (supply.arrivals - 1)
        cure = cure._replace(gain=supply.arrivals, low=least, high=most)
    return worth(cure)


def _with_fewer_slots(patient: Patient, needed: int) -> Cure:
    """Return the price of fewer slots: a gain below 1."""
    slots = patient.supply.slots
    after_ms = sum(with_slots(one, needed, slots) for one in patient.treated)
    slower = patient.duration_ms / after_ms
    what = f"{needed} of {slots} slots are enough: return the others."
    # Tasks that run one after the other do not share caches, disks and cores.
    return Cure("attach(scale=)", slower, 0.85 * slower, (1 + slower) / 2, what)


def _shed(patient: Patient) -> list[Cure]:
    """Drop what cannot be processed in time."""
    supply = patient.supply
    if supply.lacking_s <= 0:
        return []
    part = 1 - 1 / supply.arrivals
    stages_ms = sum(one.batch.stages_ms for one in patient.treated)
    saved = Interval(0.7, 0.9, 1.0).times(part * stages_ms)
    what = f"Drop the records that are too late, about {part:.0%} of them, if results allow it."
    return worth(patient.cure("shed", saved, what))


def _more_tasks(patient: Patient) -> list[Cure]:
    """Cut the work into as many tasks as there are slots."""
    saved = Interval(0.0, 0.0, 0.0)
    names: set[str] = set()
    slots = patient.supply.slots
    for group, own in patient.stages(lambda _: True):
        few_ms = own.causes_ms.get(Cause.TOO_FEW_TASKS, 0.0)
        if few_ms < 0.05 * own.wall_ms or not own.work_ms.size:
            continue
        # As uneven as now at worst, and some more time for each task.
        spread = own.work_ms.std() / max(own.work_ms.mean(), 1e-9)
        rest_ms = own.overhead_ms + min(spread, 1.0) * own.ideal_ms
        curable_ms = few_ms - own.overhead_ms
        saved = saved.plus(
            max(curable_ms - rest_ms - _SHUFFLE_MS.mid, 0.0),
            max(curable_ms - 0.5 * rest_ms, 0.0),
            few_ms,
        )
        names.add(heaviest(group).stage.name)
    shuffled = any(heaviest(group).stage.shuffled for group, _ in patient.stages(lambda _: True))
    setting = "spark.sql.shuffle.partitions" if shuffled else "repartition"
    what = f"Cut {_named(sorted(names))} into {slots} tasks or a multiple."
    if patient.query.streaming and any(r.stage.stateful for r in _runs(patient)):
        what += " A query with state then needs a new checkpoint."
    return worth(patient.cure(setting, saved, what))


def _fewer_tasks(patient: Patient) -> list[Cure]:
    """Merge tasks that are shorter than their overhead is worth."""
    saved_ms = 0.0
    for _, own in patient.stages(lambda run: run.stage.shuffled):
        many_ms = own.causes_ms.get(Cause.TASK_OVERHEAD, 0.0)
        waves = own.work_ms.size / patient.supply.slots
        if waves > 2:
            saved_ms += many_ms * (1 - 1 / waves)
    saved = Interval(0.4, 0.8, 1.0).times(saved_ms)
    what = f"Fewer and longer tasks, for example {2 * patient.supply.slots} instead of the present."
    return worth(patient.cure("spark.sql.shuffle.partitions", saved, what))


def _named(names: list[str]) -> str:
    """Return names of stages, cut to what fits into a sentence.

    Example:
        >>> _named(["start at a.py:3", "save at b.py:7"])
        '"start at a.py:3" and 1 more stage'
    """
    if not names:
        return "its stages"
    first = f'"{names[0][:40]}"'
    more = len(names) - 1
    return first if not more else f"{first} and {more} more stage{'s' if more > 1 else ''}"


def _runs(patient: Patient) -> Iterator[Run]:
    return (run for one in patient.treated for group in one.batch.groups for run in group.runs)


_DOCTORS = (
    _balance,
    _spread,
    _aggregate,
    _place,
    _scale,
    _shed,
    _more_tasks,
    _fewer_tasks,
    settings_for,
)
