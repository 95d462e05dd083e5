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
from penstock.policies.validation import above_zero, at_least_zero, between, positive, whole
from penstock.sim.flow import COUNTS, STEP_S, flow

_PIECES = 1 << 15


@dataclass(frozen=True)
class Node:
    """An operator of a graph.

    Attributes:
        cost_ms: time that an instance takes for a record.
        selectivity: records out for each record in, to each child.
        degree: instances at the beginning.
    """

    cost_ms: float
    selectivity: float = 1.0
    degree: int = 1

    def __post_init__(self) -> None:
        positive("cost_ms", self.cost_ms)
        positive("selectivity", self.selectivity)
        whole("degree", self.degree, least=1)


@dataclass(frozen=True, eq=False)
class GraphResult:
    """What happened, period by period.

    Attributes:
        period_s: length of a period.
        rate_per_s: records that arrived at the sources.
        degrees: instances, by operator.
        latency_s: mean time from arrival to the end, of records that were done.
        latencies_s: time of every piece of the stream that was done.
        amounts: records of every such piece.
        timed_out: records that were not done in time, and replayed.
        instance_s: instances times seconds, over all operators.
        reconfigurations: periods in which degrees changed.
        reasons: why, in words.
    """

    period_s: float
    rate_per_s: Float64
    degrees: Mapping[str, Int64]
    latency_s: Float64
    latencies_s: Float64
    amounts: Float64
    timed_out: float
    instance_s: float
    reconfigurations: int
    reasons: tuple[str, ...]

    @property
    def mean_latency_s(self) -> float:
        """Mean time from arrival to the end; NaN if nothing was done."""
        if not self.amounts.sum():
            return float("nan")
        return float(np.average(self.latencies_s, weights=self.amounts))

    def latency_quantile_s(self, quantile: float) -> float:
        """Time within which a share of the records was done; NaN if nothing was."""
        if not self.amounts.sum():
            return float("nan")
        order = np.argsort(self.latencies_s)
        reached = np.cumsum(self.amounts[order])
        at = int(np.searchsorted(reached, quantile * reached[-1]))
        return float(self.latencies_s[order][min(at, order.size - 1)])


def simulate_graph(
    scaler: Scaler,
    topology: Topology,
    nodes: Mapping[str, Node],
    rate_per_s: npt.ArrayLike,
    *,
    period_s: float = 10.0,
    phase_s: float = 0.0,
    delay_s: float = 0.0,
    pause_s: float = 0.0,
    timeout_s: float = 30.0,
) -> GraphResult:
    """Let a scaler manage a graph through a stream of changing rate.

    Records are a fluid: in steps of 100 ms each operator takes from the head of its queue what its
    instances can do. Records that are not done in time are replayed by the source, while what is
    left of them is still processed, as in Storm: a collapse can sustain itself.

    Args:
        scaler: what plans degrees.
        topology: the graph.
        nodes: its operators.
        rate_per_s: records that arrive at each source, second by second.
        period_s: time between two plans.
        phase_s: when the first period ends, less than `period_s`; 0 for after a whole one.
        delay_s: time until a plan takes effect.
        pause_s: time for which an operator stops when its degree changes.
        timeout_s: time after which a record is replayed.

    Example:
        >>> from penstock.policies.scaling import Fixed
        >>> chain = Topology.linear("parse", "sink")
        >>> nodes = {"parse": Node(2.0), "sink": Node(80.0, degree=8)}
        >>> result = simulate_graph(Fixed({"sink": 8}), chain, nodes, np.full(60, 50.0))
        >>> round(result.mean_latency_s, 3), result.timed_out
        (0.082, 0.0)
    """
    missing = set(topology.parents) - set(nodes)
    if missing:
        raise PenstockError(f"nodes must have every operator; {', '.join(sorted(missing))} missing")
    if positive("period_s", period_s) < STEP_S:
        raise PenstockError(f"period_s must be >= {STEP_S}, a step; got {period_s:g}")
    between("phase_s", phase_s, 0, period_s, closed="low")
    for name, value in {"delay_s": delay_s, "pause_s": pause_s}.items():
        at_least_zero(name, value)
    above_zero("timeout_s", timeout_s)
    rates = validation.non_negatives("rate_per_s", rate_per_s, np.size(rate_per_s))
    if not rates.size:
        raise PenstockError("rate_per_s must be a rate for every second; got none")
    return _GraphRun(scaler, topology, nodes, rates, period_s, delay_s, pause_s, timeout_s).run(
        phase_s
    )


