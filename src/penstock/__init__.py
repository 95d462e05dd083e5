"""Adaptive load management for PySpark streams."""

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.allocation import Albic, Allocator, LocalSearch
from penstock.policies.grouping import Grouping
from penstock.policies.scaling import Scaler
from penstock.policies.shedding import (
    LoadAware,
    Shedder,
    Target,
    average,
    each_record,
    sliding_average,
)

if TYPE_CHECKING:
    from penstock.spark import aggregate, balance, replay, shed

__version__ = "0.1.0"

__all__ = [
    "Albic",
    "Allocator",
    "Grouping",
    "LoadAware",
    "LocalSearch",
    "PenstockError",
    "Policy",
    "Scaler",
    "Shedder",
    "Target",
    "__version__",
    "aggregate",
    "average",
    "balance",
    "each_record",
    "replay",
    "shed",
    "sliding_average",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    """Import what needs Spark when it is asked for: policies and simulator do without."""
    if name in ("aggregate", "balance", "replay", "shed"):
        from penstock import spark  # noqa: PLC0415

        return getattr(spark, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
