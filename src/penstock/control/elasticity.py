"""How many executors an application should have: a scaler's plans, in whole executors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.control.journal import Journal
from penstock.control.timeline import Timeline
from penstock.errors import PenstockError
from penstock.policies.scaling import History, Scaler, Topology


@dataclass(frozen=True)
class Limits:
    """What a plan must keep to.

    Attributes:
        min_executors: at least so many.
        max_executors: at most so many.
        slots: tasks that an executor runs at a time.
        state_bytes: of the query's state, that an executor can hold safely.
    """

    min_executors: int
    max_executors: int
    slots: int
    state_bytes: float = math.inf

    def executors(self, degrees: Mapping[str, int], state_bytes: float = 0.0) -> int:
        """Return how many executors a plan needs.

        Operators of a micro-batch run one after the other, each on all slots; what counts is the
        work of all of them together, and so the sum of their degrees.

        Args:
            degrees: instances that each operator needs.
            state_bytes: memory that the query's state takes.
        """
        busy = math.ceil(sum(degrees.values()) / self.slots)
        holding = math.ceil(state_bytes / self.state_bytes)
        return min(max(busy, holding, self.min_executors), self.max_executors)


@dataclass(frozen=True)
class ExecutorPlan:
    """What to do in the next period, and why.

    Attributes:
        executors: how many the application should have.
        degrees: instances that each operator needs.
        rate_per_s: at which records come.
        pending: records that wait for want of capacity.
        reason: in words.
    """

    executors: int
    degrees: Mapping[str, int]
    rate_per_s: float
    pending: float
    reason: str


@dataclass
class Elasticity:
    """Asks a scaler every period how many executors a query needs.

    It plans only; what it plans is carried out by an engine.

    Args:
        query: how the query is called, for people.
        scaler: what plans.
        limits: of the application.
        timeline: of the query.
        executors: that the application has now.
        journal: where observations and plans are written.
        dry_run: whether plans are only written down.

    Example:
        >>> from penstock.control.timeline import Look, Work
        >>> from penstock.policies.scaling import Preventive
        >>> line = Timeline(["query"], period_s=10.0, interval_s=5.0)
        >>> for i in range(9):
        ...     line.add(Look(5.0 * i, 6.0, 300, 0, {"query": Work(300 * i, 300 * i, 6000 * i)}))
        >>> loop = Elasticity("words", Preventive(), Limits(1, 8, 1), line, executors=1)
        >>> plan = loop.plan(40.0, active=True)
        >>> plan.executors, plan.reason
        (2, 'query: critical, forecast 60 records/s against a capacity of 50, 1 -> 2')
    """

    query: str
    scaler: Scaler
    limits: Limits
    timeline: Timeline
    executors: int
    journal: Journal = field(default_factory=Journal)
    dry_run: bool = False

    def __post_init__(self) -> None:
        names = self.timeline.operators
        if not names:
            raise PenstockError("a timeline must have operators; got none")
        self._topology = Topology.linear(*names)
        most = self.limits.max_executors * self.limits.slots
        self._scaler = self.scaler.clone(
            max_degree=most, min_degree=min(most, self.scaler.min_degree)
        )
        share = max(1, self.executors * self.limits.slots // len(names))
        self._degrees = dict.fromkeys(names, min(share, most))
        self._unchanged = dict.fromkeys(names, 1_000_000)

    def plan(self, now_s: float, active: bool) -> ExecutorPlan:
        """Return what to do in the period that begins.

        Args:
            now_s: seconds since 1970.
            active: whether the query is at work, and not waiting for data or its next trigger.
        """
        history = self.timeline.history(now_s, self._degrees, self._unchanged, active)
        planned = self._scaler.plan(self._topology, history)
        executors = self.limits.executors(planned.degrees, self.timeline.state_bytes)
        reason = planned.reason
        if executors != self.executors and not planned.reasons:
            reason = "the limits, or the memory that the state needs"
        plan = ExecutorPlan(
            executors,
            dict(planned.degrees),
            self.timeline.rate_per_s,
            self.timeline.pending(now_s, active),
            reason,
        )
        self._write(history, plan)
        self._take(plan)
        return plan

    def _take(self, plan: ExecutorPlan) -> None:
        """Go on with what is planned; what is only planned changes nothing."""
        for name in self._unchanged:
            self._unchanged[name] += 1
        if self.dry_run:
            return
        for name, degree in plan.degrees.items():
            if degree != self._degrees[name]:
                self._degrees[name] = degree
                self._unchanged[name] = 0
        self.executors = plan.executors

    def _write(self, history: History, plan: ExecutorPlan) -> None:
        costs = {
            name: None if math.isnan(one.mean_cost_ms) else round(one.mean_cost_ms, 3)
            for name, one in history.operators.items()
        }
        self.journal.write(
            "observation",
            query=self.query,
            executors=self.executors,
            rate_per_s=round(plan.rate_per_s, 3),
            pending=round(plan.pending),
            cost_ms=costs,
        )
        if plan.executors != self.executors or plan.degrees != self._degrees:
            self.journal.write(
                "plan",
                query=self.query,
                executors=plan.executors,
                degrees=dict(plan.degrees),
                reason=f"{plan.reason}; {self.executors} -> {plan.executors} executors",
                dry_run=self.dry_run,
            )
