"""Cost models: estimates of the cost of a record by its key, and by its size."""

from penstock.policies.costs.base import CostModel, HotKey
from penstock.policies.costs.by_call import ByCall
from penstock.policies.costs.by_size import BySize
from penstock.policies.costs.count_min import CountMin
from penstock.policies.costs.exact import Exact
from penstock.policies.costs.space_saving import SpaceSaving

__all__ = ["ByCall", "BySize", "CostModel", "CountMin", "Exact", "HotKey", "SpaceSaving"]
