"""What all tests share."""

import os
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

import penstock
from penstock.spark.lab import session

# Scripts that tests run in processes of their own.
collect_ignore_glob = ["spark/jobs/*"]


def pytest_configure() -> None:
    """Prepare what tests run on."""
    # JVMs of tests live for a short time, many at once: the best code would come too late.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    _forget_old_kernels()
    # A busy machine is no failure, and what CI tries is the same every time.
    settings.register_profile("penstock", deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("penstock")


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
    started = session("local[2]", "penstock-tests")
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
