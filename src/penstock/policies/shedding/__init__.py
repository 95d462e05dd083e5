"""Shedders: policies that decide which records are dropped when there is too much work."""

from penstock.policies.shedding.base import Admitted, Shedder
from penstock.policies.shedding.full_knowledge import FullKnowledge
from penstock.policies.shedding.load_aware import LoadAware
from penstock.policies.shedding.load_aware_as_published import LoadAwareAsPublished
from penstock.policies.shedding.mean_cost import MeanCost
from penstock.policies.shedding.never import Never
from penstock.policies.shedding.random_drop import RandomDrop
from penstock.policies.shedding.targets import Target, average, each_record, sliding_average

__all__ = [
    "Admitted",
    "FullKnowledge",
    "LoadAware",
    "LoadAwareAsPublished",
    "MeanCost",
    "Never",
    "RandomDrop",
    "Shedder",
    "Target",
    "average",
    "each_record",
    "sliding_average",
]
