"""Jobs, stages and tasks that have ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import java, status_store


def jobs_after(spark: SparkSession, run: str, last: int) -> list[int]:
    """Return the jobs of a query's run with a higher number."""
    numbers = spark.sparkContext._jsc.sc().statusTracker().getJobIdsForGroup(run)
    text = str(java(spark).java.util.Arrays.toString(numbers)).strip("[]")
    return sorted(number for number in map(int, filter(None, text.split(", "))) if number > last)


def has_running_job(spark: SparkSession, run: str) -> bool:
    """Whether a job of a query's run is running."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    arrays = java(spark).java.util.Arrays
    active = str(arrays.toString(tracker.getActiveJobIds())).strip("[]")
    running = {int(one) for one in filter(None, active.split(", "))}
    return bool(running.intersection(jobs_after(spark, run, min(running, default=0) - 1)))


class RunTime(NamedTuple):
    """The run time of some tasks, and their number."""

    ms: float = 0.0
    tasks: int = 0


def run_time(spark: SparkSession, stage: int) -> RunTime:
    """Return the run time of all tasks of a stage."""
    found = status_store(spark).lastStageAttempt(stage)
    return RunTime(float(found.executorRunTime()), int(found.numCompleteTasks()))


@dataclass(frozen=True)
class JobDone:
    """A job that has ended.

    Attributes:
        stages: numbers of its stages.
        succeeded: whether it has succeeded.
        began_ms: time of its submission, in milliseconds since 1970.
        duration_ms: its duration.
        batch: number of its batch of the query; empty if it is unknown.
    """

    stages: tuple[int, ...]
    succeeded: bool
    began_ms: float
    duration_ms: float
    batch: str = ""


def job_done(spark: SparkSession, job: int) -> JobDone | None:
    """Return a job that has ended; None while it runs."""
    found = status_store(spark).job(job)
    ended = found.completionTime()
    if str(found.status().toString()) == "RUNNING" or not ended.isDefined():
        return None
    stages = tuple(int(one) for one in str(found.stageIds().mkString(",")).split(",") if one)
    began_ms = float(found.submissionTime().get().getTime())
    described = found.description()
    # Spark writes "..., batch = 3" there, for people.
    batch = str(described.get()).rpartition("batch = ")[2] if described.isDefined() else ""
    return JobDone(
        stages=stages,
        succeeded=str(found.status().toString()) == "SUCCEEDED",
        began_ms=began_ms,
        duration_ms=float(ended.get().getTime()) - began_ms,
        batch=batch if batch.isdigit() else "",
    )


def stages_as_planned(spark: SparkSession, stages: Iterable[int]) -> list[int]:
    """Return stages in the order in which Spark planned them: a stage after those that it reads.

    That is the order of their last data sets. The numbers of stages themselves are in no fixed
    order where one stage reads two others, for example in a join.
    """

    def last(stage: int) -> int:
        numbers = status_store(spark).lastStageAttempt(stage).rddIds()
        return max(int(one) for one in str(numbers.mkString(",")).split(","))

    return sorted(stages, key=last)
