"""The engine of virtual time for graphs of operators whose degrees change."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies import validation
from penstock.policies.kernels import Float64, Int64
from penstock.policies.scaling import History, Observed, Scaler, Topology
from penstock.policies.validation import (
    above_zero,
    at_least_zero,
    between,
    positive,
    refuse_other,
    whole,
)
from penstock.sim.flow import (
    COUNTS,
    STEP_S,
    Done,
    Entries,
    Graph,
    State,
    Steps,
    empty_queues,
    expected_records,
    flow,
    longest_service_s,
    ways_to_sinks,
)
from penstock.sim.graph_result import GraphResult


@dataclass(frozen=True)
class Node:
    """An operator of a graph.

    Attributes:
        cost_ms: time that an instance takes for a record.
        selectivity: records that go to each child for a record that comes in.
        degree: number of instances at the beginning.
    """

    cost_ms: float
    selectivity: float = 1.0
    degree: int = 1

    def __post_init__(self) -> None:
        positive("cost_ms", self.cost_ms)
        positive("selectivity", self.selectivity)
        whole("degree", self.degree, least=1)


def simulate_graph(
    scaler: Scaler,
    topology: Topology,
    nodes: Mapping[str, Node],
    *,
    rate_per_s: npt.ArrayLike,
    period_s: float = 10.0,
    phase_s: float = 0.0,
    delay_s: float = 0.0,
    pause_s: float = 0.0,
    timeout_s: float = 30.0,
) -> GraphResult:
    """Let a scaler manage a graph through a stream of changing rate.

    Records are a fluid. In steps of 100 ms each operator takes as many records from the head of its
    queue as its instances can process. The source replays records that are not done in time, while
    the rest of them is still processed, like in Storm. A collapse can therefore sustain itself.

    Args:
        scaler: scaler that plans degrees.
        topology: graph of operators.
        nodes: properties of each operator, by name.
        rate_per_s: records that arrive at each source, second by second.
        period_s: time between two plans, a multiple of 0.1.
        phase_s: time at which the first period ends, less than `period_s`; 0 for a whole period.
        delay_s: time until a plan takes effect.
        pause_s: time for which an operator stops when its degree changes.
        timeout_s: time after which a record is replayed; infinite for never.

    Example:
        >>> from penstock.policies.scaling import Fixed
        >>> chain = Topology.linear("parse", "sink")
        >>> nodes = {"parse": Node(2.0), "sink": Node(80.0, degree=8)}
        >>> rate_per_s = np.full(60, 50.0)
        >>> result = simulate_graph(Fixed({"sink": 8}), chain, nodes, rate_per_s=rate_per_s)
        >>> round(result.mean_latency_s, 3), result.timed_out
        (0.082, 0.0)
    """
    refuse_other("scaler", scaler, Scaler, ", such as Preventive()")
    refuse_other("topology", topology, Topology)
    refuse_other("nodes", nodes, Mapping, ", such as {'sink': Node(80.0)}")
    for name, node in nodes.items():
        refuse_other(f"nodes: {name!r}", node, Node)
    missing = set(topology.parents) - set(nodes)
    if missing:
        raise PenstockError(f"nodes must have every operator; {', '.join(sorted(missing))} missing")
    if positive("period_s", period_s) < STEP_S:
        raise PenstockError(f"period_s must be >= {STEP_S}, a step; got {period_s:g}")
    if abs(_steps(period_s) * STEP_S - period_s) > 1e-9 * period_s:
        raise PenstockError(
            f"period_s must be a multiple of {STEP_S}, the length of a step; got {period_s:g}"
        )
    between("phase_s", phase_s, 0, period_s, closed="low")
    for name, value in {"delay_s": delay_s, "pause_s": pause_s}.items():
        at_least_zero(name, value)
    above_zero("timeout_s", timeout_s)
    rates = validation.non_negatives("rate_per_s", rate_per_s, np.size(rate_per_s))
    if not rates.size:
        raise PenstockError("rate_per_s must be a rate for every second; got none")
    run = _GraphRun(
        scaler,
        topology,
        nodes,
        rates=rates,
        period_s=period_s,
        delay_s=delay_s,
        pause_s=pause_s,
        timeout_s=timeout_s,
    )
    return run.result(phase_s)


class _GraphRun:
    """One simulation of a graph."""

    def __init__(
        self,
        scaler: Scaler,
        topology: Topology,
        nodes: Mapping[str, Node],
        *,
        rates: Float64,
        period_s: float,
        delay_s: float,
        pause_s: float,
        timeout_s: float,
    ) -> None:
        self.scaler, self.topology = scaler, topology
        self.names = list(topology.parents)
        self.period_s = period_s
        self.delay = _steps(delay_s)
        self.pause = _steps(pause_s)
        self.graph = _graph(topology, nodes)
        self.ways = ways_to_sinks(self.graph.links)
        self.degree = np.array([nodes[name].degree for name in self.names], dtype=np.int64)
        self.paused = np.zeros(len(self.names), dtype=np.int64)
        self.queues = empty_queues(len(self.names))
        self.entries = _entries(len(self.names), rates, timeout_s)
        self.unchanged = np.full(len(self.names), 1_000_000)
        # Latencies and numbers of records of the pieces that were done, call by call.
        self.done: list[tuple[Float64, Float64]] = []
        self.seen: list[Float64] = []
        # Degrees that have been planned, each with the step in which they take effect.
        self.pending: list[tuple[int, Int64]] = []
        self.reasons: list[str] = []
        self.instance_s = 0.0

    def result(self, phase_s: float) -> GraphResult:
        """Run to the end of the stream, and return the result."""
        period = _steps(self.period_s)
        arrivals = self.entries.arrivals
        ends = [*range(_steps(phase_s) or period, arrivals.size, period), arrivals.size]
        start = 0
        degrees, latency, rate = [], [], []
        for end in ends:
            before = len(self.done)
            counts = self._run(start, end)
            degrees.append(self.degree.copy())
            rate.append(float(arrivals[start:end].sum()) / ((end - start) * STEP_S))
            latency.append(_mean(self.done[before:]))
            if end - start == period and end < arrivals.size:
                self.seen.append(counts)
                self.unchanged += 1
                self._plan(end)
            start = end
        return GraphResult(
            period_s=self.period_s,
            rate_per_s=np.array(rate),
            degrees={n: np.array([d[i] for d in degrees]) for i, n in enumerate(self.names)},
            latency_s=np.array(latency),
            latencies_s=np.concatenate([latencies for latencies, _ in self.done]),
            amounts=np.concatenate([amounts for _, amounts in self.done]),
            timed_out=float(self.entries.timed_out[0]),
            instance_s=self.instance_s,
            reconfigurations=len(self.reasons),
            reasons=tuple(self.reasons),
        )

    def _run(self, start: int, end: int) -> Float64:
        """Run the steps of a period, with plans that take effect in it; return its counts."""
        counts = np.zeros((COUNTS, len(self.names)))
        at = start
        while at < end:
            if self.pending and self.pending[0][0] <= at:
                self._change(self.pending.pop(0)[1])
            stop = min(end, self.pending[0][0]) if self.pending else end
            self._advance(Steps(at, stop), counts)
            self.instance_s += float(self.degree.sum()) * (stop - at) * STEP_S
            at = stop
        return counts

    def _plan(self, step: int) -> None:
        """Request a plan. Operators that it does not change keep the degree planned before."""
        plan = self.scaler.plan(self.topology, self._history())
        planned = self.pending[-1][1] if self.pending else self.degree
        wanted = planned.copy()
        for i, name in enumerate(self.names):
            if name in plan.reasons:
                wanted[i] = plan.degrees[name]
        if (wanted != planned).any():
            self.reasons.append(f"{step * STEP_S:.0f} s: {plan.reason}")
            self.pending.append((step + self.delay, wanted))

    def _change(self, wanted: Int64) -> None:
        changed = wanted != self.degree
        self.degree[:] = wanted
        self.paused[changed] = self.pause
        self.unchanged[changed] = 0

    def _advance(self, steps: Steps, counts: Float64) -> None:
        """Let records flow for some steps, add to the counts, and keep the pieces that are done."""
        length = steps.stop - steps.start
        # A piece that waits or arrives can end once on each way to a sink, in two parts.
        waiting = int((self.queues.tail - self.queues.head).sum()) + length * len(self.names)
        room = 2 * (waiting + length) * (self.ways + 1)
        done = Done(
            counts=counts,
            latency_s=np.empty(room),
            records=np.empty(room),
            pieces=np.zeros(1, dtype=np.int64),
        )
        state = State(
            degree=self.degree,
            paused=self.paused,
            queues=self.queues,
            entries=self.entries,
            done=done,
        )
        flow(self.graph, state, steps)
        ended = int(done.pieces[0])
        self.done.append((done.latency_s[:ended].copy(), done.records[:ended].copy()))

    def _history(self) -> History:
        counts = np.stack(self.seen)
        queues = self.queues
        operators = {}
        for i, name in enumerate(self.names):
            received, processed, emitted, busy_s = counts[:, :, i].T
            with np.errstate(invalid="ignore", divide="ignore"):
                cost_ms = np.where(processed > 0, 1000 * busy_s / processed, np.nan)
            at = np.arange(queues.head[i], queues.tail[i]) % queues.records.shape[1]
            operators[name] = Observed(
                received=received,
                processed=processed,
                emitted=emitted,
                cost_ms=cost_ms,
                pending=float(queues.records[i, at].sum()),
                degree=int(self.degree[i]),
                unchanged=int(self.unchanged[i]),
            )
        return History(self.period_s, operators)


def _graph(topology: Topology, nodes: Mapping[str, Node]) -> Graph:
    """Return the operators' properties as arrays, in the order of the topology."""
    names = list(topology.parents)
    links = np.zeros((len(names), len(names)), dtype=np.bool_)
    for child, parents in topology.parents.items():
        for parent in parents:
            links[names.index(parent), names.index(child)] = True
    is_source = np.array([not parents for parents in topology.parents.values()])
    cost_s = np.array([nodes[name].cost_ms / 1000 for name in names])
    selectivity = np.array([nodes[name].selectivity for name in names])
    return Graph(
        links=links,
        is_source=is_source,
        cost_s=cost_s,
        selectivity=selectivity,
        expected=expected_records(links, is_source, selectivity),
        service_s=longest_service_s(links, cost_s),
    )


def _entries(operators: int, rates: Float64, timeout_s: float) -> Entries:
    arrivals = np.repeat(rates * STEP_S, round(1 / STEP_S))
    steps = arrivals.size
    never = math.isinf(timeout_s)
    return Entries(
        arrivals=arrivals,
        timeout=steps + 1 if never else max(1, _steps(timeout_s)),
        entered=np.zeros(steps),
        left=np.zeros((operators, steps)),
        timed_out=np.zeros(1),
    )


def _steps(seconds: float) -> int:
    return round(seconds / STEP_S)


def _mean(done: list[tuple[Float64, Float64]]) -> float:
    total = sum(float(amounts.sum()) for _, amounts in done)
    waited = sum(float((latency * amounts).sum()) for latency, amounts in done)
    return waited / total if total else float("nan")
