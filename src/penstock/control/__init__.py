"""The loop: reports become observations, observations become snapshots, all of it journalled."""

from penstock.control.controller import Controller, Snapshot
from penstock.control.journal import Journal
from penstock.control.stats import InstanceStats, OperatorStats

__all__ = ["Controller", "InstanceStats", "Journal", "OperatorStats", "Snapshot"]
