"""When records came to a query and when they were done: curves over time, cut into periods."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.policies.kernels import Float64
from penstock.policies.scaling import Observed

# Periods that are kept: more than any scaler looks back; and looks, however short they are.
KEPT = 120
_LOOKS = 10_000


@dataclass(frozen=True)
class Work:
    """What has been done since a query was first looked at.

    Attributes:
        processed: records.
        emitted: records.
        busy_ms: time of tasks.
    """

    processed: float
    emitted: float
    busy_ms: float


@dataclass(frozen=True)
class Look:
    """A query's look at its sources: a batch, or nothing new.

    Attributes:
        began_s: when it began, in seconds since 1970.
        taken_s: how long it took.
        rows: records that it read.
        behind: records that the sources still had to give, as far as they tell.
        work: what the query had done by the end of it; None if that is not known.
        state_bytes: memory that the query's state takes.
        operators: what single operators had done, for people.
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
    """What a query does now.

    Attributes:
        active: whether it is at work, and not waiting for data or its next trigger.
        rows: records that its batch has read; those that are known, there may be more.
        began_s: when its batch began, in seconds since 1970; None if that is not known.
    """

    active: bool
    rows: float = 0.0
    began_s: float | None = None


class Timeline:
    """Turns the batches of a query into a scaler's history of periods.

    What a batch reads has come between the beginning of the batch before and its own; a source
    that is behind tells how much more has. So the arrivals are known up to the last beginning, and
    are taken to go on as before from there. What is done is known at the end of batches. Between
    these points records are spread evenly.

    Waiting for the next batch to begin is no congestion, so only these records are pending: what
    sources are behind by, and what came while a batch ran for longer than its trigger interval.

    Args:
        period_s: length of a period.
        interval_s: of the query's trigger; None if batches follow one another.

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
            # When the first records came nobody knows: the stream begins here.
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
        self, now_s: float, running: Running, degree: int, unchanged: int = 1_000_000
    ) -> Observed:
        """Return what was seen up to now, in whole periods.

        Args:
            now_s: seconds since 1970.
            running: what the query does now.
            degree: instances.
            unchanged: periods since their number was changed.
        """
        ends_s = self._ends_s(now_s)
        processed, emitted, busy_ms = (np.diff(one) for one in self._work(ends_s))
        done = processed > 1e-9
        cost_ms = np.full(processed.size, np.nan)
        cost_ms[done] = busy_ms[done] / processed[done]
        return Observed(
            np.diff(self._arrivals(ends_s, now_s, running)),
            processed,
            emitted,
            cost_ms,
            self.pending(now_s, running),
            degree,
            unchanged,
        )

    def pending(self, now_s: float, running: Running) -> float:
        """Return how many records wait for want of capacity."""
        if not self._looks:
            return 0.0
        late_s = self._late_s(now_s, running)
        return self._looks[-1].behind + late_s * self.rate_per_s(now_s, running)

    def rate_per_s(self, now_s: float, running: Running) -> float:
        """Return at which rate records have come in the last period that is known."""
        return _rate(*self._known(now_s, running), self.period_s)

    def _known(self, now_s: float, running: Running) -> tuple[list[float], list[float]]:
        """Return the points of the curve of arrivals; what the running batch has read is one."""
        if not self._looks or not running.rows:
            return self._began_s, self._arrived
        next_s = min(self._next_s() if running.began_s is None else running.began_s, now_s)
        passed_s = next_s - self._began_s[-1]
        came = running.rows - self._looks[-1].behind
        # What is not known yet, or still waits in a source, is taken to come as before.
        if passed_s <= 0 or came <= passed_s * _rate(self._began_s, self._arrived, self.period_s):
            return self._began_s, self._arrived
        return [*self._began_s, next_s], [*self._arrived, self._arrived[-1] + came]

    def _next_s(self) -> float:
        """Return when the batch after the last one has begun, or will."""
        last = self._looks[-1]
        return last.began_s + max(self.interval_s or 0.0, last.taken_s)

    def _late_s(self, now_s: float, running: Running) -> float:
        """Return by how much the last batch, or the one that runs, overruns its interval."""
        if self.interval_s is None:
            return 0.0
        overrun_s = self._looks[-1].taken_s - self.interval_s
        if running.active:
            overrun_s = max(overrun_s, now_s - self._next_s() - self.interval_s)
        return max(0.0, overrun_s)

    def _ends_s(self, now_s: float) -> Float64:
        """Return where the known periods begin and end, up to now."""
        seen_s = now_s - self._looks[0].began_s if self._looks else 0.0
        periods = min(KEPT, int(seen_s / self.period_s + 1e-9))
        back: Float64 = np.arange(periods, -1.0, -1.0)
        return now_s - self.period_s * back

    def _arrivals(self, at_s: Float64, now_s: float, running: Running) -> Float64:
        """Return how many records had come, with the present rate where it is not yet known."""
        began_s, arrived = self._known(now_s, running)
        if not began_s:
            return np.zeros(at_s.size)
        beyond_s: Float64 = np.maximum(0.0, at_s - began_s[-1])
        known: Float64 = np.interp(at_s, began_s, arrived)
        return known + beyond_s * self.rate_per_s(now_s, running)

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


def _rate(at_s: list[float], arrived: list[float], period_s: float) -> float:
    """Return the slope of a curve at its end: over a period, or from one point to the next."""
    if len(at_s) < 2:
        return 0.0
    start_s = min(max(at_s[-1] - period_s, at_s[0]), at_s[-2])
    return (arrived[-1] - float(np.interp(start_s, at_s, arrived))) / (at_s[-1] - start_s)
