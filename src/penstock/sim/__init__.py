"""The engine of virtual time."""

from penstock.sim.datasets import Flights, Words
from penstock.sim.engine import simulate
from penstock.sim.result import Result, StateChange, replication
from penstock.sim.workloads import Application, Stream, Synthetic, Workload

__all__ = [
    "Application",
    "Flights",
    "Result",
    "StateChange",
    "Stream",
    "Synthetic",
    "Words",
    "Workload",
    "replication",
    "simulate",
]
