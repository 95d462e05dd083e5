"""Events of Spark's log that matter here; all other fields are skipped while they are parsed.

Only fields that a diagnosis needs are declared. Every field has a default, because older versions
of Spark lack some of them.
"""

from typing import Any

from penstock.extras import needs

needs("msgspec", extra="diagnose", what="penstock diagnose")

import msgspec  # noqa: E402 - the check above has to come first


def _spaced(name: str) -> str:
    """Return Spark's name of a field: `launch_time` is "Launch Time"."""
    return _OTHER_NAMES.get(name) or name.replace("_", " ").title()


# Names that do not follow the rule.
_OTHER_NAMES = {
    "app_name": "App Name",
    "executor_id": "Executor ID",
    "getting_result_time": "Getting Result Time",
    "jvm_gc_time": "JVM GC Time",
    "job_id": "Job ID",
    "number_of_tasks": "Number of Tasks",
    "parent_ids": "Parent IDs",
    "rdd_info": "RDD Info",
    "stage_attempt_id": "Stage Attempt ID",
    "stage_id": "Stage ID",
    "stage_ids": "Stage IDs",
}


class _Event(msgspec.Struct, rename=_spaced, gc=False):
    """An event, or a part of one."""


class LogStart(_Event):
    """First event of a log."""

    spark_version: str = ""


class ApplicationStart(_Event):
    """Start of the application."""

    app_name: str = ""
    timestamp: int = 0


class ApplicationEnd(_Event):
    """End of the application."""

    timestamp: int = 0


class Environment(_Event):
    """Settings of the application."""

    spark_properties: dict[str, str] | list[list[str]] = {}


class ExecutorInfo(_Event):
    """Size of an executor."""

    total_cores: int = 0


class ExecutorAdded(_Event):
    """An executor that joins."""

    timestamp: int = 0
    executor_id: str = ""
    executor_info: ExecutorInfo = msgspec.field(default_factory=ExecutorInfo)


class ExecutorRemoved(_Event):
    """An executor that leaves."""

    timestamp: int = 0
    executor_id: str = ""


class JobProperties(msgspec.Struct, gc=False):
    """Local properties of the thread that started a job."""

    query: str | None = msgspec.field(default=None, name="sql.streaming.queryId")
    batch: str | None = msgspec.field(default=None, name="streaming.sql.batchId")
    execution: str | None = msgspec.field(default=None, name="spark.sql.execution.id")
    description: str | None = msgspec.field(default=None, name="spark.job.description")


class StageName(_Event):
    """Name of a stage of a job."""

    stage_id: int = -1
    stage_name: str = ""


class JobStart(_Event):
    """Start of a job."""

    job_id: int
    submission_time: int = 0
    stage_infos: list[StageName] = []
    stage_ids: list[int] = []
    properties: JobProperties | None = None


class JobEnd(_Event):
    """End of a job."""

    job_id: int
    completion_time: int = 0


class Rdd(_Event):
    """One step of a stage."""

    name: str = ""
    scope: str | None = None


class StageInfo(_Event):
    """A stage; the list of its RDDs shows its work."""

    stage_id: int
    stage_attempt_id: int = 0
    stage_name: str = ""
    number_of_tasks: int = 0
    rdd_info: list[Rdd] = []
    parent_ids: list[int] = []
    submission_time: int | None = None
    completion_time: int | None = None


class StageEvent(_Event):
    """Start or end of a stage."""

    stage_info: StageInfo


class Accumulable(_Event):
    """A metric that a task has updated."""

    name: str = ""
    update: Any = None


class TaskInfo(_Event):
    """When and where a task ran."""

    index: int = -1
    launch_time: int = 0
    executor_id: str = ""
    locality: str = ""
    getting_result_time: int = 0
    finish_time: int = 0
    failed: bool = False
    killed: bool = False


class PythonTaskInfo(TaskInfo):
    """A task with its metrics of Python workers."""

    accumulables: list[Accumulable] = []


class ShuffleRead(_Event):
    """Shuffled data that a task has read."""

    fetch_wait_time: int = 0
    total_records_read: int = 0


class Input(_Event):
    """Data of a source that a task has read."""

    records_read: int = 0


class TaskMetrics(_Event):
    """Times and sizes of a task."""

    executor_deserialize_time: int = 0
    executor_run_time: int = 0
    jvm_gc_time: int = 0
    result_serialization_time: int = 0
    memory_bytes_spilled: int = 0
    disk_bytes_spilled: int = 0
    shuffle_read_metrics: ShuffleRead | None = None
    input_metrics: Input | None = None


