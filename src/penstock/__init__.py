"""Adaptive load management for PySpark streams."""

from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.grouping import Grouping

__version__ = "0.1.0"

__all__ = ["Grouping", "PenstockError", "Policy", "__version__"]
