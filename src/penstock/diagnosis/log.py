"""An event log in memory: only numbers that a diagnosis needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from penstock.diagnosis import events
from penstock.diagnosis.backlog import backlog_of
from penstock.diagnosis.files import LogFiles, Trouble, lines_of
from penstock.diagnosis.tasks import COLUMNS, BatchProgress, Execution, Executor, Job, Stage
from penstock.errors import PenstockError

# Tasks that are kept; of a longer log the older half is dropped again and again.
MOST_TASKS = 2_000_000
_NEAR = ("PROCESS_LOCAL", "NODE_LOCAL")
_SETTINGS = "spark."
_FEW_LINES = 3


@dataclass
class Log:
    """Everything that an application did.

    Attributes:
        name: name of the log or application, for people.
        version: version of Spark; empty if unknown.
        settings: settings of the application.
        executors: all executors, in the order of their numbers.
        stages: attempts of stages, by number and attempt.
        jobs: jobs, by number.
        executions: SQL queries, by number.
        progress: batches of streaming queries.
        notes: sentences about data that is missing.
    """

    name: str = ""
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    executors: list[Executor] = field(default_factory=list)
    stages: dict[tuple[int, int], Stage] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    executions: dict[int, Execution] = field(default_factory=dict)
    progress: list[BatchProgress] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def executor(self, name: str) -> int:
        """Return the number of an executor; an unknown one is added."""
        for number, one in enumerate(self.executors):
            if one.name == name:
                return number
        self.executors.append(Executor(name))
        return len(self.executors) - 1

    @property
    def cores_of_a_task(self) -> int:
        """Number of cores that a task occupies."""
        text = self.settings.get("spark.task.cpus", "1")
        return int(text) if text.isdecimal() and int(text) > 0 else 1


def read_log(files: LogFiles, count: Callable[[int], None] = lambda _: None) -> Log:
    """Read the event log of one application.

    Args:
        files: files of the log, from `find_logs`.
        count: function that receives the number of bytes of each read, for a progress bar.

    Raises:
        PenstockError: if the files are not an event log.
    """
    trouble = Trouble()
    reader = LogReader(files.name)
    reader.read(lines_of(files, trouble, count))
    log = reader.log
    if not reader.events:
        reason = f" ({trouble.broken[0]})" if trouble.broken else ""
        raise PenstockError(
            f"PATH must be an event log of Spark; {files.name} has no events{reason}. "
            "Logs are written with spark.eventLog.enabled=true"
        )
    if files.in_progress or reader.cut or trouble.truncated or not reader.ended:
        log.notes.append("The log has no end: the application still runs, or the log was cut.")
    log.notes += [f"A part could not be read: {reason}." for reason in trouble.broken]
    if trouble.too_long:
        log.notes.append(f"Lines of more than 64 MiB were skipped: {trouble.too_long}.")
    if reader.bad:
        log.notes.append(f"Lines that are not events were skipped: {reader.bad}.")
    if reader.dropped:
        log.notes.append(f"The oldest {reader.dropped:,} tasks were dropped to save memory.")
    return log


class LogReader:
    """Builds a `Log` from lines.

    Args:
        name: name of the log until the application's own name is read.
        most_tasks: number of tasks that are kept.
    """

    def __init__(self, name: str = "", most_tasks: int = MOST_TASKS) -> None:
        self.log = Log(name=name)
        self.events = 0
        self.bad = 0
        self.dropped = 0
        self.cut = False
        self.ended = False
        self._most_tasks = most_tasks
        self._tasks = 0
        self._numbers: dict[str, int] = {}
        self._handlers: dict[type, Callable[..., None]] = {
            events.LogStart: self._log_start,
            events.ApplicationStart: self._application_start,
            events.ApplicationEnd: self._application_end,
            events.Environment: self._environment,
            events.ExecutorAdded: self._executor_added,
            events.ExecutorRemoved: self._executor_removed,
            events.JobStart: self._job_start,
            events.JobEnd: self._job_end,
            events.StageEvent: self._stage,
            events.TaskEnd: self._task_end,
            events.PythonTaskEnd: self._task_end,
            events.ExecutionStart: self._execution_start,
            events.ExecutionEnd: self._execution_end,
            events.QueryProgress: self._query_progress,
        }

    def read(self, lines: Iterable[bytes]) -> None:
        """Read all lines; a file without any event at its beginning is given up early."""
        source = iter(lines)
        for line in islice(source, _FEW_LINES):
            self.add(line)
        if self.bad and not self.events:
            return
        for line in source:
            self.add(line)

    def add(self, line: bytes) -> None:
        """Add the event of a line."""
        if not line or line.isspace():
            return
        self.cut = False
        try:
            event = events.decode(line)
        except events.NotAnEventError:
            # The last line of a log that is still written has no end.
            self.cut = True
            self.bad += 1
            return
        self.events += 1
        if event is not None:
            self._handlers[type(event)](event)

    def _log_start(self, event: events.LogStart) -> None:
        self.log.version = event.spark_version

    def _application_start(self, event: events.ApplicationStart) -> None:
        self.log.name = event.app_name or self.log.name

    def _application_end(self, _: events.ApplicationEnd) -> None:
        self.ended = True

    def _environment(self, event: events.Environment) -> None:
        given = event.spark_properties
        pairs = given.items() if isinstance(given, dict) else [(one[0], one[1]) for one in given]
        self.log.settings = {key: value for key, value in pairs if key.startswith(_SETTINGS)}

    def _executor_added(self, event: events.ExecutorAdded) -> None:
        one = self.log.executors[self._number(event.executor_id)]
        one.cores = event.executor_info.total_cores or None
        one.added_ms = float(event.timestamp)
        one.removed_ms = None

    def _executor_removed(self, event: events.ExecutorRemoved) -> None:
        self.log.executors[self._number(event.executor_id)].removed_ms = float(event.timestamp)

    def _number(self, executor: str) -> int:
        if executor not in self._numbers:
            self._numbers[executor] = self.log.executor(executor)
        return self._numbers[executor]

    def _job_start(self, event: events.JobStart) -> None:
        own = event.properties or events.JobProperties()
        last = max(event.stage_infos, key=lambda stage: stage.stage_id, default=None)
        self.log.jobs[event.job_id] = Job(
            number=event.job_id,
            submitted_ms=float(event.submission_time),
            stages=tuple(event.stage_ids or [stage.stage_id for stage in event.stage_infos]),
            name=own.description or (last.stage_name if last else "") or f"job {event.job_id}",
            query=own.query,
            batch=_whole(own.batch),
            execution=_whole(own.execution),
        )

    def _job_end(self, event: events.JobEnd) -> None:
        if event.job_id in self.log.jobs:
            self.log.jobs[event.job_id].ended_ms = float(event.completion_time)
        if self._tasks > self._most_tasks:
            self._drop_older_half()

    def _stage_of(self, number: int, attempt: int) -> Stage:
        return self.log.stages.setdefault((number, attempt), Stage(number))

    def _stage(self, event: events.StageEvent) -> None:
        info = event.stage_info
        stage = self._stage_of(info.stage_id, info.stage_attempt_id)
        stage.name = info.stage_name
        names = {rdd.name for rdd in info.rdd_info} | {rdd.scope or "" for rdd in info.rdd_info}
        stage.steps = frozenset(names - {""})
        stage.shuffled = bool(info.parent_ids)
        if info.submission_time is not None:
            stage.submitted_ms = float(info.submission_time)

    def _task_end(self, event: events.TaskEnd | events.PythonTaskEnd) -> None:
        info = event.task_info
        if info is None or not info.finish_time:
            return
        metrics = event.task_metrics or events.TaskMetrics()
        shuffle = metrics.shuffle_read_metrics or events.ShuffleRead()
        source = metrics.input_metrics or events.Input()
        self._tasks += 1
        self._stage_of(event.stage_id, event.stage_attempt_id).rows.extend(
            (
                info.index,
                self._number(info.executor_id),
                info.launch_time,
                info.finish_time,
                metrics.executor_run_time,
                metrics.jvm_gc_time,
                shuffle.fetch_wait_time,
                _python_ms(info) if isinstance(info, events.PythonTaskInfo) else 0.0,
                metrics.disk_bytes_spilled,
                source.records_read + shuffle.total_records_read,
                info.failed or info.killed,
                info.locality in _NEAR,
            )
        )

    def _execution_start(self, event: events.ExecutionStart) -> None:
        name = event.description or f"SQL query {event.execution_id}"
        self.log.executions[event.execution_id] = Execution(name, float(event.time))

    def _execution_end(self, event: events.ExecutionEnd) -> None:
        if event.execution_id in self.log.executions:
            self.log.executions[event.execution_id].ended_ms = float(event.time)

    def _query_progress(self, event: events.QueryProgress) -> None:
        progress = event.progress
        if not progress.duration_ms or "triggerExecution" not in progress.duration_ms:
            return
        started_ms = _since_1970_ms(progress.timestamp)
        if started_ms is None:
            return
        self.log.progress.append(
            BatchProgress(
                query=progress.id,
                name=progress.name,
                batch=progress.batch_id,
                started_ms=started_ms,
                phases_ms=progress.duration_ms,
                rows=progress.rows,
                backlog=backlog_of(progress.sources),
            )
        )

    def _drop_older_half(self) -> None:
        """Forget the older half of jobs that have ended, with their stages and batches."""
        log = self.log
        ended = [job for job in log.jobs.values() if job.ended_ms is not None]
        ended.sort(key=lambda job: job.submitted_ms)
        old = {job.number for job in ended[: max(1, len(ended) // 2)]}
        kept = [job for job in log.jobs.values() if job.number not in old]
        needed = {stage for job in kept for stage in job.stages}
        gone = {stage for n in old for stage in log.jobs[n].stages} - needed
        until_ms = max(log.jobs[n].submitted_ms for n in old)
        for key in [key for key in log.stages if key[0] in gone]:
            count = len(log.stages.pop(key).rows) // COLUMNS
            self._tasks -= count
            self.dropped += count
        log.jobs = {job.number: job for job in kept}
        log.executions = {
            n: one
            for n, one in log.executions.items()
            if one.ended_ms is None or one.ended_ms > until_ms
        }
        log.progress = [one for one in log.progress if one.started_ms > until_ms]


def _python_ms(info: events.PythonTaskInfo) -> float:
    """Return how long a task waited for the start of its Python workers.

    A worker that is used again reports no start. Its initialisation then includes the time in which
    it was idle before the task, so that it shows nothing.
    """
    found = {one.name: _whole(str(one.update)) or 0 for one in info.accumulables}
    start_ms, initialised_ms = (found.get(name, 0) for name in events.PYTHON_START)
    return float(start_ms + max(initialised_ms, 0)) if start_ms > 0 else 0.0


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def _since_1970_ms(timestamp: str) -> float | None:
    """Return a time of Spark's progress in ms since 1970; None if it is not a time.

    Example:
        >>> _since_1970_ms("1970-01-01T00:00:01.500Z"), _since_1970_ms("soon")
        (1500.0, None)
    """
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return 1000 * (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
