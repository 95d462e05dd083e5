"""Groupings: which instance gets which record."""

from penstock.policies.grouping.base import Grouping, Routed
from penstock.policies.grouping.full_knowledge import FullKnowledge
from penstock.policies.grouping.key_hash import KeyHash
from penstock.policies.grouping.proactive import Proactive
from penstock.policies.grouping.proactive_as_published import ProactiveAsPublished
from penstock.policies.grouping.round_robin import RoundRobin

__all__ = [
    "FullKnowledge",
    "Grouping",
    "KeyHash",
    "Proactive",
    "ProactiveAsPublished",
    "RoundRobin",
    "Routed",
]
