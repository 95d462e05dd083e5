"""Tasks, stages, jobs and executors, as an event log or the status store of Spark has them."""

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Float64

# Operators of Spark that keep state, by a part of the name that the plan has.
_STATEFUL = ("StateStore", "WithState", "GlobalLimit", "StreamingDeduplicate", "SymmetricHashJoin")
_PYTHON = ("Python", "Pandas", "InArrow", "PythonRDD")
_GROUPED = ("Aggregate", "FlatMapGroups", "CoGroup", "Window")


class Tasks(NamedTuple):
    """Finished tasks of a stage; one entry of each array for each task, in order of their ends.

    Attributes:
        partition: number of the task in its stage.
        executor: number of the executor in `Log.executors`.
        launch_ms: time of the start, in ms since 1970.
        finish_ms: time of the end.
        run_ms: time that the executor spent on it.
        gc_ms: time of garbage collection while it ran.
        fetch_ms: time that it waited for blocks of other executors.
        python_ms: time that it waited for its Python worker to start.
        spilled_bytes: bytes that it wrote to disk because memory was short.
        records: records that it read, from sources and shuffles.
        failed: 1 for a task that failed or was killed.
        near: 1 for a task that ran where its data or state are.
    """

    partition: Float64
    executor: Float64
    launch_ms: Float64
    finish_ms: Float64
    run_ms: Float64
    gc_ms: Float64
    fetch_ms: Float64
    python_ms: Float64
    spilled_bytes: Float64
    records: Float64
    failed: Float64
    near: Float64

    @property
    def size(self) -> int:
        """Number of tasks."""
        return int(self.partition.size)

    @property
    def duration_ms(self) -> Float64:
        """Time from start to end of each task."""
        return np.maximum(self.finish_ms - self.launch_ms, 0.0)

    @property
    def start_ms(self) -> float:
        """Time at which the first task started."""
        return float(self.launch_ms.min())

    @property
    def end_ms(self) -> float:
        """Time at which the last task ended."""
        return float(self.finish_ms.max())

    def chosen(self, which: np.ndarray) -> "Tasks":
        """Return some of the tasks, in the order of an index, or those of a mask."""
        return Tasks._make(column[which] for column in self)

    @classmethod
    def together(cls, parts: "list[Tasks]") -> "Tasks":
        """Return the tasks of several stages as one."""
        return cls._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


COLUMNS = len(Tasks._fields)


@dataclass
class Stage:
    """One attempt of a stage.

    Attributes:
        number: number of the stage.
        name: name that Spark's pages show.
        steps: names of its operators and RDDs.
        shuffled: whether it reads a shuffle.
        submitted_ms: time at which it could start; None if unknown.
        rows: values of its tasks, one row after the other.
    """

    number: int
    name: str = ""
    steps: frozenset[str] = frozenset()
    shuffled: bool = False
    submitted_ms: float | None = None
    rows: "array[float]" = field(default_factory=lambda: array("d"))

    @property
    def stateful(self) -> bool:
        """Whether it keeps state, whose partitions Spark runs where they were before."""
        return self._has(_STATEFUL)

    @property
    def python(self) -> bool:
        """Whether it runs functions in Python."""
        return self._has(_PYTHON)

    @property
    def grouped(self) -> bool:
        """Whether it brings records of a key together."""
        return self._has(_GROUPED) or self.stateful

    def _has(self, parts: tuple[str, ...]) -> bool:
        return any(part in step for step in self.steps for part in parts)

    def tasks(self) -> Tasks:
        """Return the finished tasks as arrays."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, COLUMNS)
        return Tasks._make(table.T.copy())


@dataclass
class Job:
    """A job of Spark.

    Attributes:
        number: number of the job.
        submitted_ms: time of its start.
        stages: numbers of its stages.
        name: name or description for people.
        query: id of its streaming query; None for other jobs.
        batch: number of its batch; None for other jobs.
        execution: number of its SQL query; None if it has none.
        ended_ms: time of its end; None if it has not ended.
    """

    number: int
    submitted_ms: float
    stages: tuple[int, ...]
    name: str = ""
    query: str | None = None
    batch: int | None = None
    execution: int | None = None
    ended_ms: float | None = None


@dataclass
class Execution:
    """A SQL query: its jobs carry its number."""

    name: str
    started_ms: float
    ended_ms: float | None = None


@dataclass
class Executor:
    """An executor.

    Attributes:
        name: id that Spark gave it.
        cores: number of its cores; None if unknown.
        added_ms: time at which it joined.
        removed_ms: time at which it left; None if it stayed.
    """

    name: str
    cores: int | None = None
    added_ms: float = 0.0
    removed_ms: float | None = None


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a streaming query in one batch.

    Attributes:
        query: id of the query.
        name: name of the query, or None.
        batch: number of the batch.
        started_ms: time of its start.
        phases_ms: durations of its phases, by Spark's names.
        rows: number of records; None if unknown.
        backlog: records that the sources had and the query had not read; None if unknown.
    """

    query: str
    name: str | None
    batch: int
    started_ms: float
    phases_ms: dict[str, int]
    rows: int | None
    backlog: float | None
