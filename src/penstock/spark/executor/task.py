"""The identity of a running task: its operator, query, batch and partition."""

import os

from pyspark import TaskContext

from penstock.control.reports import TaskId
from penstock.errors import PenstockError
from penstock.spark.executor.spec import OperatorSpec


def task_id(spec: OperatorSpec) -> TaskId:
    """Return the identity of this task."""
    context = TaskContext.get()
    if context is None:
        raise PenstockError("a Penstock operator runs in tasks of Spark only")
    query, batch = batch_of(context)
    return TaskId(spec.identity, query, batch, context.partitionId())


def batch_of(context: TaskContext) -> tuple[str, str]:
    """Return the streaming query of a task (empty for a batch job), and the name of its batch.

    A batch job is named by its SQL execution: a stage that runs again gets another number.
    """
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query and batch is not None:
        return query, batch
    execution = context.getLocalProperty("spark.sql.execution.id")
    return "", f"execution {execution}" if execution else f"stage {context.stageId()}"


def executor_name() -> str:
    """Return the name of this executor, unique in the application."""
    return os.environ.get("SPARK_EXECUTOR_ID") or f"process {os.getppid()}"
