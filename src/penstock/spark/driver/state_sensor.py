"""Reads where the key groups of a query ran, how long, and how much they sent each other."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control import Journal
from penstock.control.keygroups import KeyGroup, KeyGroups, Ran
from penstock.spark import internals
from penstock.spark.internals import JobDone, StateOperator

# Jobs that fit no stateful operator after which the journal warns.
_UNLIKE = 10

Task = dict[str, Any]


class StateSensor:
    """Reads the tasks of a query's batches, and follows its key groups.

    A key group is a partition of a stateful operator, or of all operators that share a stage. Its
    load is the run time of its task.

    Args:
        spark: session of the query.
        query: active streaming query.
        name: name of the query, for the journal.
        journal: journal for warnings.
    """

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, name: str, *, journal: Journal
    ) -> None:
        self.groups = KeyGroups()
        self.operators: dict[int, StateOperator] = {}
        self._spark = spark
        self._query = query
        self._name = name
        self._journal = journal
        self._known = False
        self._last_job = max(internals.jobs_after(spark, self.run, -1), default=-1)
        self._began_ms = 0.0
        self._batch = ""
        # Tasks of the newest batch, by operator.
        self._tasks: dict[int, list[Task]] = {}
        self._unlike = 0

    @property
    def run(self) -> str:
        """Identity of the query's run; it is also the group of its jobs."""
        return str(self._query.runId)

    def find_operators(self) -> bool:
        """Read the query's stateful operators, once they are known; return whether it has any."""
        if not self._known:
            found = internals.state_operators(self._spark, str(self._query.id))
            self._known = found is not None
            self.operators = {one.number: one for one in found or []}
            if found == []:
                self._journal.warn(
                    self._name, "the query has no stateful operator: there is nothing to place"
                )
        return bool(self.operators)

    def new_batches(self) -> Iterator[None]:
        """Read the batches that have ended since the last call; yield after each of them."""
        for job in internals.jobs_after(self._spark, self.run, self._last_job):
            done = internals.job_done(self._spark, job)
            if done is None:
                break  # it still runs
            self._last_job = job
            if self._add(done):
                yield

    def _add(self, job: JobDone) -> bool:
        """Read the first job of a batch that has executed all stateful operators.

        A sink with several actions has more jobs, which read cached results or repeat the work.
        """
        if not job.succeeded or (job.batch and job.batch == self._batch):
            return False
        tasks = self._tasks_of(job)
        if tasks is None:
            return False
        self._batch, self._tasks = job.batch, tasks
        interval_ms = job.began_ms - self._began_ms if self._began_ms else job.duration_ms
        self._began_ms = job.began_ms
        # The first batch after a pause of the source is no measure of the usual interval.
        longest_ms = 10 * max(job.duration_ms, self.groups.interval_ms)
        ran = [_ran(number, one) for number, own in tasks.items() for one in own]
        self.groups.add(ran, max(1.0, min(interval_ms, longest_ms)))
        return True

    def _tasks_of(self, job: JobDone) -> dict[int, list[Task]] | None:
        """Return the tasks of a job by operator; None if its stages do not fit."""
        found = internals.tasks_by_operator(self._spark, self.operators.values(), job.stages)
        for operator in self.operators.values():
            if len(found[operator.number]) != operator.partitions:
                self._warn_of_stages(operator)
                return None
        return found

    def _warn_of_stages(self, operator: StateOperator) -> None:
        self._unlike += 1
        if self._unlike == _UNLIKE and not self.groups.batches:
            self._journal.warn(
                self._name,
                f"the stages of {_UNLIKE} jobs do not fit the {operator.partitions} partitions of "
                f"stateful operator {operator.number}: nothing is placed",
            )

    def state_bytes(self) -> dict[KeyGroup, float]:
        """Return the bytes of each key group's state in the checkpoint."""
        return {
            (operator.number, partition): sum(
                internals.folder_bytes(self._spark, f"{one.root}/{one.number}/{partition}")
                for one in (operator, *operator.before)
            )
            for operator in self.operators.values()
            for partition in range(operator.partitions)
        }

    def traffic(self) -> dict[tuple[KeyGroup, KeyGroup], float]:
        """Return the bytes that key groups of an operator sent to those of the next one."""
        found = {}
        for sender in self.operators.values():
            if sender.receiver is None:
                continue
            sent, received = self._tasks.get(sender.number), self._tasks.get(sender.receiver)
            if sent is None or received is None:
                continue
            sizes = internals.shuffled_bytes(self._spark, _written(sent), _read(received))
            for i, row in enumerate(sizes):
                for j, volume in enumerate(row):
                    if volume:
                        found[(sender.number, i), (sender.receiver, j)] = volume
        return found


def _ran(operator: int, task: Task) -> Ran:
    metrics = task["taskMetrics"]
    return Ran(
        group=(operator, _partition(task)),
        executor=str(task["executorId"]),
        busy_ms=float(metrics["executorRunTime"]),
        records=float(metrics["shuffleReadMetrics"]["recordsRead"]),
    )


def _written(tasks: list[Task]) -> list[float]:
    """Return the bytes that tasks have written to a shuffle, in the order of partitions."""
    metrics = (one["taskMetrics"] for one in sorted(tasks, key=_partition))
    return [float(one["shuffleWriteMetrics"]["bytesWritten"]) for one in metrics]


def _read(tasks: list[Task]) -> list[float]:
    """Return the bytes that tasks have read from shuffles, in the order of partitions."""
    metrics = (one["taskMetrics"]["shuffleReadMetrics"] for one in sorted(tasks, key=_partition))
    return [float(one["remoteBytesRead"] + one["localBytesRead"]) for one in metrics]


def _partition(task: Task) -> int:
    return int(task["partitionId"])
