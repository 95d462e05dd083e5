"""Placers: policies that decide on which worker each key group lives."""

from penstock.policies.placement.albic import Albic
from penstock.policies.placement.base import Move, PlacementPlan, Placer
from penstock.policies.placement.cluster import Cluster, Traffic
from penstock.policies.placement.cola import Cola
from penstock.policies.placement.consistent import Consistent
from penstock.policies.placement.flux import Flux
from penstock.policies.placement.local_search import LocalSearch
from penstock.policies.placement.milp import Milp

__all__ = [
    "Albic",
    "Cluster",
    "Cola",
    "Consistent",
    "Flux",
    "LocalSearch",
    "Milp",
    "Move",
    "PlacementPlan",
    "Placer",
    "Traffic",
]
