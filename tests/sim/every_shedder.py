"""One shedder of each kind, and streams that overload instances."""

import numpy as np

from penstock.policies.shedding import (
    FullKnowledge,
    LoadAware,
    LoadAwareAsPublished,
    MeanCost,
    Never,
    RandomDrop,
    Shedder,
    average,
    each_record,
    sliding_average,
)
from penstock.sim import Stream, Synthetic

LIMIT_MS = 20.0


class Odd(Shedder):
    """One of the user's own: odd keys only."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.asarray(keys) % 2 == 1


def shedders(stream, k):
    """One of each kind, by name."""
    target = average(LIMIT_MS)
    costs, mean_ms = stream.exact_costs(), float(stream.costs_ms.mean())
    found = {
        "never": Never(k),
        "random_drop": RandomDrop(0.3, k),
        "mean_cost": MeanCost(target, mean_ms, k),
        "las": LoadAware(target, instances=k),
        "las_cheap_first": LoadAware(each_record(LIMIT_MS), "cheap", k),
        "las_sliding": LoadAware(sliding_average(LIMIT_MS, 200), instances=k, window=5),
        "full_knowledge": FullKnowledge(target, costs, instances=k),
        "full_knowledge_cheap_first": FullKnowledge(target, costs, "cheap", k),
        "own": Odd(k),
    }
    if k == 1:
        found["las_as_published"] = LoadAwareAsPublished(target, window=16, tolerance=0.5)
    return found


EVERY = [*shedders(Stream.of([1], [1.0]), 1)]
FOR_SEVERAL = [name for name in EVERY if name != "las_as_published"]
KINDS = [(name, 1) for name in EVERY] + [(name, 3) for name in FOR_SEVERAL]


def overloaded(k, records=6_000, seed=1):
    """A quarter more than k instances can do."""
    stream = Synthetic(records=records, min_cost_ms=0.1, max_cost_ms=6.4).stream(seed)
    return stream.every(0.75 * float(stream.costs_ms.mean()) / k)
