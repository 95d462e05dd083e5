"""How many executors an application should have: a scaler's plans, in whole executors."""

import math
from dataclasses import asdict, dataclass, field

from penstock.control.journal import Journal
from penstock.control.timeline import Running, Timeline
from penstock.policies.scaling import History, Observed, Scaler, Topology


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

    def executors(self, degree: int, state_bytes: float = 0.0) -> int:
        """Return how many executors a plan needs.

        Args:
            degree: tasks that should run at a time.
            state_bytes: memory that the query's state takes.
        """
        needed = max(math.ceil(degree / self.slots), self.holding(state_bytes))
        return min(max(needed, self.min_executors), self.max_executors)

    def holding(self, state_bytes: float) -> int:
        """Return how many executors hold a state safely."""
        return math.ceil(state_bytes / self.state_bytes)


@dataclass(frozen=True)
class ExecutorPlan:
    """What to do in the next period, and why.

    Attributes:
        executors: how many the application should have.
        degree: tasks that should run at a time.
        rate_per_s: at which records come.
        pending: records that wait for want of capacity.
        reason: in words.
    """

    executors: int
    degree: int
    rate_per_s: float
    pending: float
    reason: str


@dataclass
class Elasticity:
    """Asks a scaler every period how many executors a query needs.

    Operators of a micro-batch run one after the other, each on all slots. To a scaler a query is
    therefore one operator, a record costs what all of its operators take for it, and an instance
    is a slot. What is planned here is carried out by an engine.

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
        >>> line = Timeline(period_s=10.0, interval_s=5.0)
        >>> for i in range(9):
        ...     line.add(Look(5.0 * i, 6.0, 300, 0, Work(300 * i, 300 * i, 6000 * i)))
        >>> loop = Elasticity("words", Preventive(), Limits(1, 8, 1), line, executors=1)
        >>> plan = loop.plan(40.0, Running(active=True))
        >>> plan.executors, plan.reason
        (2, 'words: critical, forecast 60 records/s against a capacity of 50, 1 -> 2')
    """

    query: str
    scaler: Scaler
    limits: Limits
    timeline: Timeline
    executors: int
    journal: Journal = field(default_factory=Journal)
    dry_run: bool = False

    def __post_init__(self) -> None:
        self._topology = Topology.linear(self.query)
        self._scaler = self.scaler.clone()
        self._scaler.max_degree = self.limits.max_executors * self.limits.slots
        self._scaler.min_degree = min(self.scaler.min_degree, self._scaler.max_degree)
        self._degree = self.executors * self.limits.slots
        self._unchanged = 1_000_000

    def plan(self, now_s: float, running: Running) -> ExecutorPlan:
        """Return what to do in the period that begins.

        Args:
            now_s: seconds since 1970.
            running: what the query does now.
        """
        self._unchanged += 1
        seen = self.timeline.seen(now_s, running, self._degree, self._unchanged)
        history = History(self.timeline.period_s, {self.query: seen})
        planned = self._scaler.plan(self._topology, history)
        degree = planned.degrees[self.query]
        last = self.timeline.last
        state_bytes = last.state_bytes if last else 0.0
        executors = self.limits.executors(degree, state_bytes)
        plan = ExecutorPlan(
            executors,
            degree,
            self.timeline.rate_per_s(now_s, running),
            seen.pending,
            self._reason(planned.reason, degree, executors, state_bytes),
        )
        self._write(seen, plan)
        self._take(plan)
        return plan

    def _reason(self, planned: str, degree: int, executors: int, state_bytes: float) -> str:
        """Return why there should be so many executors."""
        busy, holding = math.ceil(degree / self.limits.slots), self.limits.holding(state_bytes)
        if holding > busy and executors <= holding:
            return f"{planned}; the state needs the memory of {holding}"
        if executors != busy:
            within = f"{self.limits.min_executors} to {self.limits.max_executors}"
            return f"{planned}; within {within} executors"
        return planned

    def _take(self, plan: ExecutorPlan) -> None:
        """Go on with what is planned; what is only planned changes nothing."""
        if self.dry_run:
            return
        if plan.degree != self._degree:
            self._unchanged = 0
        self._degree, self.executors = plan.degree, plan.executors

    def _write(self, seen: Observed, plan: ExecutorPlan) -> None:
        cost_ms = seen.recent_cost_ms(1)
        last = self.timeline.last
        self.journal.write(
            "observation",
            query=self.query,
            executors=self.executors,
            rate_per_s=round(plan.rate_per_s, 3),
            pending=round(plan.pending),
            cost_ms=None if math.isnan(cost_ms) else round(cost_ms, 3),
            operators={name: asdict(one) for name, one in last.operators.items()} if last else {},
        )
        if plan.executors != self.executors or plan.degree != self._degree:
            self.journal.write(
                "plan",
                query=self.query,
                executors=plan.executors,
                degree=plan.degree,
                reason=f"{plan.reason}; {self.executors} -> {plan.executors} executors",
                dry_run=self.dry_run,
            )
