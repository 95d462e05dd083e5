"""The files that an operator keeps next to the checkpoint of its query."""

import logging
import queue
import re
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from penstock.control import Controller
from penstock.errors import PenstockError, first_line
from penstock.spark import internals
from penstock.spark.internals import JvmError

log = logging.getLogger("penstock")

SNAPSHOT, PIN, SCALING = "snapshot", "batch", "scaling"
_CONSEQUENCE = {
    SNAPSHOT: "costs are learnt again",
    PIN: "its batch is decided about again",
    SCALING: "rates and costs are learnt again",
}
# Costs are saved soon after the first ones are learnt, then less and less often: an object store
# takes some requests for each file.
_FIRST_SAVE_S = 1.0
_SAVE_S = 60.0
# Longest time that a program which ends waits for a file that is being written.
_CLOSE_S = 5.0
# Files of one kind that are kept: the newest one may be damaged.
_KEPT = 2


class CheckpointFiles:
    """Reads and writes the files of operators.

    An operator has two kinds of files in the folder `penstock` of a checkpoint: its learnt costs,
    and the snapshot of the batch that runs. Scaling keeps files there, too. Each file is new and
    has a number, because not every file system can replace a file at once. Thread safe: `_lock`
    guards the numbers, and is not held while files are read or written.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checkpoints: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._due_s: dict[str, tuple[float, float]] = {}
        self.looks: list[Callable[[], None]] = []
        self._saver: threading.Thread | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._orders: queue.SimpleQueue[list[tuple[SparkSession, Controller]] | None] = (
            queue.SimpleQueue()
        )

    def stem(self, spark: SparkSession, controller: Controller, kind: str) -> str | None:
        """Return the path of a kind of files without their numbers; None without a checkpoint.

        The checkpoint is found while the query runs, and remembered.
        """
        checkpoint = self.checkpoint(spark, controller.query)
        return f"{checkpoint}/penstock/{controller.name}.{kind}" if checkpoint else None

    def checkpoint(self, spark: SparkSession, query: str) -> str | None:
        """Return the checkpoint of a query; None if it is unknown."""
        if query and query not in self._checkpoints:
            found = internals.checkpoint_of(spark, query)
            if found:
                self._checkpoints[query] = found
        return self._checkpoints.get(query)

    def load(
        self,
        spark: SparkSession,
        controller: Controller,
        kind: str,
        *,
        into: Callable[[bytes], None],
    ) -> None:
        """Load the newest file of an earlier run that can be used; log one that cannot."""
        stem = self.stem(spark, controller, kind)
        if stem is not None:
            self.load_from(spark, stem, name=controller.name, into=into)

    def load_from(
        self, spark: SparkSession, stem: str, *, name: str, into: Callable[[bytes], None]
    ) -> None:
        """Load the newest usable file, given the path without its number.

        Args:
            spark: session of the query.
            stem: path of the files without their numbers.
            name: name of the operator or query, for people.
            into: function that takes the bytes of a file; it refuses those that do not fit.
        """
        try:
            numbers = self._found(spark, stem)
            with self._lock:
                self._numbers[stem] = max([self._numbers.get(stem, 0), *numbers])
        except JvmError as error:
            log.warning("%s: %s cannot be listed (%s)", name, stem, first_line(error))
            return
        for number in sorted(numbers, reverse=True):
            path = _numbered(stem, number)
            try:
                data = internals.read_file(spark, path)
                if data is not None:
                    into(data)
                    return
            except (PenstockError, JvmError) as error:
                log.warning(
                    "%s: %s cannot be used, so %s (%s)",
                    name,
                    path,
                    _CONSEQUENCE[stem.rpartition(".")[2]],
                    first_line(error),
                )

    @staticmethod
    def _found(spark: SparkSession, stem: str) -> list[int]:
        """Return the numbers of the files of one kind; version 0.1.0 wrote one without a number."""
        folder, _, name = stem.rpartition("/")
        pattern = re.compile(rf"{re.escape(name)}(?:\.(\d+))?")
        matches = (pattern.fullmatch(one) for one in internals.file_names(spark, folder))
        return [int(match[1] or 0) for match in matches if match]

    def save_aside(self, known: list[tuple[SparkSession, Controller]]) -> None:
        """Save costs that are due, on another thread: a slow store must not hold up the caller.

        That thread removes stale files, too. Nothing is saved while it is still at work.
        """
        if self._saver is None:
            self._saver = threading.Thread(target=self._save, name="penstock-save", daemon=True)
            self._saver.start()
        if self._idle.is_set():
            self._idle.clear()
            self._orders.put(known)

    def _save(self) -> None:
        while (known := self._orders.get()) is not None:
            for spark, controller in known:
                try:
                    self.save_if_due(spark, controller)
                except Exception as error:  # the next look tries again
                    log.warning("%s: costs are not saved: %s", controller.name, first_line(error))
            for look in self.looks:
                try:
                    look()
                except Exception as error:
                    log.warning("stale files are not removed: %s", first_line(error))
            self._idle.set()

    def close(self) -> None:
        """End the thread that saves, when it has written what it is writing."""
        self._orders.put(None)
        if self._saver is not None:
            self._saver.join(timeout=_CLOSE_S)

    def save_if_due(self, spark: SparkSession, controller: Controller) -> None:
        """Save the learnt costs of an operator, unless they were saved a moment ago."""
        stem = self.stem(spark, controller, SNAPSHOT)
        if stem is None or not controller.unsaved:
            return
        now_s = time.monotonic()
        due_s, pause_s = self._due_s.setdefault(stem, (now_s + _FIRST_SAVE_S, _FIRST_SAVE_S))
        if now_s >= due_s:
            pause_s = min(2 * pause_s, _SAVE_S)
            self._due_s[stem] = now_s + pause_s, pause_s
            self.save(spark, controller)

    def save_all(self, known: list[tuple[SparkSession, Controller]]) -> None:
        """Save the learnt costs of some operators."""
        for spark, controller in known:
            self.save(spark, controller)

    def save(self, spark: SparkSession, controller: Controller) -> None:
        """Save the learnt costs of an operator; log a failure, and try again later."""
        stem = self.stem(spark, controller, SNAPSHOT)
        if stem is None or not controller.unsaved:
            return
        controller.unsaved = False
        learnt = controller.save()
        try:
            self.write(spark, stem, learnt)
        except Exception as error:
            controller.unsaved = True
            log.warning(
                "%s: costs cannot be saved at %s (%s)", controller.name, stem, first_line(error)
            )

    def write(self, spark: SparkSession, stem: str, data: bytes) -> None:
        """Write a new file of one kind, and delete the oldest one."""
        with self._lock:
            number = self._numbers[stem] = self._numbers.get(stem, 0) + 1
        internals.create_file(spark, _numbered(stem, number), data)
        if number > _KEPT:
            try:
                internals.delete_file(spark, _numbered(stem, number - _KEPT))
            except JvmError as error:
                log.debug("an old file of %s is kept: %s", stem, first_line(error))

    def batch_to_repeat(self, spark: SparkSession, controller: Controller) -> int | None:
        """Return the batch of a query that began and was not committed; None without one."""
        checkpoint = self.checkpoint(spark, controller.query)
        try:
            return None if checkpoint is None else internals.unfinished_batch(spark, checkpoint)
        except JvmError as error:
            controller.warn("repeat", f"the checkpoint cannot be read: {first_line(error)}")
            return None


def _numbered(stem: str, number: int) -> str:
    return f"{stem}.{number}" if number else stem
