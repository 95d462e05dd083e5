"""Numbers of a run of groupings: imbalance, memory, queues and latency."""

import numpy as np

from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, Int64
from penstock.policies.measures import imbalance
from penstock.sim import Result, replication

SLOTS = 50


def spread(grouping: Grouping, keys: Int64) -> dict[str, float]:
    """Route all keys, and return the imbalance of loads and the mean number of places of a key."""
    routed = grouping.route(keys)
    counts = np.bincount(routed, minlength=grouping.instances).astype(np.float64)
    return {
        "imbalance": imbalance(counts),
        "memory": replication(keys, routed, grouping.instances),
    }


def summary(result: Result, slots: int = SLOTS) -> dict[str, float]:
    """Return numbers of the whole run. Late ones are of its second half: capacities are known."""
    half = result.completion_ms[result.completion_ms.size // 2 :]
    late = [imbalance(slot) for slot in result.utilization(slots)[slots // 2 :]]
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


def by_slot(result: Result, slots: int) -> dict[str, Float64]:
    """Return differences between the largest and the smallest worker, slot by slot."""
    queues = result.queues(slots)
    completions = np.array_split(result.completion_ms, slots)
    instances = np.array_split(result.instances, slots)
    k = result.load_ms.size
    latency = np.array(
        [_mean_by(own, at, k) for own, at in zip(completions, instances, strict=True)]
    )
    return {
        "queue_spread": (queues.max(axis=1) - queues.min(axis=1)).astype(np.float64),
        "latency_spread_ms": np.nanmax(latency, axis=1) - np.nanmin(latency, axis=1),
        "imbalance": np.array([imbalance(slot) for slot in result.utilization(slots)]),
    }


def _mean_by(values: Float64, instances: Int32, k: int) -> Float64:
    counts = np.bincount(instances, minlength=k)
    totals = np.bincount(instances, weights=values, minlength=k)
    means: Float64 = np.divide(totals, counts, out=np.full(k, np.nan), where=counts > 0)
    return means
