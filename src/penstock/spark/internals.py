"""Everything that touches Spark's internals, in one place."""

import json
import logging
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from penstock.errors import PenstockError

log = logging.getLogger("penstock")


def first_line(error: Exception) -> str:
    """Return what py4j says without the JVM's stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


def supported_session(frame: DataFrame) -> SparkSession:
    """Return the session of a DataFrame if Penstock can work with it."""
    if not isinstance(frame, DataFrame):
        raise PenstockError(f"a DataFrame is needed; got {type(frame).__name__}")
    if "connect" in type(frame).__module__:
        raise PenstockError(
            "Spark Connect sessions cannot be balanced: the driver is in another process. "
            "Use a classic session (SparkSession.builder.master(...))"
        )
    return frame.sparkSession


_WATERMARK = "spark.watermarkDelayMs"


def is_event_time(field: StructField) -> bool:
    """Whether a column is one that a watermark is about."""
    return _WATERMARK in field.metadata


def as_event_time(column: Column, name: str) -> Column:
    """Mark a column as the one that the query's watermark is about.

    Python stages lose the mark, and Spark does not let a watermark be defined twice.
    """
    return column.alias(name, metadata={_WATERMARK: 0})


def protect_from_partial_retries(spark: SparkSession) -> None:
    """Let Spark run consumers again if a map task that is run again routes otherwise.

    From 4.2 on that is Spark's default. Routing is the same for the same batch and the same
    records, so this is for sources that give their records in another order each time.
    """
    for key in (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch"):
        if spark.conf.get(key, "false") != "true":
            spark.conf.set(key, "true")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what Spark expects of Arrow for a schema; the time zone is any."""
    return to_arrow_schema(schema, timezone="UTC")


def rows_of_arrow(batch: pa.RecordBatch, schema: StructType) -> list[Row]:
    """Return rows with the Python values that Spark's own UDFs get."""
    return ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)


def arrow_of_rows(rows: list[dict[str, Any]], schema: StructType) -> pa.Table:
    """Return an Arrow table of records, with Spark's own conversions."""
    return LocalDataToArrowConversion.convert(rows, schema, False)


def batch_of(context: TaskContext) -> tuple[str, str]:
    """Return a task's streaming query (empty if it has none), and what its batch is called.

    Stages will not do for batch jobs: one that is run again gets another number.
    """
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query and batch is not None:
        return query, batch
    execution = context.getLocalProperty("spark.sql.execution.id")
    return "", f"execution {execution}" if execution else f"stage {context.stageId()}"


def driver_addresses(spark: SparkSession) -> tuple[str, str]:
    """Return where the driver listens, and the address by which executors reach it."""
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host", "127.0.0.1"))
    return str(settings.get("spark.driver.bindAddress", host)), host


def checkpoint_of(spark: SparkSession, query: str) -> str | None:
    """Return the checkpoint folder of an active streaming query."""
    try:
        execution = _execution(spark, query)
        return str(execution.resolvedCheckpointRoot()) if execution is not None else None
    except (Py4JError, TypeError) as error:
        log.warning("the checkpoint of query %s is not found, costs are not kept: %s", query, error)
        return None


def _execution(spark: SparkSession, query: str) -> Any:  # noqa: ANN401 - whatever py4j has
    """Return an active streaming query, of all sessions: it may run in a clone of the user's."""
    active = spark._jsparkSession.sharedState().activeStreamingQueries()
    return active.get(_java(spark).java.util.UUID.fromString(query))


# How far back to look for a batch among reports of a query that was idle.
_RECENT = 20


def last_batch(spark: SparkSession, query: str) -> tuple[str, float] | None:
    """Return the newest batch that an active query has finished, and how long it took (ms)."""
    try:
        execution = _execution(spark, query)
        progress = execution.recentProgress() if execution is not None else ()
        for i in reversed(range(max(0, len(progress) - _RECENT), len(progress))):
            taken = progress[i].durationMs()
            if taken.get("addBatch") is not None:  # not just a look at a source without news
                return str(progress[i].batchId()), float(taken.get("triggerExecution"))
        return None
    except (Py4JError, TypeError) as error:
        log.warning("how long batches of query %s take is not known: %s", query, error)
        return None


def unfinished_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the batch that was begun and not committed when the query stopped, if there is one."""
    begun, done = (_numbers(spark, f"{checkpoint}/{log}") for log in ("offsets", "commits"))
    newest = max(begun, default=-1)
    return newest if newest >= 0 and newest > max(done, default=-1) else None


def _numbers(spark: SparkSession, folder: str) -> list[int]:
    files, place = _file_system(spark, folder)
    if not files.exists(place):
        return []
    names = [status.getPath().getName() for status in files.listStatus(place)]
    return [int(name) for name in names if name.isdigit()]


def trigger_interval_ms(spark: SparkSession, query: str) -> float | None:
    """Return how often an active query begins a batch; None if it does whenever it can."""
    try:
        execution = _execution(spark, query)
        trigger = execution.trigger() if execution is not None else None
        if trigger is None or not str(trigger).startswith("ProcessingTimeTrigger"):
            return None
        return float(trigger.intervalMs()) or None
    except (Py4JError, TypeError, AttributeError):
        return None


def _java(spark: SparkSession) -> Any:  # noqa: ANN401 - whatever py4j has
    return spark._jvm


def _file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    place = _java(spark).org.apache.hadoop.fs.Path(path)
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    return place.getFileSystem(settings), place


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """Read a file of any Hadoop file system; None if there is none."""
    files, place = _file_system(spark, path)
    if not files.exists(place):
        return None
    stream = files.open(place)
    try:
        return bytes(_java(spark).org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a file of any Hadoop file system whole or not at all."""
    files, place = _file_system(spark, path)
    _, temporary = _file_system(spark, f"{path}.tmp")
    files.mkdirs(place.getParent())
    stream = files.create(temporary, True)
    try:
        stream.write(bytearray(data))
    finally:
        stream.close()
    hadoop = _java(spark).org.apache.hadoop.fs
    gateway: Any = spark.sparkContext._gateway
    overwrite = gateway.new_array(hadoop.Options.Rename, 1)
    overwrite[0] = hadoop.Options.Rename.OVERWRITE
    context = hadoop.FileContext.getFileContext(files.getUri(), files.getConf())
    context.rename(temporary, place, overwrite)


