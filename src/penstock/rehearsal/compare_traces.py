"""Two traces of an operator, side by side: the achieved gain, and the rehearsed one."""

from dataclasses import replace

import numpy as np

from penstock.diagnosis.bootstrap import Batches, ratio
from penstock.diagnosis.comparison import Comparison
from penstock.diagnosis.patient import Cure
from penstock.errors import PenstockError
from penstock.policies.kernels import Float64
from penstock.rehearsal.recorded import Recorded, recorded
from penstock.rehearsal.scenarios import Scenario, Setting
from penstock.rehearsal.trace import Trace
from penstock.rehearsal.whatif import rehearse

# Batches whose mean numbers of records differ by more are compared by the time of a record.
_SAME_SIZE = 0.10
# Relative error of rehearsed gains, beside that of the check.
_LEAST_ERROR = 0.05


def compare_traces(before: Trace, after: Trace) -> Comparison:
    """Compare the durations of batches; the setting of the second trace is rehearsed on the first.

    Args:
        before: trace of the first run.
        after: trace of the second run.
    """
    times_s, rows = zip(_batches(before), _batches(after), strict=True)
    per_record = bool(abs(rows[0].mean() / max(rows[1].mean(), 1e-9) - 1) > _SAME_SIZE)
    weights = [own if per_record else np.ones(own.size) for own in rows]
    gain = ratio(Batches(times_s[0], weights[0]), Batches(times_s[1], weights[1]))
    notes = [
        "Traces have the time of the operator only: planning, commits and causes are in event logs."
    ]
    if per_record:
        notes.append("Batches have other numbers of records: the time of a record is compared.")
    return Comparison(
        name=before.operator,
        before_s=times_s[0],
        after_s=times_s[1],
        per_record=per_record,
        gain=gain,
        predicted=(_predicted(recorded(before), recorded(after)),),
        causes=(),
        notes=tuple(notes),
    )


def _batches(trace: Trace) -> tuple[Float64, Float64]:
    """Return seconds and records of each batch, without the first one if there are several."""
    chosen = trace.batches[1:] if len(trace.batches) > 1 else trace.batches
    numbers = [one.numbers for one in chosen]
    known = [one for one in numbers if one.duration_ms > 0 and one.received]
    if not known:
        raise PenstockError(f"TRACE: no batch of {trace.operator!r} has a duration and records")
    times_s = np.array([one.duration_ms for one in known]) / 1000
    return times_s, np.array([float(one.received) for one in known])


def _predicted(before: Recorded, after: Recorded) -> Cure:
    """Return the gain of the second setting, rehearsed on the first trace.

    Traces have the time of the operator for the records that a batch had. So batches keep their
    numbers of records, and the time of the rest of the query is left out.
    """
    settings = [
        Setting(len(one.workers), one.instances, one.grouping or "round_robin")
        for one in (before, after)
    ]
    operator = replace(before.as_batches(), overheads=replace(before.overheads, batch_ms=0.0))
    first, second = rehearse(operator, settings, Scenario())
    gain = first.batch_s / max(second.batch_s, 1e-9)
    error = max(_LEAST_ERROR, before.error if before.measured_ms.size else _LEAST_ERROR)
    what = f"{len(after.workers)} executors, {after.instances} instances, {after.grouping}"
    return Cure("rehearsed", gain, gain / (1 + error), gain * (1 + error), what)
