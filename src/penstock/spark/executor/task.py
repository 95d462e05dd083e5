"""The identity of a running task: its operator, query, batch and partition."""

import os
from uuid import UUID

from pyspark import TaskContext

from penstock.control.reports import TaskId
from penstock.errors import PenstockError
from penstock.spark.executor.spec import OperatorSpec


def task_id(spec: OperatorSpec, partition: int) -> TaskId:
    """Return the identity of this task.

    Args:
        spec: spec of the operator.
        partition: number of the task's partition in the plan, at the operator's stage.
    """
    context = _context()
    query, batch = _batch_of(context, spec.frame)
    return TaskId(spec.identity, query, batch, partition, spec.use, _run_of(context))


def map_task_number() -> int:
    """Return the number of a task whose output goes to a shuffle: that of its partition."""
    return int(_context().partitionId())


def attempt_number() -> int:
    """Return the number of this task's attempt, 0 for the first one."""
    return int(_context().attemptNumber())


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise PenstockError("a Penstock operator runs in tasks of Spark only")
    return context


def _batch_of(context: TaskContext, frame: str) -> tuple[str, str]:
    """Return the streaming query of a task (empty for a batch job), and the name of its batch.

    A batch job is named by its SQL execution: a stage that runs again gets another number. So is a
    job that a user's thread starts inside of `foreachBatch`: it does not know its query, and the
    driver finds it. A job on an RDD has no execution. It is named by its frame, so that several
    jobs on the same RDD are one batch.
    """
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query and batch is not None:
        return query, batch
    execution = context.getLocalProperty("spark.sql.execution.id")
    return "", f"execution {execution}" if execution else f"frame {frame}"


def _run_of(context: TaskContext) -> str:
    """Return the run of a task's query; empty if it is unknown.

    Spark sets the group of a query's jobs to the run, a UUID. Users may set any other text.
    """
    group = str(context.getLocalProperty("spark.jobGroup.id") or "")
    try:
        return str(UUID(group))
    except ValueError:
        return ""


def executor_name() -> str:
    """Return the name of this executor, unique in the application."""
    return os.environ.get("SPARK_EXECUTOR_ID") or f"process {os.getppid()}"
