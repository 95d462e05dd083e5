"""When records came to a query and when they were done: curves over time, cut into periods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.policies.kernels import Float64
from penstock.policies.scaling import History, Observed

# Periods that are kept: more than any scaler looks back.
KEPT = 120


@dataclass(frozen=True)
class Work:
    """What an operator has done since the query was first looked at.

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
        work: what each operator had done by the end of it, in total.
        state_bytes: memory that the query's state takes.
    """

    began_s: float
    taken_s: float
    rows: float
    behind: float
    work: Mapping[str, Work]
    state_bytes: float = 0.0


class Timeline:
    """Turns the batches of a query into a scaler's history of periods.

    What a batch reads has come between the beginning of the batch before and its own; a source
    that is behind tells how much more has. So the arrivals are known up to the last beginning, and
    are taken to go on as before from there. What is done is known at the end of batches. Between
    these points records are spread evenly.

    Waiting for the next batch to begin is no congestion, so only these records are pending: what
    sources are behind by, and what came while a batch ran for longer than its trigger interval.

    Args:
        operators: names, in the order in which records go through them.
        period_s: length of a period.
        interval_s: of the query's trigger; None if batches follow one another.

    Example:
        >>> line = Timeline(["sink"], period_s=10.0, interval_s=5.0)
        >>> for i in range(5):
        ...     line.add(Look(5.0 * i, 4.0, 50, 0, {"sink": Work(50 * i, 50 * i, 4000 * i)}))
        >>> seen = line.history(20.0, {"sink": 1}, {"sink": 9}, active=False).operators["sink"]
        >>> seen.received, seen.mean_cost_ms, seen.pending
        (array([100., 100.]), 80.0, 0.0)
    """

    def __init__(self, operators: Sequence[str], period_s: float, interval_s: float | None) -> None:
        self.operators = tuple(operators)
        self.period_s = period_s
        self.interval_s = interval_s
        self._looks: list[Look] = []
        self._arrived: list[float] = []

    def add(self, look: Look) -> None:
        """Add the newest look."""
        if self._looks:
            before = self._looks[-1]
            if look.began_s <= before.began_s:
                return
            came = max(0.0, look.rows + look.behind - before.behind)
            self._arrived.append(self._arrived[-1] + came)
        else:
            # When the first records came nobody knows: the stream begins here.
            self._arrived.append(0.0)
        self._looks.append(look)
        self._forget(look.began_s - (KEPT + 2) * self.period_s)

    def _forget(self, before_s: float) -> None:
        while len(self._looks) > 2 and self._looks[1].began_s < before_s:
            del self._looks[0], self._arrived[0]

    def history(
        self, now_s: float, degrees: Mapping[str, int], unchanged: Mapping[str, int], active: bool
    ) -> History:
        """Return what was seen up to now, in whole periods.

        Args:
            now_s: seconds since 1970.
            degrees: instances of each operator.
            unchanged: periods since they were changed.
            active: whether the query is at work, and not waiting for data or its next trigger.
        """
        ends_s = self._ends_s(now_s)
        arrived = np.diff(self._arrivals(ends_s))
        pending = self.pending(now_s, active)
        found = {}
        for name in self.operators:
            work = self._work(name, ends_s)
            processed, emitted, busy_ms = (np.diff(one) for one in work)
            done = processed > 1e-9
            cost_ms = np.full(processed.size, np.nan)
            cost_ms[done] = busy_ms[done] / processed[done]
            first = name == self.operators[0]
            found[name] = Observed(
                arrived if first else processed,
                processed,
                emitted,
                cost_ms,
                pending if first else 0.0,
                degrees[name],
                unchanged[name],
            )
        return History(self.period_s, found)

    def pending(self, now_s: float, active: bool) -> float:
        """Return how many records wait for want of capacity."""
        if not self._looks:
            return 0.0
        last = self._looks[-1]
        late_s = self._late_s(now_s, active)
        return last.behind + late_s * self.rate_per_s

    @property
    def state_bytes(self) -> float:
        """Memory that the query's state takes."""
        return self._looks[-1].state_bytes if self._looks else 0.0

    @property
    def rate_per_s(self) -> float:
        """At which rate records have come in the last period that is known."""
        if len(self._looks) < 2:
            return 0.0
        end_s = self._looks[-1].began_s
        begin_s = max(end_s - self.period_s, self._looks[0].began_s)
        # At least one whole interval between two looks.
        begin_s = min(begin_s, self._looks[-2].began_s)
        known = self._known_arrivals(np.array([begin_s, end_s]))
        return float(known[1] - known[0]) / (end_s - begin_s)

    def _late_s(self, now_s: float, active: bool) -> float:
        """Return by how much the last batch, or the one that runs, overruns its interval."""
        if self.interval_s is None:
            return 0.0
        last = self._looks[-1]
        overrun_s = last.taken_s - self.interval_s
        if active:
            next_s = last.began_s + max(self.interval_s, last.taken_s)
            overrun_s = max(overrun_s, now_s - next_s - self.interval_s)
        return max(0.0, overrun_s)

    def _ends_s(self, now_s: float) -> Float64:
        """Return where the known periods begin and end, up to now."""
        seen_s = now_s - self._looks[0].began_s if self._looks else 0.0
        periods = min(KEPT, int(seen_s / self.period_s + 1e-9))
        back: Float64 = np.arange(periods, -1.0, -1.0)
        return now_s - self.period_s * back

    def _arrivals(self, at_s: Float64) -> Float64:
        """Return how many records had come, with the present rate where it is not yet known."""
        known = self._known_arrivals(at_s)
        if not self._looks:
            return known
        beyond_s: Float64 = np.maximum(0.0, at_s - self._looks[-1].began_s)
        expected: Float64 = known + beyond_s * self.rate_per_s
        return expected

    def _known_arrivals(self, at_s: Float64) -> Float64:
        if not self._looks:
            return np.zeros(at_s.size)
        began_s = [look.began_s for look in self._looks]
        known: Float64 = np.interp(at_s, began_s, self._arrived)
        return known

    def _work(self, name: str, at_s: Float64) -> tuple[Float64, Float64, Float64]:
        looks = [look for look in self._looks if name in look.work]
        if not looks:
            nothing = np.zeros(at_s.size)
            return nothing, nothing, nothing
        ended_s = [look.began_s + look.taken_s for look in looks]
        done = np.array(
            [[w.processed, w.emitted, w.busy_ms] for w in (k.work[name] for k in looks)]
        )
        processed, emitted, busy_ms = (np.interp(at_s, ended_s, one) for one in done.T)
        return processed, emitted, busy_ms
