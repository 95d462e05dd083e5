"""Fixtures of tests on Spark."""

import pytest
from browsing import started_browser


@pytest.fixture(scope="module")
def few_partitions(spark):
    """Two partitions of states will do."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A real browser, without a window."""
    started = started_browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.quit()
