"""Cost models: estimates of the cost of a record by its key."""

from penstock.policies.costs.base import CostModel
from penstock.policies.costs.count_min import CountMin
from penstock.policies.costs.exact import Exact
from penstock.policies.costs.space_saving import SpaceSaving

__all__ = ["CostModel", "CountMin", "Exact", "SpaceSaving"]
