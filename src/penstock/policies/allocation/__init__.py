"""Allocators: on which worker each key group lives."""

from penstock.policies.allocation.albic import Albic
from penstock.policies.allocation.base import Allocation, Allocator, Move
from penstock.policies.allocation.cluster import Cluster, Traffic
from penstock.policies.allocation.cola import Cola
from penstock.policies.allocation.consistent import Consistent
from penstock.policies.allocation.flux import Flux
from penstock.policies.allocation.local_search import LocalSearch
from penstock.policies.allocation.milp import Milp

__all__ = [
    "Albic",
    "Allocation",
    "Allocator",
    "Cluster",
    "Cola",
    "Consistent",
    "Flux",
    "LocalSearch",
    "Milp",
    "Move",
    "Traffic",
]
