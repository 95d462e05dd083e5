"""Access to the JVM, for the other modules of `internals`."""

import json
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

# An error in the JVM, or in the conversation with it.
JvmError = Py4JError


def java(spark: SparkSession) -> Any:  # noqa: ANN401 - a py4j object
    """Return the JVM of a session."""
    return spark._jvm


def private(owner: Any, name: str) -> Any:  # noqa: ANN401 - a py4j object
    """Return the value of a private field."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def status_store(spark: SparkSession) -> Any:  # noqa: ANN401 - a py4j object
    """Return Spark's store of jobs, stages, tasks and executors."""
    return spark.sparkContext._jsc.sc().statusStore()


def as_json(spark: SparkSession, value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Read a list of the status store in one call; value by value it would take thousands."""
    writer = java(spark).org.apache.spark.status.api.v1.JacksonMessageWriter()
    found: list[dict[str, Any]] = json.loads(str(writer.mapper().writeValueAsString(value)))
    return found
