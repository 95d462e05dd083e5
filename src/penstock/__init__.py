"""Adaptive load management for PySpark streams.

Verbs are here: `balance`, `aggregate`, `shed`, `replay`, `attach`, `detach`, `with_placement`,
`metrics`, `dashboard`, `diagnose`.
Policies are in the module of their family: `penstock.grouping`, `penstock.shedding`,
`penstock.scaling`, `penstock.placement`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock import grouping, placement, scaling, shedding
    from penstock.live_diagnosis import diagnose
    from penstock.spark.aggregate import aggregate
    from penstock.spark.attach import attach, detach
    from penstock.spark.balance import balance
    from penstock.spark.dashboard import dashboard
    from penstock.spark.driver.attachment import with_placement
    from penstock.spark.metrics import metrics
    from penstock.spark.replay import replay
    from penstock.spark.shed import shed

__version__ = "0.1.0"

__all__ = [
    "PenstockError",
    "__version__",
    "aggregate",
    "attach",
    "balance",
    "dashboard",
    "detach",
    "diagnose",
    "grouping",
    "metrics",
    "placement",
    "replay",
    "scaling",
    "shed",
    "shedding",
    "with_placement",
]

_FAMILIES = ("grouping", "placement", "scaling", "shedding")
_VERBS = {
    "aggregate": "penstock.spark.aggregate",
    "attach": "penstock.spark.attach",
    "balance": "penstock.spark.balance",
    "dashboard": "penstock.spark.dashboard",
    "detach": "penstock.spark.attach",
    "diagnose": "penstock.live_diagnosis",
    "metrics": "penstock.spark.metrics",
    "replay": "penstock.spark.replay",
    "shed": "penstock.spark.shed",
    "with_placement": "penstock.spark.driver.attachment",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a function or a module
    """Import a verb or a family when it is first used: the simulator works without Spark."""
    if name in _FAMILIES:
        return importlib.import_module(f"penstock.{name}")
    if name in _VERBS:
        return getattr(importlib.import_module(_VERBS[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
