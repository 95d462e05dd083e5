"""Many independent computations as one Spark job, with progress."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

T = TypeVar("T")

# Enough for a smooth progress bar; every task has an overhead of some 50 ms.
_TASKS = 64
_TASKS_PER_SLOT = 4
_POLL_S = 0.2


def by_value(thing: type) -> None:
    """Send a user's own class to the executors with its code, which they may not have."""
    module = sys.modules[thing.__module__]
    if module.__name__.split(".")[0] != "penstock":
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def compute(
    spark: SparkSession,
    function: Callable[[T], str],
    cells: Sequence[T],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[str]:
    """Apply a function that returns text to every cell, in parallel; keep the order.

    Args:
        spark: session that computes.
        function: function that executors can import, or that is pickled by value.
        cells: arguments of the function; each call should take longer than a message.
        progress: function called on another thread with the number of tasks done and of all tasks.
    """
    slots = spark.sparkContext.defaultParallelism
    tasks = min(len(cells), max(_TASKS, _TASKS_PER_SLOT * slots))
    # Neighbouring cells have similar costs, so they are spread over the tasks.
    order = np.random.default_rng(0).permutation(len(cells)).tolist()

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                cell = order[position]
                yield pa.RecordBatch.from_pydict(
                    {"cell": pa.array([cell], pa.int64()), "text": [function(cells[cell])]}
                )

    frame = spark.range(0, len(cells), 1, tasks).mapInArrow(work, "cell long, text string")
    group = f"penstock-bulk-{id(cells)}"
    spark.sparkContext.setJobGroup(group, f"{len(cells)} computations", interruptOnCancel=True)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            progress(min(_completed(spark, group), tasks), tasks)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        table = frame.toArrow()
    except BaseException:
        spark.sparkContext.cancelJobGroup(group)
        raise
    finally:
        done.set()
        watcher.join()
    progress(tasks, tasks)
    found = dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
    return [found[cell] for cell in range(len(cells))]


def _completed(spark: SparkSession, group: str) -> int:
    """Return the number of tasks that have ended in the jobs of a group."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)
