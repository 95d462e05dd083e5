"""Tasks that have ended, by stage and by stateful operator."""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jobs import stages_as_planned
from penstock.spark.internals.jvm import as_json, status_store
from penstock.spark.internals.state import StateOperator


def tasks_of(spark: SparkSession, stage: int, most: int = 100_000) -> list[dict[str, Any]]:
    """Return the successful tasks of a stage, as the status store describes them."""
    attempt = int(status_store(spark).lastStageAttempt(stage).attemptId())
    tasks = as_json(spark, status_store(spark).taskList(stage, attempt, most))
    return [one for one in tasks if one["status"] == "SUCCESS" and one.get("taskMetrics")]


def tasks_by_operator(
    spark: SparkSession, operators: Iterable[StateOperator], stages: Iterable[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the tasks of each stateful operator, by its number, in the stages of a job."""
    planned = stages_as_planned(spark, stages)
    found = {one.number: one.stage(planned) for one in operators}
    return {n: [] if at is None else tasks_of(spark, at) for n, at in found.items()}
