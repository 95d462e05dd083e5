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
    """Send a class of the user's own to the executors with its code: they may not have it."""
    module = sys.modules[thing.__module__]
    if module.__name__.split(".")[0] != "penstock":
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def compute(
    spark: SparkSession,
    function: Callable[[T], str],
    cells: Sequence[T],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[str]:
    """Apply a function that returns text to every cell, in parallel; keep the order.

    Args:
        spark: where to compute.
        function: importable on the executors, or pickled by value with what it needs.
        cells: arguments; each one should take long enough to be worth a message.
        progress: called on another thread with the number of tasks done and of all tasks.
    """
    slots = spark.sparkContext.defaultParallelism
    tasks = min(len(cells), max(_TASKS, _TASKS_PER_SLOT * slots))
    # Neighbouring cells are alike, and so are their costs: spread them over the tasks.
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
    watcher = threading.Thread(
        target=_watch, args=(spark, group, tasks, done, progress), daemon=True
    )
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


def _watch(
    spark: SparkSession,
    group: str,
    tasks: int,
    done: threading.Event,
    progress: Callable[[int, int], None],
) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(_POLL_S):
        completed = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            stages = [tracker.getStageInfo(s) for s in info.stageIds] if info else []
            completed += sum(stage.numCompletedTasks for stage in stages if stage)
        progress(min(completed, tasks), tasks)
