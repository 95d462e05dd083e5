"""Adaptive load management for PySpark streams."""

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.grouping import Grouping

if TYPE_CHECKING:
    from penstock.spark import aggregate, balance

__version__ = "0.1.0"

__all__ = ["Grouping", "PenstockError", "Policy", "__version__", "aggregate", "balance"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    """Import what needs Spark when it is asked for: policies and simulator do without."""
    if name in ("aggregate", "balance"):
        from penstock import spark  # noqa: PLC0415

        return getattr(spark, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
