"""The engine of virtual time."""

from penstock.sim.engine import Result, StateChange, simulate
from penstock.sim.workloads import Application, Stream, Synthetic, Workload

__all__ = ["Application", "Result", "StateChange", "Stream", "Synthetic", "Workload", "simulate"]
