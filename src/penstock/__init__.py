"""Adaptive load management for PySpark streams."""

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.grouping import Grouping

if TYPE_CHECKING:
    from penstock.spark import balance

__version__ = "0.1.0"

__all__ = ["Grouping", "PenstockError", "Policy", "__version__", "balance"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    """Import what needs Spark when it is asked for: policies and simulator do without."""
    if name == "balance":
        from penstock.spark import balance as found  # noqa: PLC0415

        return found
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
