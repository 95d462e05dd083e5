"""The scaling loop: turns the plans of a scaler into whole executors."""

import math
from dataclasses import KW_ONLY, asdict, dataclass, field

from penstock.control.journal import Journal
from penstock.control.timeline import Running, Timeline
from penstock.policies.scaling import History, Observed, Scaler, Topology


@dataclass(frozen=True)
class Limits:
    """The limits of every plan.

    Attributes:
        min_executors: least number of executors.
        max_executors: largest number of executors.
        slots: number of tasks that an executor runs at a time.
        state_bytes: bytes of the query's state that an executor can hold safely.
    """

    min_executors: int
    max_executors: int
    slots: int
    state_bytes: float = math.inf

    def executors(self, degree: int, state_bytes: float = 0.0) -> int:
        """Return the number of executors that a plan needs.

        Args:
            degree: number of tasks that should run at a time.
            state_bytes: memory of the query's state.
        """
        needed = max(math.ceil(degree / self.slots), self.holding(state_bytes))
        return min(max(needed, self.min_executors), self.max_executors)

    def holding(self, state_bytes: float) -> int:
        """Return the number of executors that hold a state safely."""
        return math.ceil(state_bytes / self.state_bytes)


@dataclass(frozen=True)
class ExecutorPlan:
    """The plan for the next period, with its reason.

    Attributes:
        executors: number of executors that the application should have.
        degree: number of tasks that should run at a time.
        rate_per_s: rate at which records arrive.
        pending: number of records that wait for capacity.
        reason: reason, for a person.
    """

    executors: int
    degree: int
    rate_per_s: float
    pending: float
    reason: str


@dataclass
class ScalingLoop:
    """Asks a scaler every period for the number of executors that a query needs.

    Operators of a micro-batch run one after the other, each on all slots. A scaler therefore sees a
    query as one operator. The cost of a record is that of all operators together, and an instance
    is a slot. An engine carries the plans out.

    Args:
        query: name of the query, for people.
        scaler: policy that plans.
        limits: limits of the application.
        timeline: timeline of the query.
        executors: number of executors that the application has now.
        journal: journal for observations and plans.
        dry_run: whether plans are written to the journal only.
        lead_s: time from the request of an executor until it works, as far as it is known.

    Example:
        >>> from penstock.control.timeline import Look, Work
        >>> from penstock.policies.scaling import Preventive
        >>> line = Timeline(period_s=10.0, interval_s=5.0)
        >>> for i in range(9):
        ...     line.add(Look(5.0 * i, 6.0, 300, 0, Work(300 * i, 300 * i, 6000 * i)))
        >>> loop = ScalingLoop(
        ...     "words", Preventive(), Limits(1, 8, 1), timeline=line, executors=1
        ... )
        >>> plan = loop.plan(40.0, Running(active=True))
        >>> plan.executors, plan.reason
        (2, 'words: critical, forecast 60 records/s against a capacity of 50, 1 -> 2')
    """

    query: str
    scaler: Scaler
    limits: Limits
    _: KW_ONLY
    timeline: Timeline
    executors: int
    journal: Journal = field(default_factory=Journal)
    dry_run: bool = False
    lead_s: float = 0.0

    def __post_init__(self) -> None:
        self._topology = Topology.linear(self.query)
        self._scaler = self.scaler.clone()
        self._scaler.max_degree = self.limits.max_executors * self.limits.slots
        self._scaler.min_degree = min(self.scaler.min_degree, self._scaler.max_degree)
        self._degree = self.executors * self.limits.slots
        self._unchanged = 1_000_000

    def plan(self, now_s: float, running: Running) -> ExecutorPlan:
        """Return the plan for the period that begins.

        Args:
            now_s: present time, in seconds since 1970.
            running: present state of the query.
        """
        self._unchanged += 1
        seen = self.timeline.seen(now_s, running, self._degree, unchanged=self._unchanged)
        history = History(self.timeline.period_s, {self.query: seen}, self.lead_s)
        planned = self._scaler.plan(self._topology, history)
        degree = planned.degrees[self.query]
        last = self.timeline.last
        state_bytes = last.state_bytes if last else 0.0
        executors = self.limits.executors(degree, state_bytes)
        plan = ExecutorPlan(
            executors=executors,
            degree=degree,
            rate_per_s=self.timeline.rate_per_s(now_s, running),
            pending=seen.pending,
            reason=self._reason(planned.reason, degree, executors, state_bytes=state_bytes),
        )
        self._write(seen, plan)
        self._adopt(plan)
        return plan

    def _reason(self, planned: str, degree: int, executors: int, *, state_bytes: float) -> str:
        """Return the reason for the planned number of executors."""
        busy, holding = math.ceil(degree / self.limits.slots), self.limits.holding(state_bytes)
        if holding > busy and executors <= holding:
            return f"{planned}; the state needs the memory of {holding}"
        if executors != busy:
            within = f"{self.limits.min_executors} to {self.limits.max_executors}"
            return f"{planned}; within {within} executors"
        return planned

    def _adopt(self, plan: ExecutorPlan) -> None:
        """Remember the plan, unless it is a dry run."""
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
