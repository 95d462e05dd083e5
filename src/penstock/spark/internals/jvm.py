"""What all that speaks to the JVM needs."""

import json
from typing import Any

from pyspark.sql import SparkSession


def first_line(error: Exception) -> str:
    """Return what py4j says without the JVM's stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def java(spark: SparkSession) -> Any:  # noqa: ANN401 - whatever py4j has
    """Return the JVM of a session."""
    return spark._jvm


def private(owner: Any, name: str) -> Any:  # noqa: ANN401 - whatever py4j has
    """Return the value of a private field."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def status_store(spark: SparkSession) -> Any:  # noqa: ANN401 - whatever py4j has
    """Return what Spark knows of jobs, stages, tasks and executors."""
    return spark.sparkContext._jsc.sc().statusStore()


def as_json(spark: SparkSession, value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Read a list of the status store in one call: asking value by value takes thousands."""
    writer = java(spark).org.apache.spark.status.api.v1.JacksonMessageWriter()
    found: list[dict[str, Any]] = json.loads(str(writer.mapper().writeValueAsString(value)))
    return found
