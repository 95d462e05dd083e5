"""Optional packages: what is reported when one is missing."""

import sys
import tomllib
from pathlib import Path

import pytest

import penstock
from penstock import extras
from penstock.errors import PenstockError
from penstock.extras import EXTRAS, installed, needs


def test_an_installed_module_is_returned():
    assert needs("json", "data", "a test") is sys.modules["json"]
    assert needs("os.path", "data", "a test") is sys.modules["os.path"]


@pytest.mark.parametrize("name", ["no_such_module", "no_such_module.below"])
def test_a_missing_module_is_one_line_with_the_way_out(name):
    with pytest.raises(PenstockError) as raised:
        needs(name, "solvers", "the solver")
    assert str(raised.value) == f"the solver needs {name}; run in a clone: pip install '.[solvers]'"


def test_a_module_that_is_blocked_counts_as_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(PenstockError, match="the solver needs highspy; run in a clone"):
        needs("highspy", "solvers", "the solver")


def test_a_broken_module_raises_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import its_missing_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_missing_dependency"):
        needs("broken_package", "data", "a test")


def test_an_extra_is_installed_if_all_its_packages_are(monkeypatch):
    monkeypatch.setattr(
        extras, "EXTRAS", {"both": ("json", "no_such_module"), "one": ("json",), "none": ()}
    )
    assert not installed("both")
    assert installed("one")
    assert installed("none")


def test_metrics_name_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(PenstockError) as raised:
        penstock.metrics()
    assert str(raised.value) == (
        "metrics() needs prometheus_client; run in a clone: pip install '.[metrics]'"
    )


def test_extras_are_those_of_the_project_file():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    declared = project["project"]["optional-dependencies"]
    for extra in EXTRAS.keys() & declared.keys():
        named = {requirement.partition(">")[0].replace("-", "_") for requirement in declared[extra]}
        assert named == set(EXTRAS[extra])
