"""Graphs of operators, and a scaler that watches them."""

from penstock.policies.scaling import Scaler, Topology
from penstock.sim import Node, simulate_graph

NEVER_S = 1e6
ONE = Topology.linear("sink")
CHAIN = Topology.linear("parse", "sink")
STAR = Topology(
    {"one": (), "two": (), "centre": ("one", "two"), "a": ("centre",), "b": ("centre",)}
)


class Watching(Scaler):
    """Keeps every history, and changes degrees at given plans, by their numbers."""

    def __init__(self, changes=None, min_degree=1, max_degree=8):
        super().__init__(min_degree, max_degree)
        self.changes = changes or {}
        self.histories = []

    def wanted(self, topology, history):
        self.histories.append(history)
        degrees = self.changes.get(len(self.histories), {})
        return {name: (degree, "told so") for name, degree in degrees.items()}


def one(scaler, rates, cost_ms=100.0, **options):
    """A single operator that does 10 records a second."""
    return simulate_graph(scaler, ONE, {"sink": Node(cost_ms)}, rate_per_s=rates, **options)
