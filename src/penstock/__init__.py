"""Adaptive load management for PySpark streams."""

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.allocation import Albic, Allocator, LocalSearch
from penstock.policies.grouping import Grouping
from penstock.policies.scaling import Fixed, Preventive, RateBased, Scaler, Threshold
from penstock.policies.shedding import (
    LoadAware,
    Shedder,
    Target,
    average,
    each_record,
    sliding_average,
)

if TYPE_CHECKING:
    from penstock.spark.aggregate import aggregate
    from penstock.spark.attach import attach, detach
    from penstock.spark.attachment import placed
    from penstock.spark.balance import balance
    from penstock.spark.replay import replay
    from penstock.spark.shed import shed

__version__ = "0.1.0"

__all__ = [
    "Albic",
    "Allocator",
    "Fixed",
    "Grouping",
    "LoadAware",
    "LocalSearch",
    "PenstockError",
    "Policy",
    "Preventive",
    "RateBased",
    "Scaler",
    "Shedder",
    "Target",
    "Threshold",
    "__version__",
    "aggregate",
    "attach",
    "average",
    "balance",
    "detach",
    "each_record",
    "placed",
    "replay",
    "shed",
    "sliding_average",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    """Import what needs Spark when it is asked for: policies and simulator do without."""
    if name in ("aggregate", "attach", "balance", "detach", "placed", "replay", "shed"):
        from penstock import spark  # noqa: PLC0415

        return getattr(spark, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
