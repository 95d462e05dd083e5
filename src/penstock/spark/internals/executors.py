"""Executors of an application."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import as_json, java, status_store

_DRIVER = "driver"


class Executor(NamedTuple):
    """A live executor.

    Attributes:
        host: name of its host.
        slots: number of tasks that it runs at a time.
    """

    host: str
    slots: int


def can_scale(spark: SparkSession) -> bool:
    """Whether executors can be added to and removed from the application."""
    client = java(spark).java.lang.Class.forName("org.apache.spark.ExecutorAllocationClient")
    return bool(client.isInstance(_scheduler(spark)))


def _scheduler(spark: SparkSession) -> Any:  # noqa: ANN401 - a py4j object
    return spark.sparkContext._jsc.sc().schedulerBackend()


def executors(spark: SparkSession) -> list[str]:
    """Return the executors of the application, the oldest first; its driver if it is alone."""
    if not can_scale(spark):
        return [_DRIVER]
    known = str(spark.sparkContext._jsc.sc().getExecutorIds().mkString(","))
    return sorted(filter(None, known.split(",")), key=lambda one: (len(one), one))


def live_executors(spark: SparkSession) -> dict[str, Executor]:
    """Return the live executors by name; the driver if it is alone."""
    cpus = int(str(spark.sparkContext.getConf().get("spark.task.cpus", "1")))
    found = {
        str(one["id"]): Executor(
            host=str(one["hostPort"]).rsplit(":", 1)[0],
            slots=max(1, int(one["totalCores"]) // cpus),
        )
        for one in as_json(spark, status_store(spark).executorList(True))
    }
    if can_scale(spark):
        found.pop(_DRIVER, None)
    return found


def executors_at_work(spark: SparkSession) -> set[str]:
    """Return the live executors that have completed at least one task."""
    listed = as_json(spark, status_store(spark).executorList(True))
    return {str(one["id"]) for one in listed if int(one["completedTasks"])}


def start_python(spark: SparkSession, names: Iterable[str], modules: tuple[str, ...]) -> None:
    """Run a task on each of some executors that starts Python there, and imports modules.

    Spark prefers these executors for the tasks. A task whose executor stays busy runs elsewhere.

    Args:
        spark: session of the application.
        names: names of the executors.
        modules: modules that the tasks import, as far as they are there.
    """
    context, jvm = spark.sparkContext, java(spark)
    live = live_executors(spark)
    wanted = [f"executor_{live[one].host}_{one}" for one in names if one in live]
    if not wanted:
        return
    as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    placed = [jvm.scala.Tuple2(bytearray(1), as_scala([one]).toSeq()) for one in wanted]
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    elements = context._jsc.sc().makeRDD(as_scala(placed).toSeq(), tag).toJavaRDD()

    def imported(_: Iterable[Any]) -> Iterator[bytes]:
        for module in modules:
            with contextlib.suppress(ImportError):
                __import__(module)
        return iter(())

    RDD(elements, context, NoOpSerializer()).mapPartitions(imported).count()


def hosts(spark: SparkSession) -> set[str]:
    """Return the machines of the driver and of the live executors.

    Before any executor of a cluster has registered, their machines are assumed to be others.
    """
    here = str(spark.sparkContext.getConf().get("spark.driver.host", "localhost"))
    if str(spark.sparkContext.master).startswith("local"):
        return {here}
    found = {one.host for one in live_executors(spark).values()}
    return {here} | (found or {"unknown"})


def slots(spark: SparkSession) -> int:
    """Return the number of tasks that all live executors run at a time."""
    return sum(one.slots for one in live_executors(spark).values())


def configured_slots(spark: SparkSession) -> int:
    """Return the number of tasks at a time that the settings name; 0 if they name none."""
    settings = spark.sparkContext.getConf()

    def number(key: str) -> int:
        found = str(settings.get(key, "0"))
        return int(found) if found.isdigit() else 0

    dynamic = settings.get("spark.dynamicAllocation.enabled", "false") == "true"
    most = number("spark.dynamicAllocation.maxExecutors") if dynamic else 0
    executors = max(most, number("spark.executor.instances"))
    cores = executors * max(1, number("spark.executor.cores"))
    return max(cores, number("spark.cores.max")) // max(1, number("spark.task.cpus"))


def slots_per_executor(spark: SparkSession) -> int:
    """Return the number of tasks that an executor runs at a time."""
    return max((one.slots for one in live_executors(spark).values()), default=1)


def executor_memory_bytes(spark: SparkSession) -> float:
    """Return the memory of an executor."""
    return float(spark.sparkContext._jsc.sc().executorMemory()) * 2**20


def request_executors(spark: SparkSession, total: int) -> bool:
    """Request a total number of executors; return whether the cluster accepted the request."""
    nothing = java(spark).scala.Predef.Map().empty()
    return bool(spark.sparkContext._jsc.sc().requestTotalExecutors(total, 0, nothing))


def remove_executors(spark: SparkSession, names: list[str], *, force: bool) -> list[str]:
    """Remove executors, busy ones only by force, and return those that will go.

    Where Spark decommissions executors, they go when they have handed on their blocks.
    """
    jvm, scheduler = java(spark), _scheduler(spark)
    if spark.sparkContext.getConf().get("spark.decommission.enabled", "false") == "true":
        nowhere = jvm.scala.Option.empty()
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("scaled in", nowhere)
        return [one for one in names if scheduler.decommissionExecutor(one, info, False, False)]
    wanted = jvm.scala.jdk.javaapi.CollectionConverters.asScala(names).toSeq()
    gone = str(scheduler.killExecutors(wanted, False, False, force).mkString(","))
    return list(filter(None, gone.split(",")))


def locality_wait_ms(spark: SparkSession) -> float:
    """Return how long tasks wait for their preferred executor."""
    settings = spark.sparkContext._jsc.sc().conf()
    wait_ms = settings.getTimeAsMs("spark.locality.wait", "3s")
    return float(settings.getTimeAsMs("spark.locality.wait.process", f"{wait_ms}ms"))
