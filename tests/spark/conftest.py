"""Fixtures of tests on Spark."""

import pytest


@pytest.fixture(scope="module")
def few_partitions(spark):
    """Two partitions of states will do."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)