class TaskEnd(_Event):
    """End of a task."""

    stage_id: int
    stage_attempt_id: int = 0
    task_info: TaskInfo | None = None
    task_metrics: TaskMetrics | None = None


class PythonTaskEnd(_Event):
    """End of a task that used Python workers."""

    stage_id: int
    stage_attempt_id: int = 0
    task_info: PythonTaskInfo | None = None
    task_metrics: TaskMetrics | None = None


class ExecutionStart(msgspec.Struct, rename="camel", gc=False):
    """Start of a SQL query; its plan is skipped."""

    execution_id: int
    description: str = ""
    time: int = 0


class ExecutionEnd(msgspec.Struct, rename="camel", gc=False):
    """End of a SQL query."""

    execution_id: int
    time: int = 0


class Source(msgspec.Struct, rename="camel", gc=False):
    """Progress of one source of a streaming query."""

    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: int | None = None
    metrics: dict[str, Any] | None = None


class Progress(msgspec.Struct, rename="camel", gc=False):
    """Progress of a streaming query: one batch."""

    id: str
    run_id: str = ""
    name: str | None = None
    timestamp: str = ""
    batch_id: int = -1
    num_input_rows: int | None = None
    batch_duration: int = 0
    duration_ms: dict[str, int] | None = None
    sources: list[Source] = []

    @property
    def rows(self) -> int | None:
        """Number of records of the batch; an event log has it by source only."""
        known = [one.num_input_rows for one in self.sources if one.num_input_rows is not None]
        return sum(known) if self.num_input_rows is None and known else self.num_input_rows


class QueryProgress(msgspec.Struct, gc=False):
    """A finished batch of a streaming query."""

    progress: Progress


class Kind(msgspec.Struct, rename=_spaced, gc=False):
    """Name of an event, for lines that do not begin with it."""

    event: str


_CORE = "SparkListener"
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"
KINDS: dict[str, type[msgspec.Struct]] = {
    f"{_CORE}LogStart": LogStart,
    f"{_CORE}ApplicationStart": ApplicationStart,
    f"{_CORE}ApplicationEnd": ApplicationEnd,
    f"{_CORE}EnvironmentUpdate": Environment,
    f"{_CORE}ExecutorAdded": ExecutorAdded,
    f"{_CORE}ExecutorRemoved": ExecutorRemoved,
    f"{_CORE}JobStart": JobStart,
    f"{_CORE}JobEnd": JobEnd,
    f"{_CORE}StageSubmitted": StageEvent,
    f"{_CORE}StageCompleted": StageEvent,
    f"{_CORE}TaskEnd": TaskEnd,
    f"{_SQL}ExecutionStart": ExecutionStart,
    f"{_SQL}ExecutionEnd": ExecutionEnd,
    f"{_STREAMING}QueryProgressEvent": QueryProgress,
}
_DECODERS: dict[bytes, msgspec.json.Decoder[Any]] = {
    name.encode(): msgspec.json.Decoder(kind) for name, kind in KINDS.items()
}
_PYTHON_TASK = msgspec.json.Decoder(PythonTaskEnd)
_KIND = msgspec.json.Decoder(Kind)
_HEAD = b'{"Event":"'
_TASK_END = f"{_CORE}TaskEnd".encode()
_PYTHON = b"Python workers"
# Metrics of a task that are the start of its Python worker, in ms.
PYTHON_START = ("time to start Python workers", "time to initialize Python workers")

Event = msgspec.Struct


class NotAnEventError(ValueError):
    """The line is not an event of Spark."""


def decode(line: bytes) -> Event | None:
    """Return the event of a line; None if it does not matter, or is unknown.

    Raises:
        NotAnEventError: if the line is not an event at all.

    Example:
        >>> decode(b'{"Event":"SparkListenerJobEnd","Job ID":3,"Completion Time":5}')
        JobEnd(job_id=3, completion_time=5)
        >>> decode(b'{"Event":"SparkListenerOfTomorrow"}') is None
        True
    """
    if line.startswith(_HEAD):
        name = line[len(_HEAD) : line.find(b'"', len(_HEAD))]
    else:
        name = _name_of(line)
    decoder = _DECODERS.get(name)
    if decoder is None:
        if not line.rstrip().endswith(b"}"):
            raise NotAnEventError
        return None
    if name == _TASK_END and _PYTHON in line:
        decoder = _PYTHON_TASK
    try:
        event: Event = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnEventError(str(error)) from None
    return event


def _name_of(line: bytes) -> bytes:
    try:
        return _KIND.decode(line).event.encode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnEventError(str(error)) from None
