"""What all tests share."""

import os
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import penstock
from penstock.spark.lab import session
from penstock.spark.lab.jvms import share_classes, start_fast
from penstock.spark.lab.sessions import LOCAL_CHECKPOINTS
from quick_sessions import interpreted

# Scripts that tests run in processes of their own, and files like this one: they have no doctests.
collect_ignore_glob = ["spark/jobs/*", "conftest.py", "*/conftest.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what tests run on."""
    start_fast()
    _forget_old_kernels()
    if config.getoption("numprocesses", None):
        if config.getoption("dist") != "loadgroup":
            raise pytest.UsageError("-n needs --dist loadgroup --no-loadscope-reorder")
        share_classes()  # before processes start, which inherit the options of JVMs
    # A busy machine is no failure, and the tests try the same every time. `make soak` searches.
    settings.register_profile("penstock", deadline=None, derandomize=True)
    examples = int(os.environ.get("PENSTOCK_EXAMPLES", "0"))
    settings.register_profile("soak", deadline=None, max_examples=max(1, examples))
    settings.load_profile("soak" if examples else "penstock")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give the tests of a file to one process, unless they run apart."""
    group = item.nodeid if has(item, "apart") else item.nodeid.split("::", maxsplit=1)[0]
    item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first: with several processes, short tests fill up the end."""
    if not os.environ.get("PENSTOCK_LONG"):
        for item in items:
            if has(item, "long"):
                item.add_marker(pytest.mark.skip("takes long; `make soak` runs it"))
    items.sort(key=lambda item: (not has(item, "apart"), not has(item, "spark")))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Share classes if Spark is needed; refuse to run without groups of tests.

    Without groups each process would start all clusters of the tests again.
    """
    if any(has(item, "spark") for item in session.items) and not session.config.option.collectonly:
        share_classes()
    if "PYTEST_XDIST_WORKER" in os.environ and any(
        "@" not in item.nodeid for item in grouped(session)
    ):
        raise pytest.UsageError("pytest-xdist does not group tests; install the pinned pytest")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests tell by `record_property("told", ...)`, such as a seed."""
    for report in terminalreporter.getreports("passed"):
        for name, line in report.user_properties:
            if name == "told":
                terminalreporter.write_line(f"{report.nodeid.split('@')[0]}: {line}")


def grouped(session: pytest.Session) -> list[pytest.Item]:
    return [item for item in session.items if has(item, "xdist_group")]


def has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def _forget_old_kernels() -> None:
    """Remove compiled kernels that are older than the source: Numba sees one file only."""
    source = Path(penstock.__file__).parent
    cached = list(source.rglob("*.nb[ic]"))
    newest = max(file.stat().st_mtime for file in source.rglob("*.py"))
    if any(file.stat().st_mtime < newest for file in cached):
        for file in cached:
            file.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def spark():
    """A real local Spark, the same for all tests."""
    # A command that ran in this process before may have started one of its own.
    earlier = SparkSession.getActiveSession()
    if earlier is not None:
        earlier.stop()
    started = session(
        "local[2]",
        "penstock-tests",
        **LOCAL_CHECKPOINTS,
        # Jobs in processes of their own generate code; here only `make soak` does.
        **interpreted(),
    )
    yield started
    started.stop()


@pytest.fixture
def nothing_runs(spark):
    """No Spark job may be started by the test."""
    context, group = spark.sparkContext, str(uuid4())
    context.setJobGroup(group, "nothing may run here")
    yield
    context.setLocalProperty("spark.jobGroup.id", None)
    assert list(context.statusTracker().getJobIdsForGroup(group)) == []
