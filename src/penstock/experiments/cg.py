"""The evaluation of Consistent Grouping: Figures 4 and 6 to 13, in simulation.

The paper's Wikipedia and Twitter streams are not public. Words of English texts replace Wikipedia:
they have real frequencies, and the most frequent word has a share of 5% (Wikipedia: 9%).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.experiments import cg_claims as claims
from penstock.experiments import cg_cluster_claims as cluster_claims
from penstock.experiments.base import Experiment, Extra, Run, Sample, X, samples
from penstock.experiments.cg_groupings import both, schemes
from penstock.experiments.cg_measures import SLOTS, by_slot, spread, summary
from penstock.policies.grouping import (
    Consistent,
    Grouping,
    KeyHash,
    RoundRobin,
)
from penstock.sim import Result, Synthetic, Words, Workload, simulate

RECORDS, DISTINCT = claims.RECORDS, 100_000
BINS = (10, 100, 1_000)
WORKERS = (5, 10, 50, 100)
SOURCES = (1, 10, 50, 100)
LOAD = 0.8
PER_WORKER = claims.PER_WORKER  # virtual workers of a worker in all figures but 12 and 13

Capacities = tuple[float, ...]
# Makes a grouping from the numbers of workers and of virtual workers of each.
Scheme = Callable[[int, int], Grouping]

BESIDE: dict[str, tuple[Scheme, int]] = {
    cluster_claims.MORE[0]: (Consistent.as_published, claims.VIRTUAL),
    cluster_claims.MORE[1]: (Consistent, claims.VIRTUAL),
}


def zipf(exponent: float, records: int = RECORDS) -> Synthetic:
    """Return the paper's synthetic stream (Table I), at a tenth of its length."""
    same = {"cost_values": 1, "min_cost_ms": 1.0, "max_cost_ms": 1.0}
    return Synthetic(records=records, distinct=DISTINCT, exponent=exponent, **same)  # type: ignore[arg-type]


def _suffixed(numbers: Mapping[str, float], suffix: str) -> dict[str, float]:
    return {f"{name}_{suffix}": value for name, value in numbers.items()}


