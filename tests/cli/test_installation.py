"""An installation without optional packages: one line with the command that installs them."""

import sys

import pytest

from penstock.cli import doctor
from processes import ran

WITHOUT = """
import sys
for module in {modules!r}:
    sys.modules[module] = None
sys.argv = ["penstock", *{args!r}]
from penstock.cli import main
main()
"""


def command(*args, without=()):
    """Run a command in a Python that lacks some packages."""
    return ran([sys.executable, "-c", WITHOUT.format(modules=without, args=list(map(str, args)))])


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_the_packages_of_the_command_line(module):
    done = command("policies", without=[module])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "penstock: the command line needs click and rich; run in a clone: pip install '.[cli]'\n"
    )


@pytest.mark.parametrize("args", [["demo"], ["reproduce", "posg-instances"]])
def test_without_matplotlib_nothing_is_run_that_would_be_drawn(args, tmp_path):
    done = command(*args, "--out", tmp_path / "out", without=["matplotlib"])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("penstock: ")
    assert done.stderr.endswith(" needs matplotlib; run in a clone: pip install '.[plots]'\n")
    assert done.stderr.count("\n") == 1


def test_without_matplotlib_other_commands_work():
    done = command("reproduce", "--list", without=["matplotlib"])
    assert done.returncode == 0, done.stderr
    assert "posg-instances" in done.stdout


def test_plots_without_matplotlib_are_one_clear_error():
    code = "import sys; sys.modules['matplotlib'] = None; import penstock.plots"
    done = ran([sys.executable, "-c", code])
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "penstock.errors.PenstockError: a plot needs matplotlib; "
        "run in a clone: pip install '.[plots]'"
    )


def test_the_doctor_lists_extras(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda extra: extra in ("cli", "plots"))
    assert doctor._extras() == [
        "with cli, plots",
        "without data, diagnose, kafka, metrics, sketches, solvers; run in a clone: pip install "
        "'.[data,diagnose,kafka,metrics,sketches,solvers]'",
    ]
    monkeypatch.setattr(doctor, "installed", lambda extra: True)
    assert doctor._extras() == [
        "with cli, data, diagnose, kafka, metrics, plots, sketches, solvers"
    ]
