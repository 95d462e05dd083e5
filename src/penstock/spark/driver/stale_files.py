"""Files of kept records that an earlier run of a query has left, or its last tasks still write."""

import threading
import time
from dataclasses import dataclass

from penstock.control import Controller
from penstock.control.reports import TaskId
from penstock.errors import first_line
from penstock.spark.driver.checkpoint_files import CheckpointFiles
from penstock.spark.driver.registry import Registration
from penstock.spark.driver.streams import Streams

# Spark gives Python two seconds to end a task that was cancelled, and machines may be slow. Files
# are looked for so many seconds after the start of a run.
_LOOKS_S = (1.0, 3.0, 10.0, 30.0)


@dataclass
class _Chase:
    """A batch of which earlier runs may have left files, or may still write some.

    Attributes:
        registration: the operator, with its folders.
        controller: its controller in the query.
        batch: number of the batch.
        run: run that executes the batch.
        ended: earlier runs of the query.
        due_s: times of the next looks, in seconds of the monotonic clock.
        left: whether files that were there before this run could not be removed.
        unmarked: whether files go as well whose tasks did not know their run.
    """

    registration: Registration
    controller: Controller
    batch: str
    run: str
    ended: set[str]
    due_s: list[float]
    left: bool = True
    unmarked: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Batches of one operator, also if its object is new."""
        return self.registration.name, self.controller.query, self.batch

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.due_s or self.left)

    def remove(self) -> None:
        """Remove files; keep in mind what could not be removed."""
        query = self.controller.query
        try:
            for folder in self.registration.folders:
                if self.left:
                    folder.remove_others(query, self.batch, self.run, unmarked=self.unmarked)
                folder.remove_of(query, self.batch, self.ended)
            self.left = False
        except OSError as error:
            self.controller.warn("clean", f"old files of kept records stay: {first_line(error)}")

    def look(self, now_s: float) -> None:
        """Remove files, and plan the next look."""
        self.remove()
        self.due_s = [due_s for due_s in self.due_s if due_s > now_s]
        if self.left and not self.due_s:
            self.due_s = [now_s + _LOOKS_S[-1]]


class StaleFiles:
    """Removes files of shed and failed records that the newest run of a query did not write.

    A batch that was not committed runs again, in another run, and may keep other records. Names of
    files differ by run, so files of the newest run are never removed. Thread safe: `_lock` is held
    while files are removed, because a run may begin meanwhile.

    Args:
        files: files next to the checkpoints.
        streams: runs of the queries.
    """

    def __init__(self, files: CheckpointFiles, streams: Streams) -> None:
        self._files, self._streams = files, streams
        self._lock = threading.Lock()
        self._chases: dict[tuple[str, str, str], _Chase] = {}
        files.looks.append(self.look)

    def begin(
        self,
        registration: Registration,
        controller: Controller,
        task: TaskId,
        *,
        asked: bool,
    ) -> None:
        """Remove what earlier runs have left, when the first task of a run is heard of.

        Args:
            registration: the operator.
            controller: its controller in the query.
            task: the task.
            asked: whether the task has asked before it does anything. It has not if it reports.
        """
        checkpoint = self._files.checkpoint(registration.spark, controller.query)
        if checkpoint is None or not registration.folders or not task.run:
            return
        for folder in registration.folders:
            try:
                folder.note_query(controller.query, checkpoint)
            except OSError as error:
                controller.warn("note", f"kept records cannot be replayed: {first_line(error)}")
        again = self._files.batch_to_repeat(registration.spark, controller)
        now_s, ended = time.monotonic(), self._streams.ended_of(controller.query)
        looks_s = [now_s + later_s for later_s in _LOOKS_S] if ended else []
        with self._lock:
            for batch in {task.batch} if again is None else {task.batch, str(again)}:
                chase = _Chase(registration, controller, batch, task.run, ended, looks_s)
                chase.unmarked = asked
                chase.look(now_s)
                self._chases[chase.key] = chase
                if chase.over:
                    del self._chases[chase.key]

    def look(self, *, now: bool = False) -> None:
        """Remove files that are due, or those of all batches `now`."""
        with self._lock:
            now_s = time.monotonic()
            for key, chase in [*self._chases.items()]:
                if now or any(due_s <= now_s for due_s in chase.due_s):
                    chase.look(now_s)
                if chase.over:
                    del self._chases[key]
