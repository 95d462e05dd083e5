"""`penstock doctor`: check whether this machine can run Penstock."""

import platform
import sys
from collections.abc import Callable
from importlib.metadata import version

import click
from rich.markup import escape

from penstock.cli.console import output
from penstock.errors import PenstockError
from penstock.extras import EXTRAS, installed
from penstock.policies.grouping import KeyHash, Proactive, ProactiveAsPublished, RoundRobin
from penstock.spark.environment import java_command, java_version
from penstock.spark.lab.doctor import spark_version, try_session


@click.command
def doctor() -> int:
    """Check whether this machine can run Penstock.

    The checks are: Python, Java, Spark, compiled kernels, and a local Spark session. A list of
    installed and missing extras follows.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("Python", _python),
        ("Java", lambda: f"{java_version()} ({java_command()})"),
        ("Spark", spark_version),
        ("kernels", _kernels),
        ("session", try_session),
    ]
    failed = 0
    for name, run in checks:
        try:
            output.print(f"[green]ok[/]    {name:<8} {escape(run())}", soft_wrap=True)
        except PenstockError as error:
            failed += 1
            output.print(f"[red]fails[/] {name:<8} {escape(str(error))}", soft_wrap=True)
    for line in _extras():
        output.print(f"      extras   {line}", markup=False, soft_wrap=True)
    if failed:
        return 1
    output.print("all is well: try `penstock demo`")
    return 0


def _extras() -> list[str]:
    """Return the installed extras, and the command that installs the missing ones."""
    found = [extra for extra in EXTRAS if installed(extra)]
    absent = [extra for extra in EXTRAS if extra not in found]
    lines = [f"with {', '.join(found) or 'none'}"]
    if absent:
        lines.append(
            f"without {', '.join(absent)}; run in a clone: pip install '.[{','.join(absent)}]'"
        )
    return lines


def _python() -> str:
    if sys.version_info < (3, 11):  # noqa: UP036 - a broken installation can have this
        raise PenstockError(
            f"Python must be >= 3.11; got {platform.python_version()}. Make the environment with a "
            "newer one: make PYTHON=python3.11 test"
        )
    return f"{platform.python_version()} ({sys.executable})"


def _kernels() -> str:
    try:
        for grouping in (Proactive(2), ProactiveAsPublished(2), KeyHash(2), RoundRobin(2)):
            grouping.warm_up()
    except Exception as error:
        raise PenstockError(
            f"kernels do not compile ({type(error).__name__}: {error}); reinstall numba with the "
            "versions of constraints.txt, or set NUMBA_CACHE_DIR to a folder that can be written"
        ) from error
    return f"numba {version('numba')}, numpy {version('numpy')}"
