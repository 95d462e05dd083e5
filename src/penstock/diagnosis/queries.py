"""Queries and their batches: what belongs together, and when it ran."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from penstock.diagnosis.log import Log
from penstock.diagnosis.tasks import Job, Stage, Tasks

_PLANNING = "queryPlanning"
_JOBS = "addBatch"
_WHOLE = "triggerExecution"
# Name of a query for people, cut to this many characters.
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Run:
    """One stage in one batch, with its tasks in the order of their starts."""

    stage: Stage
    tasks: Tasks


@dataclass(frozen=True)
class Group:
    """Stages of a batch whose tasks ran at the same time; often a single stage.

    Attributes:
        runs: the stages.
        slots: number of tasks that the cluster could run at a time.
    """

    runs: tuple[Run, ...]
    slots: int

    @property
    def start_ms(self) -> float:
        """Time at which the first task started."""
        return min(run.tasks.start_ms for run in self.runs)

    @property
    def end_ms(self) -> float:
        """Time at which the last task ended."""
        return max(run.tasks.end_ms for run in self.runs)

    @property
    def wall_ms(self) -> float:
        """Time from the first start to the last end."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Batch:
    """A micro-batch of a streaming query, or one run of a SQL query or job.

    Attributes:
        number: number of the batch.
        start_ms: time of its start, in ms since 1970.
        duration_ms: time from its start to its end.
        planning_ms: time in which Spark planned the query.
        offsets_ms: time for offsets, logs and commits.
        groups: stages, in the order of their starts.
        rows: number of records; None if unknown.
        backlog: records that were waiting at its start; None if unknown.
        reported: whether the query reported its end; False for SQL queries and jobs, too.
    """

    number: int
    start_ms: float
    duration_ms: float
    planning_ms: float
    offsets_ms: float
    groups: tuple[Group, ...]
    rows: int | None = None
    backlog: float | None = None
    reported: bool = False

    @property
    def end_ms(self) -> float:
        """Time of its end."""
        return self.start_ms + self.duration_ms

    @property
    def stages_ms(self) -> float:
        """Time in which tasks ran."""
        return sum(group.wall_ms for group in self.groups)

    @property
    def scheduling_ms(self) -> float:
        """Time of the driver besides planning and offsets, in which no task ran."""
        rest = self.duration_ms - self.planning_ms - self.offsets_ms - self.stages_ms
        return max(rest, 0.0)