def _choices(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 4: imbalance and memory over the skew, for 10, 100 and 1,000 bins."""
    keys = zipf(float(x)).stream(seed).keys
    found: list[Sample] = []
    for bins in BINS:
        groupings = schemes(bins) | {series: make(bins) for series, make in extra.items()}
        if bins == BINS[0]:  # bins are workers here, not virtual workers
            groupings["cg"] = Consistent(bins, claims.VIRTUAL, half_life=None)
        for series, grouping in groupings.items():
            found += samples(series, x, _suffixed(spread(grouping, keys), str(bins)))
    return found


def _epsilon(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 6: the trade-off between imbalance and memory."""
    keys = Words(RECORDS).stream(seed).keys
    groupings = {
        "key_hash": KeyHash(10),
        "cg_as_published": Consistent.as_published(10, PER_WORKER, epsilon=float(x)),
        "cg": Consistent(10, PER_WORKER, epsilon=float(x), half_life=None),
        "round_robin": RoundRobin(10),
        **{series: make(10) for series, make in extra.items()},
    }
    return [s for series, one in groupings.items() for s in samples(series, x, spread(one, keys))]


def _workers(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 7 (bins: ten virtual workers for each worker) and 8 (workers)."""
    keys, workers = Words(RECORDS).stream(seed).keys, int(float(x))
    found: list[Sample] = []
    for series, grouping in schemes(PER_WORKER * workers).items():
        found += samples(series, x, _suffixed(spread(grouping, keys), "of_bins"))
    groupings = schemes(workers) | both(workers)
    del groupings["porc"], groupings["porc_as_published"]
    groupings |= {series: make(workers) for series, make in extra.items()}
    for series, grouping in groupings.items():
        found += samples(series, x, spread(grouping, keys))
    return found


def _sources(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: several sources, each of which counts only its own records."""
    stream = Words(RECORDS).stream(seed)
    found: list[Sample] = []
    for workers in WORKERS:
        groupings = both(workers)
        groupings |= {series: make(workers) for series, make in extra.items()}
        for series, grouping in groupings.items():
            result = simulate(grouping, stream, sources=int(float(x)))
            numbers = {"imbalance": result.imbalance, "memory": result.memory}
            found += samples(series, x, _suffixed(numbers, str(workers)))
    return found


def powerful(fast: int, times: float, workers: int = 10) -> Capacities:
    """Return capacities of mean 1: `fast` workers are `times` as powerful as the others."""
    raw = np.array([times] * fast + [1.0] * (workers - fast))
    return tuple(raw / raw.mean())


@dataclass(frozen=True)
class Cluster:
    """Workers with queues, as in Figures 9, 10, 12 and 13.

    Attributes:
        workload: workload whose records cost 1 ms on a worker of capacity 1.
        phases: capacities of the workers; several ones follow each other in parts of equal length.
        virtual_workers: number of virtual workers of each worker, as in the paper's figure.
        beside: series with another number of virtual workers, by name: the scheme and the number.
        slots: number of time slots in the whole run.
    """

    workload: Workload = field(default_factory=lambda: zipf(1.0))
    phases: Sequence[Capacities] = (powerful(3, 5.0),)
    virtual_workers: int = PER_WORKER
    beside: Mapping[str, tuple[Scheme, int]] = field(default_factory=dict)
    slots: int = SLOTS

    def results(self, seed: int, extra: Extra, *others: str) -> dict[str, Result]:
        """Simulate the groupings on the same stream, at a load of 80%."""
        stream = self.workload.stream(seed)
        workers = len(self.phases[0])
        stream = stream.every(1 / (LOAD * workers))
        step = len(stream) // len(self.phases)
        slowdowns = [(i * step, 1 / np.array(c)) for i, c in enumerate(self.phases)]
        slot_ms = float(stream.arrivals_ms[-1]) / self.slots
        groupings = {name: Grouping.named(name, instances=workers) for name in others}
        groupings["cg_as_published"] = Consistent.as_published(workers, self.virtual_workers)
        groupings["cg"] = Consistent(workers, self.virtual_workers)
        for series, (scheme, number) in self.beside.items():
            groupings[series] = scheme(workers, number)
        groupings |= {series: make(workers) for series, make in extra.items()}
        return {
            series: simulate(grouping, stream, slowdowns=slowdowns, slot_ms=slot_ms)
            for series, grouping in groupings.items()
        }


def unfolding(cluster: Cluster, *others: str) -> Run:
    """Return a run that reports numbers slot by slot, and those of the whole run."""

    def run(_: X, seed: int, extra: Extra) -> list[Sample]:
        found: list[Sample] = []
        for series, result in cluster.results(seed, extra, *others).items():
            for metric, values in by_slot(result, cluster.slots).items():
                for slot, value in enumerate(values, start=1):
                    found += samples(series, slot, {metric: value})
            found += samples(series, "whole", summary(result))
        return found

    return run


def at_each(cluster_of: Callable[[X], Cluster], *others: str) -> Run:
    """Return a run that reports the numbers of a whole run at every x."""

    def run(x: X, seed: int, extra: Extra) -> list[Sample]:
        results = cluster_of(x).results(seed, extra, *others)
        return [
            s for series, result in results.items() for s in samples(series, x, summary(result))
        ]

    return run


# Many virtual workers take longer to settle: twice the records, and four times the slots.
LONG = partial(Cluster, workload=zipf(1.0, 2 * RECORDS), slots=4 * SLOTS)


def _grid(x: X) -> Cluster:
    fast, times = str(x).split("x")
    beside = {"cg_of_100": (Consistent, 100)}
    return LONG(phases=(powerful(int(fast), float(times)),), beside=beside)


_STREAM: dict[str, object] = {"records": RECORDS, "loads": "lifetime"}
_TEXTS = "words of English texts (package wordfreq), in place of Wikipedia's pages"
_WORDS = _STREAM | {"stream": _TEXTS, "virtual_workers": PER_WORKER}
_CLUSTER: dict[str, object] = {
    "stream": f"Zipf-1, {DISTINCT:,} keys",
    "records": RECORDS,
    "workers": 10,
    "load": LOAD,
    "slots": SLOTS,
    "virtual_workers": PER_WORKER,
    "beside": f"{claims.VIRTUAL} virtual workers",
}
_LONG = _CLUSTER | {"records": 2 * RECORDS, "slots": 4 * SLOTS, "beside": "none"}
_SPREADS = ("queue_spread", "latency_spread_ms", "imbalance")
_LATE = ("late_imbalance", "late_completion_ms", "queue_at_end", "moves")

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="cg-choices",
        figure="CG Figure 4",
        summary="imbalance and memory by skew",
        details="10, 100 and 1,000 bins",
        part="{} bins",
        x_label="Zipf exponent",
        xs=tuple(round(0.1 * i, 1) for i in range(1, 21)),
        run=_choices,
        claims=claims.choices,
        streams=2,
        main_metric="imbalance_100",
        metrics=tuple(f"{m}_{b}" for m in ("imbalance", "memory") for b in BINS),
        params=_STREAM | {"distinct": DISTINCT},
    ),
    Experiment(
        name="cg-epsilon",
        figure="CG Figure 6",
        summary="imbalance and memory by epsilon",
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
        summary="imbalance and memory by workers",
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
        summary="10 equal workers over time",
        x_label="time slot",
        xs=("whole",),
        run=unfolding(
            Cluster(workload=Words(RECORDS), phases=((1.0,) * 10,), beside=BESIDE), "key_hash"
        ),
        claims=cluster_claims.homogeneous,
        streams=4,
        main_metric="imbalance",
        metrics=_SPREADS,
        params=_CLUSTER | {"stream": _TEXTS},
    ),
    Experiment(
        name="cg-heterogeneous",
        figure="CG Figure 10",
        summary="3 of 10 workers are 5 times as powerful",
        x_label="time slot",
        xs=("whole",),
        run=unfolding(Cluster(beside=BESIDE), "key_hash", "round_robin"),
        claims=cluster_claims.heterogeneous,
        streams=4,
        main_metric="imbalance",
        metrics=_SPREADS,
        params=_CLUSTER,
    ),
    Experiment(
        name="cg-heterogeneous-grid",
        figure="CG section VII, Q2",
        summary="y of 10 workers are z times as powerful",
        x_label="y x z (workers x power)",
        xs=tuple(f"{y}x{z}" for y in (1, 3, 5, 7, 9) for z in (2, 4, 6, 8, 10)),
        run=at_each(_grid, "key_hash", "round_robin"),
        claims=cluster_claims.grid,
        streams=1,
        main_metric="late_imbalance",
        metrics=("late_imbalance", "queue_at_end", "moves"),
        params=_LONG | {"beside": "100 virtual workers"},
    ),
    Experiment(
        name="cg-sources",
        figure="CG Figure 11",
        summary="imbalance and memory by sources",
        part="{} workers",
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
        summary="balance by virtual workers",
        details="3 of 10 workers are 5 times as powerful as the others",
        x_label="virtual workers per worker",
        xs=(5, 10, 20, 50, 100, 1_000),
        run=at_each(lambda x: LONG(virtual_workers=int(float(x)))),
        claims=cluster_claims.virtual_workers,
        streams=4,
        main_metric="late_imbalance",
        metrics=_LATE,
        params=_LONG | {"virtual_workers": "5 to 1,000"},
    ),
    Experiment(
        name="cg-changing-capacity",
        figure="CG Figure 13",
        summary="capacities change twice",
        details="3 workers 5 times as powerful, then 5 workers 4 times, then 2 workers 10 times",
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
        claims=cluster_claims.changing_capacity,
        streams=2,
        main_metric="imbalance",
        metrics=_SPREADS,
        params=_LONG | {"virtual_workers": 100},
    ),
)
