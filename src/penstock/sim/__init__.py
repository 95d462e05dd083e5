"""Engines of virtual time, and the streams, graphs and clusters that they run.

`simulate` runs one operator with a grouping and optionally a shedder. `simulate_graph` runs a graph
of operators with a scaler. Simulated clusters and the airline jobs are inputs of placers.
"""

from penstock.sim.airline import Airline
from penstock.sim.batch_parts import (
    BatchesResult,
    Overheads,
    Stage,
    Worker,
)
from penstock.sim.batches import simulate_batches
from penstock.sim.clusters import (
    applied,
    chain_traffic,
    even_cluster,
    fluctuated,
    uneven_cluster,
)
from penstock.sim.datasets import AirTimes, Edits, Flights, Words
from penstock.sim.engine import simulate
from penstock.sim.graph_result import GraphResult
from penstock.sim.graphs import Node, simulate_graph
from penstock.sim.result import Result, StateChange, replication
from penstock.sim.service import Schedule
from penstock.sim.triggers import TriggeredResult, simulate_triggers
from penstock.sim.workloads import (
    Application,
    BySizes,
    HeavyTailed,
    Stream,
    Synthetic,
    Workload,
    zipf_keys,
)

__all__ = [
    "AirTimes",
    "Airline",
    "Application",
    "BatchesResult",
    "BySizes",
    "Edits",
    "Flights",
    "GraphResult",
    "HeavyTailed",
    "Node",
    "Overheads",
    "Result",
    "Schedule",
    "Stage",
    "StateChange",
    "Stream",
    "Synthetic",
    "TriggeredResult",
    "Words",
    "Worker",
    "Workload",
    "applied",
    "chain_traffic",
    "even_cluster",
    "fluctuated",
    "replication",
    "simulate",
    "simulate_batches",
    "simulate_graph",
    "simulate_triggers",
    "uneven_cluster",
    "zipf_keys",
]