_DRIVER = "driver"


def can_scale(spark: SparkSession) -> bool:
    """Whether executors can be added to and removed from the application."""
    client = _java(spark).java.lang.Class.forName("org.apache.spark.ExecutorAllocationClient")
    return bool(client.isInstance(_scheduler(spark)))


def _scheduler(spark: SparkSession) -> Any:  # noqa: ANN401 - whatever py4j has
    return spark.sparkContext._jsc.sc().schedulerBackend()


def executors(spark: SparkSession) -> list[str]:
    """Return the executors of the application, the oldest first; its driver if it is alone."""
    if not can_scale(spark):
        return [_DRIVER]
    known = str(spark.sparkContext._jsc.sc().getExecutorIds().mkString(","))
    return sorted(filter(None, known.split(",")), key=lambda one: (len(one), one))


def slots_per_executor(spark: SparkSession) -> int:
    """Return how many tasks an executor runs at a time."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    # A driver that is not alone has no cores for tasks.
    cores = [int(found.apply(i).totalCores()) for i in range(min(2, found.size()))]
    cpus = int(spark.sparkContext.getConf().get("spark.task.cpus", "1") or 1)
    return max(1, max(cores, default=1) // cpus)


def executor_memory_bytes(spark: SparkSession) -> float:
    """Return the memory of an executor."""
    return float(spark.sparkContext._jsc.sc().executorMemory()) * 2**20


def request_executors(spark: SparkSession, total: int) -> bool:
    """Ask the cluster for so many executors in total; whether it has taken the request."""
    nothing = _java(spark).scala.Predef.Map().empty()
    return bool(spark.sparkContext._jsc.sc().requestTotalExecutors(total, 0, nothing))


def remove_executors(spark: SparkSession, names: list[str], force: bool) -> list[str]:
    """Remove executors, those at work only if forced to, and return which will go.

    Where Spark can decommission, they go when they have handed on what they hold.
    """
    jvm, scheduler = _java(spark), _scheduler(spark)
    if spark.sparkContext.getConf().get("spark.decommission.enabled", "false") == "true":
        nowhere = jvm.scala.Option.empty()
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("scaled in", nowhere)
        return [one for one in names if scheduler.decommissionExecutor(one, info, False, False)]
    wanted = jvm.scala.jdk.javaapi.CollectionConverters.asScala(names).toSeq()
    gone = str(scheduler.killExecutors(wanted, False, False, force).mkString(","))
    return list(filter(None, gone.split(",")))


def progress_after(spark: SparkSession, query: str, timestamp: str) -> list[dict[str, Any]]:
    """Return what an active query has told of its batches since a time, the oldest first."""
    execution = _execution(spark, query)
    recent = execution.recentProgress() if execution is not None else ()
    found: list[dict[str, Any]] = []
    for i in reversed(range(len(recent))):
        told = json.loads(recent[i].json())
        if told["timestamp"] <= timestamp:
            break
        found.append(told)
    return found[::-1]


def unread_files(spark: SparkSession, query: str, source: int, log_offset: int) -> float:
    """Return how many batches' worth of files a source of files has listed and not yet read.

    That is, unread files over files of the batch that ends at an offset.
    """
    found = _execution(spark, query).sources().apply(source)
    unread = _private(found, "unreadFiles")
    batch = _private(found, "metadataLog").get(log_offset)
    if unread is None or not batch.isDefined():
        return 0.0
    return float(unread.size()) / max(1, len(batch.get()))


def _private(owner: Any, name: str) -> Any:  # noqa: ANN401 - whatever py4j has
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def jobs_after(spark: SparkSession, run: str, last: int) -> list[int]:
    """Return the jobs of a query's run with a higher number."""
    numbers = spark.sparkContext._jsc.sc().statusTracker().getJobIdsForGroup(run)
    text = str(_java(spark).java.util.Arrays.toString(numbers)).strip("[]")
    return sorted(number for number in map(int, filter(None, text.split(", "))) if number > last)


def stages_of(spark: SparkSession, job: int) -> list[int] | None:
    """Return the stages of a job that has ended; None while it runs."""
    found = spark.sparkContext._jsc.sc().statusStore().job(job)
    if str(found.status().toString()) == "RUNNING":
        return None
    return [int(one) for one in filter(None, str(found.stageIds().mkString(",")).split(","))]


def task_ms(spark: SparkSession, stage: int) -> float:
    """Return how long the tasks of a stage have run, in total."""
    return float(
        spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(stage).executorRunTime()
    )