@dataclass
class Query:
    """A streaming query with its batches, or all runs of the same SQL query or job.

    Attributes:
        name: name for people.
        streaming: whether it is a streaming query.
        batches: batches in the order of their starts.
        notes: sentences about data that is missing.
    """

    name: str
    streaming: bool
    batches: list[Batch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Slots:
    """The number of slots that a cluster has at a time.

    Args:
        log: log with executors.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.known = any(one.cores for one in log.executors)
        self._seen = 1 if self.known else _most_at_once(log)

    def at(self, moment_ms: float) -> int:
        """Return the number of slots at a time."""
        return max(int(sum(self.of_executors(moment_ms))), 1) if self.known else self._seen

    def of_executors(self, moment_ms: float) -> list[int]:
        """Return the slots of each executor at a time; 0 for one that is not there."""
        return [
            (one.cores or 0) // self._log.cores_of_a_task
            if one.added_ms <= moment_ms and (one.removed_ms is None or one.removed_ms > moment_ms)
            else 0
            for one in self._log.executors
        ]


def _most_at_once(log: Log) -> int:
    """Return the largest number of tasks that ran at the same time."""
    tasks = [stage.tasks() for stage in log.stages.values() if stage.rows]
    if not tasks:
        return 1
    every = Tasks.together(tasks)
    moments = np.concatenate([every.launch_ms, every.finish_ms])
    steps = np.concatenate([np.ones(every.size), -np.ones(every.size)])
    return int(np.cumsum(steps[np.lexsort((steps, moments))]).max())


def queries_of(log: Log, slots: Slots) -> list[Query]:
    """Return the queries of a log: streaming ones first, then the others by their time."""
    stages: dict[int, list[Stage]] = defaultdict(list)
    for (number, _), stage in log.stages.items():
        if stage.rows:
            stages[number].append(stage)
    build = _Builder(log, slots, stages)
    streaming = build.streaming()
    others = build.others()
    if not slots.known and (streaming or others):
        note = f"The log does not have the size of executors: {slots.at(0)} slots are assumed"
        log.notes.append(f"{note}, as many as tasks ran at once.")
    others.sort(key=lambda query: -sum(batch.duration_ms for batch in query.batches))
    return [query for query in [*streaming, *others] if query.batches]


class _Builder:
    """Collects the jobs of queries.

    Args:
        log: the log.
        slots: slots of its cluster.
        stages: attempts of stages with tasks, by number.
    """

    def __init__(self, log: Log, slots: Slots, stages: dict[int, list[Stage]]) -> None:
        self._log, self._slots, self._stages = log, slots, stages

    def streaming(self) -> list[Query]:
        """Return the streaming queries."""
        jobs: dict[tuple[str, int], list[Job]] = defaultdict(list)
        for job in self._log.jobs.values():
            if job.query is not None and job.batch is not None:
                jobs[job.query, job.batch].append(job)
        queries: dict[str, Query] = {}
        reported = set()
        for one in self._log.progress:
            query = queries.setdefault(one.query, Query(one.name or one.query[:8], streaming=True))
            own = jobs.get((one.query, one.batch), [])
            # A trigger without new data reports the number of the next batch, and has no jobs yet.
            own = [job for job in own if job.submitted_ms >= one.started_ms - 1]
            whole_ms = float(one.phases_ms[_WHOLE])
            if _JOBS not in one.phases_ms:
                continue
            reported.add((one.query, one.batch))
            planning_ms = float(one.phases_ms.get(_PLANNING, 0))
            query.batches.append(
                Batch(
                    number=one.batch,
                    start_ms=one.started_ms,
                    duration_ms=whole_ms,
                    planning_ms=planning_ms,
                    offsets_ms=max(whole_ms - planning_ms - one.phases_ms[_JOBS], 0.0),
                    groups=self._groups(own),
                    rows=one.rows,
                    backlog=one.backlog,
                    reported=True,
                )
            )
        self._without_report(
            queries, {key: own for key, own in jobs.items() if key not in reported}
        )
        for query in queries.values():
            query.batches.sort(key=lambda batch: batch.start_ms)
        return list(queries.values())

    def _without_report(
        self, queries: dict[str, Query], jobs: dict[tuple[str, int], list[Job]]
    ) -> None:
        """Add batches that have ended without a report of the query, for example in a cut log."""
        lacking: dict[str, int] = defaultdict(int)
        for (name, number), own in jobs.items():
            batch = self._batch(number, own, None)
            query = queries.setdefault(name, Query(name[:8], streaming=True))
            lacking[name] += 1
            if batch is not None and not any(one.number == number for one in query.batches):
                query.batches.append(batch)
        for name, count in lacking.items():
            noun = "batch has" if count == 1 else "batches have"
            queries[name].notes.append(
                f"{count} {noun} no report: planning, offsets and commits are unknown there."
            )

    def others(self) -> list[Query]:
        """Return SQL queries and jobs that belong to no streaming query."""
        units: dict[tuple[str, int], list[Job]] = defaultdict(list)
        for job in self._log.jobs.values():
            if job.query is None:
                sql = job.execution is not None and job.execution in self._log.executions
                unit = ("sql", job.execution or 0) if sql else ("job", job.number)
                units[unit].append(job)
        queries: dict[str, Query] = {}
        for (kind, number), own in units.items():
            name = self._log.executions[number].name if kind == "sql" else own[0].name
            name = " ".join(name.split())[:_LONGEST_NAME]
            batch = self._batch(number, own, number if kind == "sql" else None)
            if batch is not None:
                queries.setdefault(name, Query(name, streaming=False)).batches.append(batch)
        return list(queries.values())

    def _batch(self, number: int, jobs: list[Job], execution: int | None) -> Batch | None:
        """Return a batch from its jobs alone; None if no task has ended."""
        groups = self._groups(jobs)
        if not groups:
            return None
        # Logs of old versions of Spark have no times of jobs.
        start_ms = min(job.submitted_ms or groups[0].start_ms for job in jobs)
        ends = [job.ended_ms for job in jobs]
        end_ms = max([groups[-1].end_ms, *(end for end in ends if end is not None)])
        planning_ms = 0.0
        if execution is not None:
            sql = self._log.executions[execution]
            planning_ms = max(start_ms - sql.started_ms, 0.0)
            start_ms = min(start_ms, sql.started_ms)
            end_ms = max(end_ms, sql.ended_ms or end_ms)
        start_ms = min(start_ms, groups[0].start_ms)
        return Batch(
            number=number,
            start_ms=start_ms,
            duration_ms=end_ms - start_ms,
            planning_ms=planning_ms,
            offsets_ms=0.0,
            groups=groups,
        )

    def _groups(self, jobs: Iterable[Job]) -> tuple[Group, ...]:
        """Return the stages of jobs; those that overlap are put together."""
        numbers = {stage for job in jobs for stage in job.stages}
        since_ms = min((job.submitted_ms for job in jobs), default=0.0)
        runs = []
        for number in numbers:
            for stage in self._stages.get(number, []):
                tasks = stage.tasks()
                if tasks.start_ms >= since_ms - 1:
                    order = np.argsort(tasks.launch_ms, kind="stable")
                    runs.append(Run(stage, tasks.chosen(order)))
        runs.sort(key=lambda run: run.tasks.start_ms)
        merged: list[list[Run]] = []
        end_ms = -np.inf
        for run in runs:
            if run.tasks.start_ms < end_ms:
                merged[-1].append(run)
            else:
                merged.append([run])
            end_ms = max(end_ms, run.tasks.end_ms)
        return tuple(self._group(own) for own in merged)

    def _group(self, runs: list[Run]) -> Group:
        middle_ms = (runs[0].tasks.start_ms + max(run.tasks.end_ms for run in runs)) / 2
        slots = max(self._slots.at(runs[0].tasks.start_ms), self._slots.at(middle_ms))
        return Group(tuple(runs), slots)