class _GraphRun:
    """One simulation."""

    def __init__(
        self,
        scaler: Scaler,
        topology: Topology,
        nodes: Mapping[str, Node],
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
        per_step = np.repeat(rates * STEP_S, round(1 / STEP_S))
        self.arrivals = per_step
        self.steps = per_step.size
        never = math.isinf(timeout_s)
        self.timeout = self.steps + 1 if never else max(1, _steps(timeout_s))
        count = len(self.names)
        self.links = np.zeros((count, count), dtype=np.bool_)
        for child, parents in topology.parents.items():
            for parent in parents:
                self.links[self.names.index(parent), self.names.index(child)] = True
        self.is_source = np.array([not parents for parents in topology.parents.values()])
        self.cost_s = np.array([nodes[n].cost_ms / 1000 for n in self.names])
        self.selectivity = np.array([nodes[n].selectivity for n in self.names])
        self.degree = np.array([nodes[n].degree for n in self.names], dtype=np.int64)
        self.paused = np.zeros(count, dtype=np.int64)
        self.unchanged = np.full(count, 1_000_000)
        # Queues: pieces of (step of arrival, records), first in, first out.
        self.entry = np.zeros((count, _PIECES), dtype=np.int64)
        self.amount = np.zeros((count, _PIECES))
        self.head = np.zeros(count, dtype=np.int64)
        self.tail = np.zeros(count, dtype=np.int64)
        # Of each step: what entered, and which share of it has left every sink.
        self.entered = np.zeros(self.steps)
        self.left = np.zeros((count, self.steps))
        self.expected = self._expected()
        self.ways = self._ways()
        self.done: list[tuple[Float64, Float64]] = []
        self.seen: list[Float64] = []
        self.timed_out = np.zeros(1)

    def _expected(self) -> Float64:
        """Records at each operator for one at the sources."""
        reach = np.where(self.is_source, 1.0, 0.0)
        for i in range(len(self.names)):
            for child in np.flatnonzero(self.links[i]):
                reach[child] += reach[i] * self.selectivity[i]
        return reach

    def _ways(self) -> int:
        """Return how many ways there are from an operator to sinks, at most in total."""
        ways = np.zeros(len(self.names), dtype=np.int64)
        for i in reversed(range(len(self.names))):
            children = np.flatnonzero(self.links[i])
            ways[i] = ways[children].sum() if children.size else 1
        return int(ways.sum())

    def run(self, phase_s: float) -> GraphResult:
        """Run to the end."""
        period = _steps(self.period_s)
        ends = [*range(_steps(phase_s) or period, self.steps, period), self.steps]
        start, used, changes = 0, 0.0, 0
        pending: list[tuple[int, Int64]] = []
        degrees, latency, rate, reasons = [], [], [], []
        for end in ends:
            before = len(self.done)
            counts = np.zeros((COUNTS, len(self.names)))
            at = start
            while at < end:
                if pending and pending[0][0] <= at:
                    self._change(pending.pop(0)[1])
                stop = min(end, pending[0][0]) if pending else end
                self._advance(at, stop, counts)
                used += float(self.degree.sum()) * (stop - at) * STEP_S
                at = stop
            degrees.append(self.degree.copy())
            rate.append(float(self.arrivals[start:end].sum()) / ((end - start) * STEP_S))
            latency.append(_mean(self.done[before:]))
            if end - start == period and end < self.steps:
                self.seen.append(counts)
                self.unchanged += 1
                plan = self.scaler.plan(self.topology, self._history())
                # What keeps its degree keeps the one that is on its way.
                wanted = self._planned(pending).copy()
                for i, name in enumerate(self.names):
                    if name in plan.reasons:
                        wanted[i] = plan.degrees[name]
                if (wanted != self._planned(pending)).any():
                    changes += 1
                    reasons.append(f"{end * STEP_S:.0f} s: {plan.reason}")
                    pending.append((end + self.delay, wanted))
            start = end
        return GraphResult(
            self.period_s,
            np.array(rate),
            {n: np.array([d[i] for d in degrees]) for i, n in enumerate(self.names)},
            np.array(latency),
            np.concatenate([d[0] for d in self.done]),
            np.concatenate([d[1] for d in self.done]),
            float(self.timed_out[0]),
            used,
            changes,
            tuple(reasons),
        )

    def _planned(self, pending: list[tuple[int, Int64]]) -> Int64:
        return pending[-1][1] if pending else self.degree

    def _change(self, wanted: Int64) -> None:
        changed = wanted != self.degree
        self.degree = wanted.copy()
        self.paused[changed] = self.pause
        self.unchanged[changed] = 0

    def _advance(self, at: int, stop: int, counts: Float64) -> None:
        # Every piece in a queue, and every new one, can end once on each way to a sink, and in two
        # parts.
        waiting = int((self.tail - self.head).sum()) + (stop - at) * len(self.names)
        out = np.empty((2, 2 * (waiting + stop - at) * (self.ways + 1)))
        written = flow(
            at,
            stop,
            self.timeout,
            self.arrivals,
            self.links,
            self.is_source,
            self.cost_s,
            self.selectivity,
            self.expected,
            self.degree,
            self.paused,
            self.entry,
            self.amount,
            self.head,
            self.tail,
            self.entered,
            self.left,
            self.timed_out,
            counts,
            out,
        )
        self.done.append((out[0, :written].copy(), out[1, :written].copy()))

    def _history(self) -> History:
        counts = np.stack(self.seen)
        operators = {}
        for i, name in enumerate(self.names):
            received, processed, emitted, busy_s = counts[:, :, i].T
            with np.errstate(invalid="ignore", divide="ignore"):
                cost_ms = np.where(processed > 0, 1000 * busy_s / processed, np.nan)
            at = np.arange(self.head[i], self.tail[i]) % _PIECES
            operators[name] = Observed(
                received,
                processed,
                emitted,
                cost_ms,
                float(self.amount[i, at].sum()),
                int(self.degree[i]),
                int(self.unchanged[i]),
            )
        return History(self.period_s, operators)


def _steps(seconds: float) -> int:
    return round(seconds / STEP_S)


def _mean(done: list[tuple[Float64, Float64]]) -> float:
    total = sum(float(amounts.sum()) for _, amounts in done)
    waited = sum(float((latency * amounts).sum()) for latency, amounts in done)
    return waited / total if total else float("nan")
