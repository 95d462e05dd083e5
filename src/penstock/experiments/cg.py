"""The evaluation of Consistent Grouping: Figures 4 and 6 to 13, in simulation.

The paper's Wikipedia and Twitter streams are not public. Where it uses Wikipedia, words of English
texts stand in: real frequencies, the most frequent one with a share of 5% (Wikipedia: 9%).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.experiments import cg_claims as claims
from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.policies.grouping import (
    BoundedHash,
    Consistent,
    Grouping,
    KeyHash,
    PartialKey,
    RandomChoices,
    RoundRobin,
    TwoChoices,
)
from penstock.policies.kernels import Float64, Int32, Int64
from penstock.policies.measures import imbalance
from penstock.sim import Result, Synthetic, Words, Workload, replication, simulate

RECORDS, DISTINCT = claims.RECORDS, 100_000
BINS = (10, 100, 1_000)
WORKERS = (5, 10, 50, 100)
SOURCES = (1, 10, 50, 100)
SLOTS = 50
LOAD = 0.8
PER_WORKER = claims.PER_WORKER  # virtual workers, in the paper's homogeneous figures

Capacities = tuple[float, ...]


def zipf(exponent: float, records: int = RECORDS) -> Synthetic:
    """Return the paper's synthetic stream (Table I), a tenth as long."""
    same = {"cost_values": 1, "min_cost_ms": 1.0, "max_cost_ms": 1.0}
    return Synthetic(records=records, distinct=DISTINCT, exponent=exponent, **same)  # type: ignore[arg-type]


def schemes(bins: int) -> dict[str, Grouping]:
    """Return what Figures 4 and 7 compare, with the paper's lifetime counts."""
    return {
        "key_hash": KeyHash(bins),
        "pkg": PartialKey(bins, half_life=None),
        "potc": TwoChoices(bins, half_life=None),
        "porc": RandomChoices(bins, half_life=None),
        "bounded_hash": BoundedHash(bins, half_life=None),
        "round_robin": RoundRobin(bins),
    }


def spread(grouping: Grouping, keys: Int64) -> dict[str, float]:
    """Route all keys: how uneven are the loads, and in how many places is a key?"""
    routed = grouping.route(keys)
    counts = np.bincount(routed, minlength=grouping.instances).astype(np.float64)
    return {
        "imbalance": imbalance(counts),
        "memory": replication(keys, routed, grouping.instances),
    }


def _samples(series: str, x: X, numbers: dict[str, float], suffix: str = "") -> list[Sample]:
    return [Sample(series, x, f"{name}{suffix}", float(v)) for name, v in numbers.items()]


