"""The timeline of a query: curves of arrivals and of work done, cut into periods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Float64
from penstock.policies.scaling import Observed

# Number of periods that are kept, more than any scaler looks back; and largest number of looks.
KEPT = 120
_LOOKS = 10_000


@dataclass(frozen=True)
class Work:
    """The work done since the first look at a query.

    Attributes:
        processed: number of records processed.
        emitted: number of records emitted.
        busy_ms: run time of tasks.
    """

    processed: float
    emitted: float
    busy_ms: float


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
    """

    began_s: float
    taken_s: float
    rows: float
    behind: float
    work: Work | None
    state_bytes: float = 0.0
    operators: Mapping[str, Work] = field(default_factory=dict)


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
        self._looks.append(look)
        self._began_s.append(look.began_s)
        self._forget(look.began_s - (KEPT + 2) * self.period_s)

    def _forget(self, before_s: float) -> None:
        while len(self._looks) > 2 and (
            self._looks[1].began_s < before_s or len(self._looks) > _LOOKS
        ):
            del self._looks[0], self._began_s[0], self._arrived[0]

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
