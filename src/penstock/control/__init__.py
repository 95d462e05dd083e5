"""The loop: reports become observations, observations become snapshots, all of it journalled."""

from penstock.control.controller import Controller
from penstock.control.journal import Journal
from penstock.control.policies import Policies
from penstock.control.snapshots import Snapshot
from penstock.control.stats import BatchStats, InstanceStats, OperatorStats

__all__ = [
    "BatchStats",
    "Controller",
    "InstanceStats",
    "Journal",
    "OperatorStats",
    "Policies",
    "Snapshot",
]
