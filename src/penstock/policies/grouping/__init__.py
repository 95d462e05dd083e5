"""Groupings: they assign records to instances."""

from penstock.policies.grouping.base import Grouping, Routed
from penstock.policies.grouping.bounded_hash import BoundedHash
from penstock.policies.grouping.consistent import Consistent
from penstock.policies.grouping.factoring import Factoring
from penstock.policies.grouping.full_knowledge import FullKnowledge
from penstock.policies.grouping.key_hash import KeyHash
from penstock.policies.grouping.partial_key import PartialKey
from penstock.policies.grouping.proactive import Proactive
from penstock.policies.grouping.proactive_as_published import ProactiveAsPublished
from penstock.policies.grouping.random_choices import RandomChoices
from penstock.policies.grouping.round_robin import RoundRobin
from penstock.policies.grouping.two_choices import TwoChoices

__all__ = [
    "BoundedHash",
    "Consistent",
    "Factoring",
    "FullKnowledge",
    "Grouping",
    "KeyHash",
    "PartialKey",
    "Proactive",
    "ProactiveAsPublished",
    "RandomChoices",
    "RoundRobin",
    "Routed",
    "TwoChoices",
]
