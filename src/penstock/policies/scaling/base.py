"""The scaler: decides on the number of instances of each operator of a graph."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.base import Policy
from penstock.policies.kernels import Float64
from penstock.policies.validation import (
    LARGEST,
    at_least_zero,
    float64s,
    known,
    non_negatives,
    positive,
    refuse_other,
    whole,
)

# Least cost of a record: coarse timers may measure less.
LEAST_COST_MS = 1e-6
# Share of its interval that a batch may take.
LONGEST_BATCH = 0.95


@dataclass(frozen=True)
class Topology:
    """A graph of operators: records of an operator go to all of its children.

    Attributes:
        parents: parents of each operator, in an order in which parents come first; none for a
            source.

    Example:
        >>> chain = Topology({"parse": (), "sink": ("parse",)})
        >>> chain.children("parse"), chain.sources
        (('sink',), ('parse',))
    """

    parents: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        refuse_other("parents", self.parents, Mapping, ", such as {'a': (), 'b': ('a',)}")
        seen: set[str] = set()
        for name, parents in self.parents.items():
            if not _are_names(parents) or len(set(parents)) < len(parents):
                raise PenstockError(
                    f"parents of {name!r} must be names, each once, such as ('a', 'b'); "
                    f"got {parents!r}"
                )
            unknown = [parent for parent in parents if parent not in seen]
            if unknown:
                raise PenstockError(
                    f"parents of {name!r} must come before it; got {', '.join(unknown)}"
                )
            seen.add(name)
        if not seen:
            raise PenstockError("parents must name operators; got none")

    @classmethod
    def linear(cls, *names: str) -> Self:
        """Return a chain of operators: each is the parent of the next one."""
        return cls({name: names[max(0, i - 1) : i] for i, name in enumerate(names)})

    @property
    def sources(self) -> tuple[str, ...]:
        """Operators without parents."""
        return tuple(name for name, parents in self.parents.items() if not parents)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the operators that receive the records of an operator."""
        return tuple(one for one, parents in self.parents.items() if name in parents)


@dataclass(frozen=True, eq=False)
class Observed:
    """The measurements of one operator, period by period, the newest last.

    Attributes:
        received: number of records received in each period.
        processed: number of records processed in each period.
        emitted: number of records sent to each child in each period.
        cost_ms: busy time per processed record in each period, without queueing; NaN if no record
            was processed.
        pending: number of records that wait or are in service now.
        degree: present number of instances.
        unchanged: number of periods since the degree was changed.
        fixed: share of the time that fixed costs take, whatever the number of records, >= 0. In
            that time instances process nothing. Micro-batches have such costs.
    """

    received: Float64
    processed: Float64
    emitted: Float64
    cost_ms: Float64
    pending: float
    degree: int
    unchanged: int = 1_000_000
    fixed: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.received, np.ndarray | list | tuple):
            raise PenstockError(
                f"observed: received must have a number for each period; got {self.received!r}"
            )
        periods = len(self.received)
        for name in ("received", "processed", "emitted"):
            counts = non_negatives(f"observed: {name}", getattr(self, name), periods)
            object.__setattr__(self, name, counts)
        cost_ms = float64s("observed: cost_ms", self.cost_ms, periods)
        wrong = np.isinf(cost_ms) | (cost_ms < 0)
        if wrong.any():
            raise PenstockError(
                f"observed: cost_ms must be finite and >= 0, or NaN if no record was processed; "
                f"got {cost_ms[wrong][0]} at {np.argmax(wrong)}"
            )
        object.__setattr__(self, "cost_ms", cost_ms)
        object.__setattr__(self, "pending", at_least_zero("observed: pending", self.pending))
        object.__setattr__(self, "degree", whole("observed: degree", self.degree, least=1))
        whole("observed: unchanged", self.unchanged, least=0)
        object.__setattr__(self, "fixed", at_least_zero("observed: fixed", self.fixed))

    def last(self, periods: int) -> "Observed":
        """Return the measurements of the newest periods only."""
        kept = slice(-periods, None)
        return replace(
            self,
            received=self.received[kept],
            processed=self.processed[kept],
            emitted=self.emitted[kept],
            cost_ms=self.cost_ms[kept],
        )

    @property
    def mean_cost_ms(self) -> float:
        """Mean cost of a record; NaN before the first one is processed."""
        done = ~np.isnan(self.cost_ms) & (self.processed > 0)
        if not done.any():
            return float("nan")
        return float(np.average(self.cost_ms[done], weights=self.processed[done]))

    def recent_cost_ms(self, periods: int) -> float:
        """Return the mean cost of a record in the newest periods.

        If no record was processed in them, it is the mean of all periods.
        """
        recent_ms = self.last(periods).mean_cost_ms
        known_ms = self.mean_cost_ms if math.isnan(recent_ms) else recent_ms
        return known_ms if math.isnan(known_ms) else max(known_ms, LEAST_COST_MS)

    @property
    def backlog(self) -> float:
        """Number of records that wait: each instance may have another one in service."""
        return max(0.0, self.pending - self.degree)

    def usable(self, utilization: float) -> float:
        """Return the share of the time in which an instance may process records.

        An instance is idle while fixed costs are paid, so they are part of the idle time that a
        utilization leaves. Batches may take most of their interval. At least half of a utilization
        is usable: with larger fixed costs batches become longer than their interval, and the share
        of fixed costs falls.
        """
        if not self.fixed:
            return utilization
        within = LONGEST_BATCH * (1 - self.fixed)
        return min(utilization, max(within, utilization / 2))

    @property
    def selectivity(self) -> float:
        """Emitted records per processed record; 1 before the first one is processed."""
        processed = float(self.processed.sum())
        return float(self.emitted.sum()) / processed if processed else 1.0


