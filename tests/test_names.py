"""The public names: verbs at the top, policies by family, modules that functions do not hide."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import penstock

VERBS = [
    "aggregate",
    "attach",
    "balance",
    "dashboard",
    "detach",
    "diagnose",
    "metrics",
    "replay",
    "shed",
    "with_placement",
]
FAMILIES = {
    "grouping": "Proactive",
    "shedding": "LoadAware",
    "scaling": "Preventive",
    "placement": "Albic",
}


def test_the_top_has_verbs_and_families_only():
    names = [name for name in penstock.__all__ if name not in ("PenstockError", "__version__")]
    assert names == sorted([*VERBS, *FAMILIES])
    assert dir(penstock) == sorted(penstock.__all__)
    with pytest.raises(AttributeError, match="no attribute 'LoadAware'"):
        _ = penstock.LoadAware


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_functions(verb):
    assert callable(getattr(penstock, verb))
    assert getattr(penstock, verb).__name__ == verb


@pytest.mark.parametrize("family, policy", FAMILIES.items())
def test_a_family_is_a_module_with_its_policies(family, policy):
    module = importlib.import_module(f"penstock.{family}")
    assert getattr(penstock, family) is module
    own = importlib.import_module(f"penstock.policies.{family}")
    assert getattr(module, policy) is getattr(own, policy)
    assert module.__all__ == own.__all__ == sorted(own.__all__)


@pytest.mark.parametrize(
    "verb", ["aggregate", "attach", "balance", "dashboard", "metrics", "replay", "shed"]
)
def test_the_module_of_a_verb_is_not_hidden_by_its_function(verb):
    assert isinstance(importlib.import_module(f"penstock.spark.{verb}"), ModuleType)
    assert isinstance(getattr(penstock.spark, verb), ModuleType)


def test_the_simulator_does_not_import_spark():
    code = "import sys, penstock.sim, penstock.grouping; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
