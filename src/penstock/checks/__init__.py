"""The conformance suite: checks that every policy passes, ours and yours.

A check that fails raises an AssertionError whose message names the policy and its duty.

Example:
    >>> from penstock.policies.grouping import RoundRobin
    >>> for name, check in yield_checks(RoundRobin(instances=3)):
    ...     check()

In a test of your own:

    @pytest.mark.parametrize("name, check", yield_checks(MyGrouping(instances=5)))
    def test_conformance(name, check):
        check()
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType

import numpy as np

import penstock.policies
from penstock.checks import common, cost_models, groupings, placers, scalers, shedders
from penstock.checks.aggregators import check_aggregator
from penstock.checks.groupings import drive
from penstock.checks.records import DISTINCT, cost_of
from penstock.checks.shedders import drive_shedder
from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.costs import CostModel, Exact
from penstock.policies.grouping import Grouping
from penstock.policies.placement import Placer
from penstock.policies.scaling import Scaler
from penstock.policies.shedding import Shedder, average

__all__ = ["check_aggregator", "discover", "drive", "drive_shedder", "example", "yield_checks"]

Check = Callable[[], None]


def discover() -> list[type[Policy]]:
    """Import all modules of `penstock.policies`, and return the registered classes."""
    _import_all(penstock.policies)
    return [cls for family in Policy.families().values() for cls in family]


def _import_all(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def example(cls: type[Policy]) -> Policy:
    """Return a policy with its defaults, and with examples for parameters that have none."""
    keys = np.arange(DISTINCT)
    needed: dict[str, object] = {}
    parameters = cls.parameters()
    if issubclass(cls, Grouping):
        needed["instances"] = 5
    if issubclass(cls, Shedder):
        given = {"target": average("20 ms"), "mean_cost_ms": 5.0, "ratio": 0.3}
        needed |= {name: value for name, value in given.items() if name in parameters}
    if "costs" in parameters:
        needed["costs"] = Exact(keys, cost_of(keys))
    if {"keys", "costs_ms"} <= set(parameters):
        needed |= {"keys": keys, "costs_ms": cost_of(keys)}
    return cls(**needed)


def yield_checks(policy: Policy) -> Iterator[tuple[str, Check]]:
    """Yield the name of each check that applies, and a function that raises if it fails."""
    checks = list(common.CHECKS)
    if isinstance(policy, CostModel):
        checks += cost_models.CHECKS
    if isinstance(policy, Grouping):
        checks += groupings.CHECKS
    if isinstance(policy, Shedder):
        checks += shedders.CHECKS
    if isinstance(policy, Scaler):
        checks += scalers.CHECKS
    if isinstance(policy, Placer):
        checks += placers.CHECKS
    for check in checks:
        yield check.__name__.removeprefix("check_"), partial(_run, check, policy)


def _run(check: Callable[..., None], policy: Policy) -> None:
    """Run a check; any other error than a refusal gets a message that names policy and check."""
    try:
        check(policy)
    except (AssertionError, PenstockError):
        raise
    except (Exception, SystemExit) as error:
        name = check.__name__.removeprefix("check_")
        raise AssertionError(
            f"{common.name_of(policy)} must pass the check {name!r} without an error; "
            f"it raised {type(error).__name__}: {error}"
        ) from error
