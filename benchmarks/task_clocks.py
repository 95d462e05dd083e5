"""Clocks inside of Spark's Python workers, for `task.py`: which part of a task takes how long?

Spark starts this module in the place of its own daemon (`spark.python.daemon.module`). It is that
daemon, with clocks around the parts of a task. Every worker writes a line of JSON for each task. It
imports nothing of Penstock: plain workers must stay plain.
"""

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from pyspark import daemon

# Environment variable with the folder for the times of tasks.
FOLDER = "PENSTOCK_TASK_CLOCKS"
# From the end of the previous task to the first byte of this one: the JVM schedules the task,
# deserialises it and reads the shuffle.
JVM = "JVM"
# Within the task: the worker waits for bytes.
WAITING = "waiting for bytes"
UNPICKLING = "unpickling"
ARROW = "Arrow"
FUNCTION = "function"
REPORT = "report"
# All other code of Spark's worker, for example for the task's context.
WORKER = "rest of the worker"
GARBAGE = "garbage collection"
PARTS = JVM, WAITING, UNPICKLING, ARROW, FUNCTION, REPORT, WORKER, GARBAGE


class Stopwatch:
    """Assigns every moment to one part: the innermost one that runs."""

    def __init__(self) -> None:
        self.task = -1
        self._file: TextIO | None = None
        self.restart()

    def restart(self) -> None:
        """Start with the next task: the worker waits for its first byte."""
        self._parts_s = dict.fromkeys(PARTS, 0.0)
        self._running = [JVM]
        self._last_s = time.perf_counter()

    @property
    def between_tasks(self) -> bool:
        return self._running == [JVM]

    def begin(self) -> None:
        """The first byte of a task has arrived."""
        self._advance()
        self._running = [WORKER]

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time belongs to a part."""

        def run(*args: Any, **named: Any) -> Any:
            self._advance()
            self._running.append(part)
            try:
                return function(*args, **named)
            finally:
                self._advance()
                self._running.pop()

        return run

    def each(self, part: str, items: Iterator[Any]) -> Iterator[Any]:
        """Yield items; the time to make them belongs to a part."""
        following = self.timed(part, next)
        end = object()
        iterator = iter(items)
        while (item := following(iterator, end)) is not end:
            yield item

    def write(self) -> None:
        """Write the times of the task that has ended, in milliseconds."""
        self._advance()
        if self._file is None:
            path = Path(os.environ[FOLDER], f"{os.getpid()}.jsonl")
            self._file = path.open("a", buffering=1)
        parts_ms = {part: 1000 * spent_s for part, spent_s in self._parts_s.items()}
        self._file.write(json.dumps({"task": self.task, "parts_ms": parts_ms}) + "\n")
        self.restart()

    def _advance(self) -> None:
        now_s = time.perf_counter()
        self._parts_s[self._running[-1]] += now_s - self._last_s
        self._last_s = now_s


WATCH = Stopwatch()


class ClockedFile:
    """The file from which a worker reads; the first read of a task waits for the JVM."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._wait = WATCH.timed(WAITING, file.read)

    def read(self, size: int = -1) -> bytes:
        if not WATCH.between_tasks:
            return self._wait(size)
        found: bytes = self._file.read(size)
        WATCH.begin()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def clocked_reading(read_udfs: Callable[..., Any]) -> Callable[..., Any]:
    """Return Spark's function that unpickles a task's function, with clocks around both."""

    def read(*args: Any) -> Any:
        from pyspark import TaskContext  # noqa: PLC0415 - the daemon itself needs less

        function, profiler, deserializer, serializer = read_udfs(*args)

        def run(number: int, batches: Iterator[Any]) -> Iterator[Any]:
            context = TaskContext.get()
            assert context is not None
            WATCH.task = context.taskAttemptId()
            return WATCH.each(FUNCTION, function(number, WATCH.each(ARROW, batches)))

        if not hasattr(serializer, "clocked"):
            serializer.clocked = True
            serializer.dump_stream = WATCH.timed(ARROW, serializer.dump_stream)
        return run, profiler, deserializer, serializer

    return WATCH.timed(UNPICKLING, read)


def clocked_main(main: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def run(infile: Any, outfile: Any) -> None:
        _clock_penstock()
        main(ClockedFile(infile), outfile)

    return run


def _clock_penstock() -> None:
    """Put a clock on the report of Penstock's tasks, as soon as a task has imported Penstock."""
    meter = sys.modules.get("penstock.spark.executor.meter")
    if meter is not None and not hasattr(meter, "clocked"):
        meter.clocked = True  # type: ignore[attr-defined]
        meter.Meter.report = WATCH.timed(REPORT, meter.Meter.report)


def clocked_worker(worker: Callable[..., int]) -> Callable[..., int]:
    """Return Spark's function of a worker, which runs one task; called after the fork."""

    def run(*args: Any) -> int:
        from pyspark import worker as module  # noqa: PLC0415 - not before the fork

        if not hasattr(module, "clocked"):
            module.clocked = True  # type: ignore[attr-defined]
            module.main = clocked_main(module.main)
            module.read_udfs = clocked_reading(module.read_udfs)
            module.send_accumulator_updates = WATCH.timed(REPORT, module.send_accumulator_updates)
            pickle.loads = WATCH.timed(UNPICKLING, pickle.loads)
            WATCH.restart()
        return worker(*args)

    return run


def collect_and_write() -> None:
    """Collect garbage as Spark does after each task; then the task has ended."""
    WATCH.timed(GARBAGE, COLLECT)()
    WATCH.write()


if __name__ == "__main__":
    COLLECT = daemon.gc.collect
    daemon.gc = SimpleNamespace(collect=collect_and_write)  # type: ignore[assignment]
    daemon.worker = clocked_worker(daemon.worker)
    daemon.manager()
