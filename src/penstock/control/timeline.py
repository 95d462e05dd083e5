"""The timeline of a query: curves of arrivals and of work done, cut into periods."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from penstock.control.fixed_costs import FixedTime
from penstock.policies.kernels import Float64
from penstock.policies.scaling import Observed

# Number of periods that are kept, more than any scaler looks back; and largest number of looks.
KEPT = 120
_LOOKS = 10_000
# Least time between two points of the curve of arrivals.
_APART_S = 1e-3
# Looks that outlive the process: those of the periods from which forecasts are made.
_SAVED = 200


@dataclass(frozen=True)
class Work:
    """The work done since the first look at a query.

    Attributes:
        processed: number of records processed.
        emitted: number of records emitted.
        busy_ms: run time of tasks for records.
    """

    processed: float
    emitted: float
    busy_ms: float

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.processed + other.processed,
            self.emitted + other.emitted,
            self.busy_ms + other.busy_ms,
        )


@dataclass(frozen=True)
class Look:
    """A query's look at its sources: a batch, or a trigger without new data.

    Attributes:
        began_s: start, in seconds since 1970.
        taken_s: duration in seconds.
        rows: number of records read.
        behind: backlog of the sources in records, as far as it is known.
        work: work that the query had done by the end; None if it is unknown.
        state_bytes: memory of the query's state.
        operators: work of single operators, for people.
        slots: number of slots that the query had; 0 if it is unknown.
        usual: whether no executor was new: a new one first starts Python and compiles.
        read_s: time at which the records were read, in seconds since 1970; None if it was the
            start. A batch that runs again has the records of its first attempt.
    """

    began_s: float
    taken_s: float
    rows: float
    behind: float
    work: Work | None
    state_bytes: float = 0.0
    operators: Mapping[str, Work] = field(default_factory=dict)
    slots: int = 0
    usual: bool = True
    read_s: float | None = None


@dataclass(frozen=True)
class Running:
    """The present state of a query.

    Attributes:
        active: whether a batch runs; False while it waits for data or for its next trigger.
        rows: number of records that the batch has read, as far as it is known.
        began_s: start of the batch, in seconds since 1970; None if it is unknown.
    """

    active: bool
    rows: float = 0.0
    began_s: float | None = None


class Timeline:
    """Turns the batches of a query into a scaler's history of periods.

    A batch's rows are assumed to have arrived since the previous batch started, plus the change of
    the sources' backlog. Arrivals are thus known up to the last start, and are assumed to go on at
    the same rate from there. The work done is known at the end of batches. Between these points
    records are spread evenly.

    Waiting for the next trigger is no congestion. Pending records are therefore only the sources'
    backlog, and the records that arrived while a batch overran its trigger interval.

    Args:
        period_s: length of a period.
        interval_s: trigger interval of the query; None if batches follow one another.

    Example:
        >>> line = Timeline(period_s=10.0, interval_s=5.0)
        >>> for i in range(5):
        ...     line.add(Look(5.0 * i, 4.0, 50, 0, Work(50 * i, 50 * i, 4000 * i)))
        >>> seen = line.seen(20.0, Running(active=False), degree=1)
        >>> seen.received, seen.mean_cost_ms, seen.pending
        (array([100., 100.]), 80.0, 0.0)
    """

    def __init__(self, period_s: float, interval_s: float | None) -> None:
        self.period_s = period_s
        self.interval_s = interval_s
        self._looks: list[Look] = []
        # When batches began, and how many records had come by then.
        self._began_s: list[float] = []
        self._arrived: list[float] = []
        self._fixed = FixedTime()
        self._unlearnt: list[Look] = []
        self._done_ms = math.nan
        self._before = Work(0.0, 0.0, 0.0)

    def add(self, look: Look) -> None:
        """Add the newest look."""
        if not self._looks:
            # The arrival of the first records is unknown: the stream begins here.
            self._arrived.append(0.0)
        elif look.began_s > self._looks[-1].began_s:
            came = max(0.0, look.rows + look.behind - self._looks[-1].behind)
            self._arrived.append(self._arrived[-1] + came)
        else:
            return
        if look.work is not None:
            look = replace(look, work=look.work + self._before)
        self._learn_fixed(look)
        self._looks.append(look)
        read_s = look.began_s if look.read_s is None else min(look.read_s, look.began_s)
        self._began_s.append(max(read_s, self._began_s[-1] + _APART_S if self._began_s else read_s))
        self._forget(look.began_s - (KEPT + 2) * self.period_s)

    def _learn_fixed(self, look: Look) -> None:
        """Learn the fixed time of batches, up to the last one after which the work is known."""
        if look.rows:
            self._unlearnt = [*self._unlearnt[-_SAVED:], look]
        if look.work is None:
            return
        batches, self._unlearnt = self._unlearnt, []
        done_ms, self._done_ms = self._done_ms, look.work.busy_ms
        busy_ms = look.work.busy_ms - done_ms
        if not batches or not (busy_ms >= 0 and all(one.usual and one.slots for one in batches)):
            return
        work_s = busy_ms / 1000 / len(batches)
        taken_s = math.fsum(one.taken_s for one in batches) / len(batches)
        self._fixed.add(taken_s, work_s=work_s, slots=look.slots)

    @property
    def fixed(self) -> float:
        """Share of the trigger interval that fixed costs of a batch take; 0 without an interval."""
        return self._fixed.seconds / self.interval_s if self.interval_s else 0.0

    def _forget(self, before_s: float) -> None:
        while len(self._looks) > 2 and (
            self._looks[1].began_s < before_s or len(self._looks) > _LOOKS
        ):
            del self._looks[0], self._began_s[0], self._arrived[0]

    def save(self) -> dict[str, Float64]:
        """Return the newest looks and the fixed time, to be kept beyond this process."""
        kept = slice(-_SAVED, None)
        looks = [
            (one.taken_s, one.rows, one.behind, *_as_row(one.work)) for one in self._looks[kept]
        ]
        return {
            "looks": np.array(looks, dtype=np.float64).reshape(-1, 6),
            "began_s": np.array([one.began_s for one in self._looks[kept]]),
            "read_s": np.array(self._began_s[kept]),
            "arrived": np.array(self._arrived[kept]),
            "fixed_s": self._fixed.save(),
        }

    def load(self, saved: Mapping[str, Float64]) -> None:
        """Continue with the looks of an earlier run, before the first look of this one."""
        for began_s, read_s, row in zip(
            saved["began_s"].tolist(), saved["read_s"].tolist(), saved["looks"], strict=True
        ):
            taken_s, rows, behind, processed, emitted, busy_ms = row.tolist()
            look = Look(
                began_s=began_s,
                taken_s=taken_s,
                rows=rows,
                behind=behind,
                work=None if math.isnan(processed) else Work(processed, emitted, busy_ms),
                read_s=read_s,
            )
            self._looks.append(look)
        self._began_s = saved["read_s"].tolist()
        self._arrived = saved["arrived"].tolist()
        self._fixed.load(saved["fixed_s"])
        self._before = next((one.work for one in self._looks[::-1] if one.work), self._before)
        self._done_ms = self._before.busy_ms

    @property
    def last(self) -> Look | None:
        """The newest look."""
        return self._looks[-1] if self._looks else None

    def seen(
        self, now_s: float, running: Running, degree: int, *, unchanged: int = 1_000_000
    ) -> Observed:
        """Return the observation of whole periods up to now.

        Args:
            now_s: present time, in seconds since 1970.
            running: present state of the query.
            degree: present number of instances.
            unchanged: number of periods since that number changed.
        """
        ends_s = self._ends_s(now_s)
        # Counters of an engine may fall when an executor is lost; nothing is undone by it.
        processed, emitted, busy_ms = (np.maximum(np.diff(one), 0.0) for one in self._work(ends_s))
        done = processed > 1e-9
        cost_ms = np.full(processed.size, np.nan)
        cost_ms[done] = busy_ms[done] / processed[done]
        return Observed(
            received=np.maximum(np.diff(self._arrivals(ends_s, now_s, running)), 0.0),
            processed=processed,
            emitted=emitted,
            cost_ms=cost_ms,
            pending=max(0.0, self.pending(now_s, running)),
            degree=max(1, degree),
            unchanged=unchanged,
            fixed=self.fixed,
        )

    def pending(self, now_s: float, running: Running) -> float:
        """Return the number of records that wait for capacity."""
        if not self._looks:
            return 0.0
        late_s = self._late_s(now_s, running)
        return self._looks[-1].behind + late_s * self.rate_per_s(now_s, running)

    def rate_per_s(self, now_s: float, running: Running) -> float:
        """Return the rate of arrivals in the last known period."""
        return self._known(now_s, running).slope(self.period_s)

    def _known(self, now_s: float, running: Running) -> "_Curve":
        """Return the curve of arrivals, with a point for the running batch."""
        known = _Curve(self._began_s, self._arrived)
        if not self._looks or not running.rows:
            return known
        next_s = min(self._next_s() if running.began_s is None else running.began_s, now_s)
        passed_s = next_s - self._began_s[-1]
        came = running.rows - self._looks[-1].behind
        # Unknown rows, and rows that still wait in a source, are assumed to arrive as before.
        if passed_s <= 0 or came <= passed_s * known.slope(self.period_s):
            return known
        return _Curve([*self._began_s, next_s], [*self._arrived, self._arrived[-1] + came])

    def _next_s(self) -> float:
        """Return the start of the batch after the last one, in the past or the future."""
        last = self._looks[-1]
        return last.began_s + max(self.interval_s or 0.0, last.taken_s)

    def _late_s(self, now_s: float, running: Running) -> float:
        """Return the time by which the last or the running batch overruns its interval."""
        if self.interval_s is None:
            return 0.0
        overrun_s = self._looks[-1].taken_s - self.interval_s
        if running.active:
            overrun_s = max(overrun_s, now_s - self._next_s() - self.interval_s)
        return max(0.0, overrun_s)

    def _ends_s(self, now_s: float) -> Float64:
        """Return the boundaries of the known periods, up to now."""
        seen_s = now_s - self._looks[0].began_s if self._looks else 0.0
        periods = min(KEPT, int(seen_s / self.period_s + 1e-9))
        back: Float64 = np.arange(periods, -1.0, -1.0)
        return now_s - self.period_s * back

    def _arrivals(self, at_s: Float64, now_s: float, running: Running) -> Float64:
        """Return the number of arrivals; beyond the known times, at the present rate."""
        curve = self._known(now_s, running)
        if not curve.at_s:
            return np.zeros(at_s.size)
        beyond_s: Float64 = np.maximum(0.0, at_s - curve.at_s[-1])
        known: Float64 = np.interp(at_s, curve.at_s, curve.arrived)
        return known + beyond_s * curve.slope(self.period_s)

    def _work(self, at_s: Float64) -> tuple[Float64, Float64, Float64]:
        known = [(one.began_s + one.taken_s, one.work) for one in self._looks if one.work]
        if not known:
            nothing = np.zeros(at_s.size)
            return nothing, nothing, nothing
        ended_s = [at for at, _ in known]
        return (
            np.interp(at_s, ended_s, [work.processed for _, work in known]),
            np.interp(at_s, ended_s, [work.emitted for _, work in known]),
            np.interp(at_s, ended_s, [work.busy_ms for _, work in known]),
        )


def _as_row(work: Work | None) -> tuple[float, float, float]:
    nan = math.nan
    return (nan, nan, nan) if work is None else (work.processed, work.emitted, work.busy_ms)


class _Curve(NamedTuple):
    """The number of arrivals over time.

    Attributes:
        at_s: times, in seconds since 1970.
        arrived: number of arrivals up to each time.
    """

    at_s: list[float]
    arrived: list[float]

    def slope(self, period_s: float) -> float:
        """Return the slope at the end, over a period or between the last two points."""
        if len(self.at_s) < 2:
            return 0.0
        end_s = self.at_s[-1]
        start_s = min(max(end_s - period_s, self.at_s[0]), self.at_s[-2])
        before = float(np.interp(start_s, self.at_s, self.arrived))
        return (self.arrived[-1] - before) / (end_s - start_s)
