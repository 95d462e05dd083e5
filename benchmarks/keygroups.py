"""Where key groups begin, and what they have done: what benchmarks of placement share."""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import internals


def begin(spark: SparkSession, chosen: Callable[[int, int], int]) -> None:
    """Tell Spark where the key groups of its only query begin; call it before a batch.

    Args:
        spark: the session.
        chosen: returns the executor, as a number, of an operator's partition.
    """
    (query,) = spark.streams.active
    hosts = internals.live_executors(spark)
    names = sorted(hosts)
    for operator in internals.state_operators(spark, str(query.id)) or []:
        for partition in range(operator.partitions):
            name = names[chosen(operator.number, partition) % len(names)]
            where = operator, partition, name, hosts[name][0]
            internals.hint_location(spark, str(query.runId), *where)


def tasks(
    spark: SparkSession, query: StreamingQuery
) -> Iterator[tuple[internals.JobDone, dict[int, list[dict[str, Any]]]]]:
    """Yield the jobs of a query that have ended, and their tasks by stateful operator."""
    operators = internals.state_operators(spark, str(query.id)) or []
    for number in internals.jobs_after(spark, str(query.runId), -1):
        job = internals.job_done(spark, number)
        if job is not None:
            yield job, internals.tasks_by_operator(spark, operators, job.stages)
