"""Cures that are settings of Spark or of the cluster, and their predicted gains."""

from penstock.diagnosis.causes import Cause
from penstock.diagnosis.patient import Cure, Patient, worth
from penstock.diagnosis.rebalance import Interval

# Linux delays the bytes of a task by this much on the way to a Python worker (delayed
# acknowledgements of TCP).
_SOCKET_MS = 40.0
_SOCKETS_SINCE = (4, 1)
_SOCKETS = "spark.python.unix.domain.socket.enabled"


def settings_for(patient: Patient) -> list[Cure]:
    """Return the settings that are worth a change."""
    return [cure for doctor in _DOCTORS for cure in doctor(patient)]


def _sockets(patient: Patient) -> list[Cure]:
    """Talk to Python workers without the delays of TCP."""
    used = patient.settings.get(_SOCKETS, "false").lower() == "true"
    if used or _parsed(patient.version) < _SOCKETS_SINCE:
        return []
    saved_ms = 0.0
    for group, own in patient.stages(lambda run: run.stage.python):
        tasks = sum(run.tasks.run_ms.size for run in group.runs)
        saved_ms += min(_SOCKET_MS * -(-tasks // group.slots), own.ideal_ms)
    saved = Interval(0.0, 0.5, 1.0).times(saved_ms)
    what = f"Set {_SOCKETS}=true: data reach Python workers without a delay."
    return worth(patient.cure("unix domain sockets", saved, what))


def _parsed(version: str) -> tuple[int, ...]:
    """Return the numbers of a version of Spark.

    Example:
        >>> _parsed("4.3.0-SNAPSHOT"), _parsed("")
        ((4, 3), ())
    """
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _slow(patient: Patient) -> list[Cure]:
    """Replace a slow executor by a usual one; its slowdown is known to about a quarter."""
    slow_ms = patient.total_ms(Cause.SLOW_EXECUTOR)
    saved = Interval(0.6, 1.0, 1.25).times(slow_ms)
    what = "Replace the slow executor, or set spark.speculation=true for long tasks."
    return worth(patient.cure("replace the executor", saved, what))


# Causes that a setting cures: its name, shares of the time that it saves, and the advice.
_SETTINGS: dict[Cause, tuple[str, Interval, str]] = {
    # Living objects are copied whatever the heap: four times the memory saved a quarter to a third
    # of the collections in `benchmarks/diagnose_jobs.py`; full collections would disappear.
    Cause.GARBAGE_COLLECTION: (
        "spark.executor.memory",
        Interval(0.0, 0.35, 0.95),
        "Give executors more memory, or fewer cores each; create fewer objects.",
    ),
    Cause.DISK_SPILL: (
        "spark.executor.memory",
        Interval(0.2, 0.6, 1.0),
        "Give executors more memory, or cut the work into more tasks. The time is an estimate.",
    ),
    Cause.FETCH_WAIT: (
        "spark.reducer.maxSizeInFlight",
        Interval(0.0, 0.3, 0.8),
        "Fetch more at a time; look at network and disks of the senders.",
    ),
    Cause.PYTHON_START: (
        "spark.python.worker.reuse",
        Interval(0.2, 0.7, 1.0),
        "Keep Python workers, and import less at their start.",
    ),
    Cause.LOCALITY_WAIT: (
        "spark.locality.wait",
        Interval(0.3, 0.7, 1.0),
        "Set it to 0: tasks then take free slots instead of waiting for near ones.",
    ),
    Cause.FAILED_TASKS: (
        "look at failed tasks",
        Interval(0.5, 0.9, 1.0),
        "Tasks failed or were killed, and ran again: their errors are in Spark's own pages.",
    ),
}


def _plain_settings(patient: Patient) -> list[Cure]:
    found = []
    for cause, (name, shares, what) in _SETTINGS.items():
        found += worth(patient.cure(name, shares.times(patient.total_ms(cause)), what))
    return found


def _trigger(patient: Patient) -> list[Cure]:
    """Share the fixed time of a batch between more records."""
    if patient.supply.lacking_s <= 0:
        return []
    fixed_ms = sum(one.batch.duration_ms - one.batch.stages_ms for one in patient.treated)
    saved = Interval(0.2, 0.5, 0.8).times(fixed_ms)
    what = "Larger batches share planning, offsets and commits: a longer trigger or larger limits."
    return worth(patient.cure("trigger", saved, what))


_DOCTORS = (_sockets, _slow, _plain_settings, _trigger)
