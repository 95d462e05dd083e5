"""Policies of a user's own, good and bad, as the text of a file."""

RANDOM = """
import numpy as np
from penstock.grouping import Grouping
from penstock.shedding import Shedder
from penstock.policies.scaling import Scaler
from penstock.policies.placement import Placer, LocalSearch

class First(Grouping):
    def route(self, keys, now_ms=None):
        return np.zeros(len(keys), dtype=np.int32)

class Wrong(Grouping):
    def route(self, keys, now_ms=None):
        return np.full(len(keys), 99, dtype=np.int32)

class Unfinished(Grouping):
    pass

class Leaving(First):
    def __init__(self, instances):
        raise SystemExit(3)

class Gone(First):
    def route(self, keys, now_ms=None):
        raise SystemExit(3)

class Marked(First):
    def route(self, keys, now_ms=None):
        raise ValueError("bad path [/x] of [instances]")

class Listing(First):
    def route(self, keys, now_ms=None):
        return [0] * len(keys)

class Needy(First):
    def __init__(self, instances, more):
        super().__init__(instances)

class posg(First):
    pass

class Lenient(Shedder):
    def __init__(self, target, instances=1):
        super().__init__(instances)
        self.target = target

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(len(keys), dtype=np.bool_)

class Strict(Lenient):
    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.asarray(arrival_ms) < 0

class Counting(Lenient):
    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(len(keys), dtype=np.int64)

class Undecided(Shedder):
    pass

class Demanding(Lenient):
    def __init__(self, target, more):
        super().__init__(target)

class las(Lenient):
    pass

class Plain(Shedder):
    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(len(keys), dtype=np.bool_)

class Half(Scaler):
    def wanted(self, topology, history):
        return {name: (self.max_degree // 2, "half of all") for name in topology.parents}

class NoLimits(Half):
    def plan(self, topology, history):
        plan = super().plan(topology, history)
        return type(plan)({name: 99 for name in plan.degrees}, plan.reasons)

class Flapping(Scaler):
    def wanted(self, topology, history):
        now = {name: history.operators[name].degree for name in topology.parents}
        return {name: (3 - degree if degree < 3 else 1, "why not") for name, degree in now.items()}

class Indecisive(Scaler):
    pass

class Asking(Half):
    def __init__(self, max_degree, more):
        super().__init__(max_degree=max_degree)

class Bare(Half):
    def __init__(self):
        super().__init__()

class preventive(Half):
    pass

class Draining(LocalSearch):
    def __init__(self, max_migrations=None):
        super().__init__(max_migrations, tolerated=float("inf"))

class Spendthrift(Placer):
    def place(self, cluster):
        live = np.flatnonzero(cluster.live)
        return live[(cluster.placement + 1) % live.size], "everybody moves"

class Homeless(Placer):
    pass
"""
