"""Jobs, stages and tasks that have run."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import java, status_store


def jobs_after(spark: SparkSession, run: str, last: int) -> list[int]:
    """Return the jobs of a query's run with a higher number."""
    numbers = spark.sparkContext._jsc.sc().statusTracker().getJobIdsForGroup(run)
    text = str(java(spark).java.util.Arrays.toString(numbers)).strip("[]")
    return sorted(number for number in map(int, filter(None, text.split(", "))) if number > last)


def task_ms(spark: SparkSession, stage: int) -> float:
    """Return how long the tasks of a stage have run, in total."""
    return float(status_store(spark).lastStageAttempt(stage).executorRunTime())


@dataclass(frozen=True)
class JobDone:
    """A job that has ended.

    Attributes:
        stages: that belong to it.
        succeeded: whether all went well.
        began_ms: when it was submitted, in milliseconds since 1970.
        taken_ms: how long it took.
        batch: number of the query's batch that it belongs to; empty if that is not known.
    """

    stages: tuple[int, ...]
    succeeded: bool
    began_ms: float
    taken_ms: float
    batch: str = ""


def job_done(spark: SparkSession, job: int) -> JobDone | None:
    """Return what a job has done; None while it runs."""
    found = status_store(spark).job(job)
    ended = found.completionTime()
    if str(found.status().toString()) == "RUNNING" or not ended.isDefined():
        return None
    stages = tuple(int(one) for one in str(found.stageIds().mkString(",")).split(",") if one)
    began_ms = float(found.submissionTime().get().getTime())
    taken_ms = float(ended.get().getTime()) - began_ms
    succeeded = str(found.status().toString()) == "SUCCEEDED"
    described = found.description()
    # Spark writes "..., batch = 3" there, for people.
    batch = str(described.get()).rpartition("batch = ")[2] if described.isDefined() else ""
    return JobDone(stages, succeeded, began_ms, taken_ms, batch if batch.isdigit() else "")


def stages_as_planned(spark: SparkSession, stages: Iterable[int]) -> list[int]:
    """Return stages in the order in which Spark planned them: what a stage reads comes before it.

    That is the order of the data sets that they end with. Stages themselves are numbered anyhow
    where two of them are read by one, as by a join.
    """

    def last(stage: int) -> int:
        numbers = status_store(spark).lastStageAttempt(stage).rddIds()
        return max(int(one) for one in str(numbers.mkString(",")).split(","))

    return sorted(stages, key=last)
