"""Spark's status store, with the answers of its REST interface; it works without Spark's pages."""

import json
import re
from typing import Any

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark.internals.jvm import JvmError, as_json, java, status_store
from penstock.spark.internals.sessions import is_stopped

# Names of operators and data sets in Spark's drawing of a stage; a bracket ends the latter.
_LABEL = re.compile(r'label="([^"\[]+?) *["\[]')


def checked_session(spark: object) -> SparkSession:
    """Return a classic session that runs; refuse anything else."""
    if not isinstance(spark, SparkSession) or "connect" in type(spark).__module__:
        raise PenstockError(f"spark must be a classic Spark session; got {type(spark).__name__}")
    if is_stopped(spark):
        raise PenstockError("spark must be a session that runs; this one has been stopped")
    return spark


def application_status(spark: SparkSession, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return what the REST interface answers to a path below the application.

    Args:
        spark: session of the application.
        path: "environment", "allexecutors", "jobs", "stages", "stages/NUMBER/ATTEMPT/taskList" or
            "sql", with a query that counts for tasks only. SQL queries are left out: their plans
            are large.
    """
    name, _, query = path.partition("?")
    store = status_store(spark)
    if name == "environment":
        return as_json(spark, store.environmentInfo())
    if name == "allexecutors":
        return as_json(spark, store.executorList(False))
    if name == "jobs":
        return as_json(spark, store.jobsList(None))
    if name == "sql":
        return []
    if name == "stages":
        gateway: Any = spark.sparkContext._gateway
        quantiles = gateway.new_array(java(spark).double, 0)
        none = java(spark).java.util.ArrayList()
        return as_json(spark, store.stageList(None, False, False, quantiles, none))
    _, stage, attempt, _ = name.split("/")
    most = next(int(one[7:]) for one in query.split("&") if one.startswith("length="))
    return as_json(spark, store.taskList(int(stage), int(attempt), most))


def steps_of(spark: SparkSession, stage: int) -> frozenset[str]:
    """Return the names of a stage's operators; none if Spark has forgotten them."""
    graphs = java(spark).org.apache.spark.ui.scope.RDDOperationGraph
    try:
        drawn = str(graphs.makeDotFile(status_store(spark).operationGraphForStage(stage)))
    except JvmError:
        return frozenset()
    return frozenset(_LABEL.findall(drawn))


def recent_progress(spark: SparkSession) -> list[dict[str, Any]]:
    """Return the progress that active queries of the session still have, the oldest first."""
    return [json.loads(one.json) for query in spark.streams.active for one in query.recentProgress]