def _choices(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 4: imbalance and memory over the skew, for 10, 100 and 1,000 bins."""
    keys = zipf(float(x)).stream(seed).keys
    samples: list[Sample] = []
    for bins in BINS:
        ways = schemes(bins) | {series: make(bins) for series, make in extra.items()}
        if bins == BINS[0]:  # workers, rather than virtual ones
            ways["cg"] = Consistent(bins, claims.VIRTUAL, half_life=None)
        for series, grouping in ways.items():
            samples += _samples(series, x, spread(grouping, keys), f"_{bins}")
    return samples


def _epsilon(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 6: the trade-off between imbalance and memory."""
    keys = Words(RECORDS).stream(seed).keys
    ways = {
        "key_hash": KeyHash(10),
        "cg": Consistent(10, PER_WORKER, epsilon=float(x), half_life=None),
        "round_robin": RoundRobin(10),
        **{series: make(10) for series, make in extra.items()},
    }
    return [s for series, way in ways.items() for s in _samples(series, x, spread(way, keys))]


def _workers(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 7 (bins: ten virtual workers a worker) and 8 (workers)."""
    keys, workers = Words(RECORDS).stream(seed).keys, int(float(x))
    samples: list[Sample] = []
    for series, way in schemes(PER_WORKER * workers).items():
        samples += _samples(series, x, spread(way, keys), "_of_bins")
    ways = schemes(workers) | {"cg": Consistent(workers, PER_WORKER, half_life=None)}
    del ways["porc"]
    ways |= {series: make(workers) for series, make in extra.items()}
    for series, way in ways.items():
        samples += _samples(series, x, spread(way, keys))
    return samples


def _sources(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: several sources, each with loads of its own."""
    stream = Words(RECORDS).stream(seed)
    samples: list[Sample] = []
    for workers in WORKERS:
        ways: dict[str, Grouping] = {"cg": Consistent(workers, PER_WORKER, half_life=None)}
        ways |= {series: make(workers) for series, make in extra.items()}
        for series, way in ways.items():
            result = simulate(way, stream, sources=int(float(x)))
            numbers = {"imbalance": result.imbalance, "memory": result.memory}
            samples += _samples(series, x, numbers, f"_{workers}")
    return samples


def powerful(fast: int, times: float, workers: int = 10) -> Capacities:
    """Return capacities with the mean 1: `fast` workers `times` as powerful as the others."""
    raw = np.array([times] * fast + [1.0] * (workers - fast))
    return tuple(raw / raw.mean())


@dataclass(frozen=True)
class Cluster:
    """Workers with queues: what Figures 9, 10, 12 and 13 simulate.

    Attributes:
        workload: of records that cost 1 ms on a worker of capacity 1.
        phases: capacities from each third of the stream on, or for all of it.
        virtual_workers: of each worker.
        slots: time slots in the whole run.
    """

    workload: Workload = field(default_factory=lambda: zipf(1.0))
    phases: Sequence[Capacities] = (powerful(3, 5.0),)
    virtual_workers: int = 20
    slots: int = SLOTS

    def results(self, seed: int, extra: Extra, *others: str) -> dict[str, Result]:
        """Simulate the groupings on the same stream, at a load of 80%."""
        stream = self.workload.stream(seed)
        workers = len(self.phases[0])
        stream = stream.every(1 / (LOAD * workers))
        step = len(stream) // len(self.phases)
        slowdowns = [(i * step, 1 / np.array(c)) for i, c in enumerate(self.phases)]
        slot_ms = float(stream.arrivals_ms[-1]) / self.slots
        ways = {name: Grouping.named(name, instances=workers) for name in others}
        ways["cg_as_published"] = Consistent.as_published(workers, self.virtual_workers)
        ways["cg"] = Consistent(workers, self.virtual_workers)
        ways |= {series: make(workers) for series, make in extra.items()}
        return {
            series: simulate(way, stream, slowdowns=slowdowns, slot_ms=slot_ms)
            for series, way in ways.items()
        }


def summary(result: Result) -> dict[str, float]:
    """Numbers of the whole run, or of its second half, when capacities should be known."""
    half = result.completion_ms[result.completion_ms.size // 2 :]
    late = [imbalance(slot) for slot in result.utilization(SLOTS)[SLOTS // 2 :]]
    busy_ms = float(result.stream.arrivals_ms[-1])
    done = np.count_nonzero(result.stream.arrivals_ms + result.completion_ms <= busy_ms)
    return {
        "late_imbalance": float(np.mean(late)),
        "late_completion_ms": float(half.mean()),
        "late_p99_ms": float(np.percentile(half, 99)),
        "queue_at_end": float(result.queues(1).max()),
        "throughput_per_s": 1000 * done / busy_ms,
        "memory": result.memory,
        "moves": result.moves,
    }


def _by_slot(result: Result, slots: int) -> dict[str, Float64]:
    """Differences between the largest and the smallest of all workers, slot by slot."""
    utilization = result.utilization(slots)
    queues = result.queues(slots)
    completions = np.array_split(result.completion_ms, slots)
    instances = np.array_split(result.instances, slots)
    k = result.load_ms.size
    latency = np.array([_mean_by(*p, k) for p in zip(completions, instances, strict=True)])
    return {
        "queue_spread": (queues.max(axis=1) - queues.min(axis=1)).astype(np.float64),
        "latency_spread_ms": np.nanmax(latency, axis=1) - np.nanmin(latency, axis=1),
        "imbalance": np.array([imbalance(slot) for slot in utilization]),
    }


def _mean_by(values: Float64, instances: Int32, k: int) -> Float64:
    counts = np.bincount(instances, minlength=k)
    totals = np.bincount(instances, weights=values, minlength=k)
    means: Float64 = np.divide(totals, counts, out=np.full(k, np.nan), where=counts > 0)
    return means


def unfolding(cluster: Cluster, *others: str) -> Callable[[X, int, Extra], list[Sample]]:
    """Return a run that reports slot by slot, and the whole."""

    def run(_: X, seed: int, extra: Extra) -> list[Sample]:
        samples: list[Sample] = []
        for series, result in cluster.results(seed, extra, *others).items():
            for metric, values in _by_slot(result, cluster.slots).items():
                samples += [Sample(series, i + 1, metric, float(v)) for i, v in enumerate(values)]
            samples += _samples(series, "whole", summary(result))
        return samples

    return run


def at_each(
    cluster_of: Callable[[X], Cluster], *others: str
) -> Callable[[X, int, Extra], list[Sample]]:
    """Return a run that reports the whole at every x."""

    def run(x: X, seed: int, extra: Extra) -> list[Sample]:
        found = cluster_of(x).results(seed, extra, *others)
        return [s for series, r in found.items() for s in _samples(series, x, summary(r))]

    return run


# So many virtual workers take longer to find their places: twice the records, four times the slots.
LONG = partial(Cluster, workload=zipf(1.0, 2 * RECORDS), slots=4 * SLOTS)


def _grid(x: X) -> Cluster:
    fast, times = str(x).split("x")
    return LONG(phases=(powerful(int(fast), float(times)),), virtual_workers=100)


_STREAM: dict[str, object] = {"records": RECORDS, "distinct": DISTINCT, "loads": "lifetime"}
_WORDS: dict[str, object] = {
    "stream": "words of English texts (package wordfreq), in place of Wikipedia's pages",
    "records": RECORDS,
    "virtual_workers": PER_WORKER,
    "loads": "lifetime",
}
_CLUSTER: dict[str, object] = {
    "stream": f"Zipf-1, {DISTINCT:,} keys",
    "records": RECORDS,
    "workers": 10,
    "load": LOAD,
    "slots": SLOTS,
    "virtual_workers": 20,
}
_LONG = _CLUSTER | {"records": 2 * RECORDS, "slots": 4 * SLOTS, "virtual_workers": 100}
_SPREADS = ("queue_spread", "latency_spread_ms", "imbalance")
_LATE = ("late_imbalance", "late_completion_ms", "queue_at_end", "moves")

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="cg-choices",
        figure="CG Figure 4",
        summary="imbalance and memory over the skew of the keys, for 10, 100 and 1,000 bins",
        x_label="Zipf exponent",
        xs=tuple(round(0.1 * i, 1) for i in range(1, 21)),
        run=_choices,
        claims=claims.choices,
        streams=2,
        main_metric="imbalance_100",
        metrics=tuple(f"{m}_{b}" for m in ("imbalance", "memory") for b in BINS),
        params=_STREAM,
    ),
    Experiment(
        name="cg-epsilon",
        figure="CG Figure 6",
        summary="imbalance and memory over epsilon, 10 workers",
        x_label="epsilon",
        xs=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
        run=_epsilon,
        claims=claims.epsilon,
        streams=4,
        main_metric="imbalance",
        metrics=("imbalance", "memory"),
        params=_WORDS,
    ),
    Experiment(
        name="cg-workers",
        figure="CG Figures 7 and 8",
        summary="imbalance and memory over the number of workers, and of their virtual workers",
        x_label="workers",
        xs=WORKERS,
        run=_workers,
        claims=claims.workers,
        streams=4,
        main_metric="imbalance",
        metrics=("imbalance_of_bins", "memory_of_bins", "imbalance", "memory"),
        params=_WORDS,
    ),
    Experiment(
        name="cg-homogeneous",
        figure="CG Figure 9",
        summary="queues, latency and utilization of 10 equal workers, as the stream unfolds",
        x_label="time slot",
        xs=("whole",),
        run=unfolding(Cluster(workload=Words(RECORDS), phases=((1.0,) * 10,)), "key_hash"),
        claims=claims.homogeneous,
        streams=4,
        main_metric="imbalance",
        metrics=_SPREADS,
        params=_CLUSTER | {"stream": _WORDS["stream"]},
    ),
    Experiment(
        name="cg-heterogeneous",
        figure="CG Figure 10",
        summary="3 of 10 workers are 5 times as powerful as the others",
        x_label="time slot",
        xs=("whole",),
        run=unfolding(Cluster(), "key_hash", "round_robin"),
        claims=claims.heterogeneous,
        streams=4,
        main_metric="imbalance",
        metrics=_SPREADS,
        params=_CLUSTER,
    ),
    Experiment(
        name="cg-heterogeneous-grid",
        figure="CG section VII, Q2",
        summary="y of 10 workers are z times as powerful as the others",
        x_label="y x z",
        xs=tuple(f"{y}x{z}" for y in (1, 3, 5, 7, 9) for z in (2, 4, 6, 8, 10)),
        run=at_each(_grid, "key_hash", "round_robin"),
        claims=claims.grid,
        streams=1,
        main_metric="late_imbalance",
        metrics=("late_imbalance", "queue_at_end", "moves"),
        params=_LONG,
    ),
    Experiment(
        name="cg-sources",
        figure="CG Figure 11",
        summary="imbalance and memory over the number of sources, for 5 to 100 workers",
        x_label="sources",
        xs=SOURCES,
        run=_sources,
        claims=claims.sources,
        streams=4,
        main_metric="imbalance_10",
        metrics=tuple(f"{m}_{w}" for m in ("imbalance", "memory") for w in WORKERS),
        params=_WORDS,
    ),
    Experiment(
        name="cg-virtual-workers",
        figure="CG Figure 12",
        summary="the number of virtual workers, where 3 of 10 workers are 5 times as powerful",
        x_label="virtual workers per worker",
        xs=(5, 10, 20, 50, 100, 1_000),
        run=at_each(lambda x: LONG(virtual_workers=int(float(x)))),
        claims=claims.virtual_workers,
        streams=4,
        main_metric="late_imbalance",
        metrics=_LATE,
        params=_LONG,
    ),
    Experiment(
        name="cg-changing-capacity",
        figure="CG Figure 13",
        summary="capacities change at each third of the stream: {3, 5}, {5, 4}, {2, 10}",
        x_label="time slot",
        xs=("whole",),
        run=unfolding(
            LONG(
                phases=(powerful(3, 5.0), powerful(5, 4.0), powerful(2, 10.0)),
                virtual_workers=100,
            ),
            "key_hash",
            "round_robin",
        ),
        claims=claims.changing_capacity,
        streams=2,
        main_metric="imbalance",
        metrics=_SPREADS,
        params=_LONG,
    ),
)
