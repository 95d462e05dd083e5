"""Settings and scenarios of what-if questions, and the stream of a scenario."""

from dataclasses import dataclass, replace

import numpy as np

from penstock.policies.validation import between, positive, whole
from penstock.rehearsal.recorded import Recorded
from penstock.sim.workloads import Stream

# A short trace is repeated until it has about this number of batches, for policies to learn.
_BATCHES = 60
_MOST_RECORDS = 500_000


@dataclass(frozen=True)
class Setting:
    """A setting of the operator and its cluster.

    Attributes:
        executors: number of executors.
        instances: number of instances; None for one per slot.
        grouping: registered name of the grouping; empty for tasks that stay as they are.
        shedder: registered name of the shedder; empty for none.
    """

    executors: int
    instances: int | None
    grouping: str
    shedder: str = ""

    def __post_init__(self) -> None:
        whole("executors", self.executors, least=1)
        if self.instances is not None:
            whole("instances", self.instances, least=1)


@dataclass(frozen=True)
class Scenario:
    """Changes of the stream and the cluster.

    Attributes:
        rate: factor of the rate of records.
        slow_executor: slowdown of one executor; 1 for none.
        hot_key: share of the records that get one key; 0 for none.
        trigger_ms: interval of the trigger; None for the recorded one.
        target_ms: limit of the mean latency; None without a target.
    """

    rate: float = 1.0
    slow_executor: float = 1.0
    hot_key: float = 0.0
    trigger_ms: float | None = None
    target_ms: float | None = None

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        positive("slow-executor", self.slow_executor)
        if self.hot_key:
            between("hot-key", self.hot_key, 0, 1)


def stream_of(recorded: Recorded, scenario: Scenario) -> Stream:
    """Return the stream of a scenario, repeated if it is short."""
    stream = recorded.stream
    times = max(1, min(-(-_BATCHES // max(1, recorded.batches)), _MOST_RECORDS // len(stream)))
    shift_ms = np.repeat(np.arange(times) * recorded.span_ms, len(stream))
    long = Stream(
        np.tile(stream.keys, times),
        np.tile(stream.costs_ms, times),
        (np.tile(stream.arrivals_ms, times) + shift_ms) / scenario.rate,
        None if stream.sizes is None else np.tile(stream.sizes, times),
    )
    return _heated(long, scenario.hot_key) if scenario.hot_key else long


def _heated(stream: Stream, share: float) -> Stream:
    """Give some records the most frequent key, with the costs of its records."""
    rng = np.random.default_rng(0)
    keys, count = np.unique(stream.keys, return_counts=True)
    hot = keys[count.argmax()]
    own = np.flatnonzero(stream.keys == hot)
    chosen = np.flatnonzero(rng.random(len(stream)) < share)
    drawn = rng.choice(own, chosen.size)
    changed = replace(
        stream,
        keys=stream.keys.copy(),
        costs_ms=stream.costs_ms.copy(),
        sizes=None if stream.sizes is None else stream.sizes.copy(),
    )
    changed.keys[chosen] = hot
    changed.costs_ms[chosen] = stream.costs_ms[drawn]
    if changed.sizes is not None and stream.sizes is not None:
        changed.sizes[chosen] = stream.sizes[drawn]
    return changed
