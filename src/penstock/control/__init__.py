"""The loop: reports become observations, observations become snapshots, all of it journalled."""

from penstock.control.controller import Controller
from penstock.control.elasticity import Elasticity, ExecutorPlan, Limits
from penstock.control.journal import Journal
from penstock.control.policies import Policies
from penstock.control.snapshots import Snapshot
from penstock.control.stats import BatchStats, InstanceStats, OperatorStats
from penstock.control.timeline import Running, Timeline

__all__ = [
    "BatchStats",
    "Controller",
    "Elasticity",
    "ExecutorPlan",
    "InstanceStats",
    "Journal",
    "Limits",
    "OperatorStats",
    "Policies",
    "Running",
    "Snapshot",
    "Timeline",
]