@dataclass(frozen=True, eq=False)
class History:
    """The measurements of all operators.

    Attributes:
        period_s: length of a monitoring period, > 0.
        operators: measurements of each operator, by name.
        lead_s: time from a plan until its new instances work, >= 0.
    """

    period_s: float
    operators: Mapping[str, Observed]
    lead_s: float = 0.0

    def __post_init__(self) -> None:
        positive("period_s", self.period_s)
        at_least_zero("lead_s", self.lead_s)
        refuse_other("operators", self.operators, Mapping, ", such as {'a': Observed(...)}")
        for name, seen in self.operators.items():
            refuse_other(f"operators: {name!r}", seen, Observed)

    @property
    def periods(self) -> int:
        """Number of periods that all operators have been measured in."""
        return min((one.received.size for one in self.operators.values()), default=0)


@dataclass(frozen=True)
class ScalePlan:
    """The number of instances that each operator should have, with reasons.

    Attributes:
        degrees: number of instances of each operator, by name.
        reasons: reasons of the operators that change, by name.
    """

    degrees: Mapping[str, int]
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons.values()) or "nothing to change"


class Scaler(Policy, ABC):
    """Plans the degrees (numbers of instances) of a graph's operators from their measurements.

    It is a function of the history: it remembers nothing, so it can be restarted at any time. A
    scaler of your own needs `wanted` only.

    Args:
        min_degree: least number of instances of an operator, >= 1.
        max_degree: largest number of instances of an operator. On Spark it is the number of slots
            of the largest number of executors.
        min_executors: least number of executors of an application, >= 1.
        max_executors: largest number of executors of an application; None for the number at the
            time it is attached.

    Example:
        >>> class Two(Scaler):
        ...     def wanted(self, topology, history):
        ...         return {name: (2, "two are enough") for name in topology.parents}
        >>> ones = np.ones(3)
        >>> seen = Observed(
        ...     received=ones, processed=ones, emitted=ones, cost_ms=ones, pending=0.0, degree=1
        ... )
        >>> Two().plan(Topology.linear("sink"), History(10.0, {"sink": seen})).reason
        'sink: two are enough, 1 -> 2'
    """

    family = "scaler"

    def __init__(
        self,
        min_degree: int = 1,
        max_degree: int = 8,
        min_executors: int = 1,
        max_executors: int | None = None,
    ) -> None:
        self.min_degree = whole("min_degree", min_degree, least=1)
        self.max_degree = whole("max_degree", max_degree, least=1)
        self.min_executors = whole("min_executors", min_executors, least=1)
        self.max_executors = max_executors
        if self.max_degree < self.min_degree:
            raise PenstockError(
                f"max_degree must be >= min_degree = {min_degree}; got {max_degree}"
            )
        if max_executors is not None and whole("max_executors", max_executors, least=1) < (
            self.min_executors
        ):
            raise PenstockError(
                f"max_executors must be >= min_executors = {min_executors}; got {max_executors}"
            )

    @abstractmethod
    def wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Return the degree that each operator should have, with the reason; others keep theirs.

        Called by `plan`, if at least one period has been measured.
        """

    def plan(self, topology: Topology, history: History) -> ScalePlan:
        """Return the degrees of the next period, within the limits.

        Called by the scaling loop on the driver, and by the simulator of graphs, every period.
        """
        refuse_other("topology", topology, Topology)
        refuse_other("history", history, History)
        missing = sorted(set(topology.parents) - set(history.operators))
        if missing:
            raise PenstockError(f"history must have every operator; {', '.join(missing)} missing")
        wanted = self._wanted(topology, history) if history.periods else {}
        degrees, reasons = {}, {}
        for name in topology.parents:
            now = history.operators[name].degree
            degree, why = wanted.get(name, (now, ""))
            degrees[name] = min(max(degree, self.min_degree), self.max_degree)
            if degrees[name] != now:
                reasons[name] = f"{name}: {why or 'limits'}, {now} -> {degrees[name]}"
        return ScalePlan(degrees, reasons)

    def _wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Return what `wanted` has returned, if it is a degree and a reason for operators."""
        found: object = self.wanted(topology, history)
        label = f"{type(self).__name__}.wanted"
        if not isinstance(found, dict):
            raise PenstockError(
                f"{label} must return a dict, such as {{'sink': (2, 'busy')}}; got {found!r}"
            )
        for name, pair in found.items():
            known(f"operator of {label}", name, topology.parents)
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str):
                raise PenstockError(
                    f"{label} must return a degree and a reason for {name!r}, such as "
                    f"(2, 'busy'); got {pair!r}"
                )
            whole(f"the degree of {label} for {name!r}", pair[0], least=-LARGEST)
        return found


def _are_names(values: object) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(name, str) for name in values)


def degree_for(rate_per_s: float, cost_ms: float, utilization: float) -> int:
    """Return the number of instances for a rate if each may be busy for a share of the time."""
    return max(1, math.ceil(min(LARGEST, rate_per_s * cost_ms / 1000 / utilization) - 1e-9))


def demands(
    topology: Topology, history: History, at_sources: Mapping[str, float]
) -> dict[str, float]:
    """Return the rate of each operator, propagated along the graph by selectivities.

    The present capacity of operators does not limit it.

    Args:
        topology: graph of the operators.
        history: measurements, for the selectivities.
        at_sources: records per second that will arrive at each source.
    """
    found: dict[str, float] = {}
    for name, parents in topology.parents.items():
        if not parents:
            found[name] = at_sources[name]
        else:
            flows = (found[p] * history.operators[p].selectivity for p in parents)
            found[name] = float(sum(flows))
    return found
