"""A streaming query on executors that come and go, in virtual time: the scaling loop plans them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock.control import Running, ScalingLoop
from penstock.control.fixed_costs import RecordTime
from penstock.control.timeline import Look, Work

POLL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Query:
    """The costs of a query and of its cluster.

    Attributes:
        cost_s: time that a slot takes for a record.
        fixed_s: time of a batch outside of its tasks.
        task_s: fixed time of each slot in a batch.
        cold_s: time by which a new executor delays its first batch.
        lead_s: time from the request of an executor until it joins.
        interval_s: trigger interval.
        period_s: time between two plans.
        most: largest number of executors, with one slot each.
        noise: share by which times of batches vary.
    """

    cost_s: float = 0.04
    fixed_s: float = 0.35
    task_s: float = 0.15
    cold_s: float = 2.0
    lead_s: float = 4.0
    interval_s: float = 2.0
    period_s: float = 10.0
    most: int = 4
    noise: float = 0.1

    def needed(self, per_s: float) -> int:
        """Return the oracle's executors: the fewest whose batches end within their interval."""
        free_s = self.interval_s - self.fixed_s - self.task_s
        return min(self.most, max(1, math.ceil(per_s * self.interval_s * self.cost_s / free_s)))


@dataclass
class Trace:
    """The states of a run, ten times a second."""

    at_s: list[float] = field(default_factory=list)
    executors: list[int] = field(default_factory=list)
    backlog: list[float] = field(default_factory=list)


class Cluster:
    """Runs a query with a scaler.

    Args:
        query: costs of the query and its cluster.
        per_s: arrivals in a second, as a function of time.
        executors: number of executors at the start.
        seed: seed of the noise.
    """

    def __init__(
        self, query: Query, per_s: Callable[[float], float], *, executors: int = 1, seed: int = 0
    ) -> None:
        self.query, self.per_s = query, per_s
        self.trace = Trace()
        self.random = np.random.default_rng(seed)
        self.joined: list[bool] = [True] * executors  # whether each executor is warm
        self.coming: list[float] = []
        self.arrived = self.read = self.done = self.busy_ms = 0.0
        self.began_s = self.ends_s = -1.0
        self.rows = 0.0
        self.slots, self.cold = executors, False
        self.aim = query.most
        self.due_s = 0.0
        self.ended: list[Look] = []
        self.rest = RecordTime()
        self.warming = 0

    def run(self, loop: ScalingLoop, seconds: float, *, start_s: float = 0.0) -> Trace:
        step_s = 0.1
        for step in range(int(seconds / step_s)):
            now_s = start_s + step * step_s
            self.arrived += self.per_s(now_s) * step_s
            self._end_batch(now_s)
            self._join(now_s)
            polls = step % round(POLL_S / step_s) == 0
            if polls:
                for look in self.ended:
                    loop.timeline.add(look)
                self.ended.clear()
            if polls and step and step % round(self.query.period_s / step_s) == 0:
                self._plan(loop, now_s)
            if self.ends_s < 0 and now_s >= self.due_s:
                self._begin_batch(now_s)
            self.trace.at_s.append(now_s)
            self.trace.executors.append(len(self.joined))
            self.trace.backlog.append(self.arrived - self.done)
        return self.trace

    def _plan(self, loop: ScalingLoop, now_s: float) -> None:
        active = self.ends_s >= 0
        running = Running(active, self.rows, self.began_s) if active else Running(False)
        plan = loop.plan(now_s, running)
        more = plan.executors - len(self.joined) - len(self.coming)
        self.coming += [now_s + self.query.lead_s] * max(0, more)
        if more < 0:
            self.coming = self.coming[: max(0, len(self.coming) + more)]
        self.aim = plan.executors

    def _join(self, now_s: float) -> None:
        self.joined += [False] * sum(at_s <= now_s for at_s in self.coming)
        self.coming = [at_s for at_s in self.coming if at_s > now_s]
        if self.ends_s < 0:  # surplus executors leave between batches
            del self.joined[self.aim :]

    def _begin_batch(self, now_s: float) -> None:
        query = self.query
        self.rows = self.arrived - self.read
        self.read = self.arrived
        if self.rows < 1e-9:
            self.due_s = now_s + query.interval_s
            return
        slots = len(self.joined)
        cold_s = 0.0 if all(self.joined) else query.cold_s
        self.joined = [True] * slots
        noise = 1 + query.noise * self.random.uniform(-1, 1)
        fixed_s = (query.fixed_s + query.task_s) * noise
        self.began_s = now_s
        self.ends_s = now_s + fixed_s + cold_s + self.rows * query.cost_s / slots
        if cold_s:
            self.warming = 2
        self.slots, self.cold = slots, self.warming > 0

    def _end_batch(self, now_s: float) -> None:
        if self.ends_s < 0 or now_s < self.ends_s:
            return
        query = self.query
        self.done += self.rows
        if self.warming:
            self.warming -= 1
        else:
            run_ms = 1000 * self.slots * query.task_s + self.rows * 0.5
            self.rest.add(self.rows, run_ms, tasks=self.slots)
        reported_ms = 1000 * self.rows * query.cost_s
        rest_ms = self.rest.beside(self.rows, reported_ms)
        self.busy_ms += reported_ms + (0 if math.isnan(rest_ms) else rest_ms)
        work = Work(self.done, self.done, self.busy_ms)
        self.ended.append(
            Look(
                self.began_s,
                self.ends_s - self.began_s,
                self.rows,
                0.0,
                work,
                slots=self.slots,
                usual=not self.cold,
            )
        )
        intervals = math.floor(self.began_s / query.interval_s + 1e-9) + 1
        self.due_s = max(self.ends_s, intervals * query.interval_s)
        self.ends_s = -1.0


def ramp(second: float) -> float:
    """Records a second of `benchmarks/scale.py`."""
    return 12 * float(np.interp(second, [0, 30, 150, 180, 210], [1, 1, 4, 4, 1]))


@dataclass(frozen=True)
class Summary:
    """A run beside the oracle's.

    Attributes:
        backlog: largest number of records not yet done.
        above: largest number of executors above the oracle's.
        ratio: executor-seconds divided by the oracle's.
        last_s: last second with more than one executor.
    """

    backlog: float
    above: int
    ratio: float
    last_s: float


def summary(query: Query, trace: Trace, per_s: Callable[[float], float]) -> Summary:
    at_s, executors = np.array(trace.at_s), np.array(trace.executors)
    oracle = np.array([query.needed(per_s(second)) for second in at_s])
    return Summary(
        max(trace.backlog),
        int((executors - oracle).max()),
        float(executors.sum() / oracle.sum()),
        float(at_s[executors > 1].max(initial=0.0)),
    )
