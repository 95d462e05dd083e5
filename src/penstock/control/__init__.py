"""Control loops without an engine.

The fast loop turns the reports of tasks into snapshots for routers. The slow loops plan executors
and the placement of state. A journal keeps observations, plans and outcomes.
"""

from penstock.control.controller import Controller
from penstock.control.journal import Journal
from penstock.control.notices import Callbacks, Notices, OnBatch
from penstock.control.operator_policies import OperatorPolicies
from penstock.control.scaling_loop import ExecutorPlan, Limits, ScalingLoop
from penstock.control.snapshots import Snapshot
from penstock.control.stats import BatchStats, FinishedBatch, InstanceStats, OperatorStats
from penstock.control.timeline import Running, Timeline

__all__ = [
    "BatchStats",
    "Callbacks",
    "Controller",
    "ExecutorPlan",
    "FinishedBatch",
    "InstanceStats",
    "Journal",
    "Limits",
    "Notices",
    "OnBatch",
    "OperatorPolicies",
    "OperatorStats",
    "Running",
    "ScalingLoop",
    "Snapshot",
    "Timeline",
]
