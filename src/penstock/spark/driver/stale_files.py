"""Files of kept records that an earlier run of a query has left, or its last tasks still write."""

import threading
import time
from dataclasses import dataclass

from penstock.control import Controller
from penstock.errors import first_line
from penstock.spark.driver.checkpoint_files import CheckpointFiles
from penstock.spark.driver.registry import Registration

# Spark gives Python two seconds to end a task that was cancelled, and machines may be slow. Files
# are looked for so many seconds after the start of a run.
_LOOKS_S = (1.0, 3.0, 10.0, 30.0)


@dataclass
class _Chase:
    """A batch that may still get files from tasks of earlier runs.

    Attributes:
        registration: the operator, with its folders.
        controller: its controller in the query.
        batch: number of the batch.
        runs: earlier runs of the query.
        due_s: times of the next looks, in seconds of the monotonic clock.
        left: whether files that were there before the newest run could not be removed.
    """

    registration: Registration
    controller: Controller
    batch: str
    runs: set[str]
    due_s: list[float]
    left: bool = True

    def remove(self) -> None:
        """Remove files; keep in mind what could not be removed."""
        query = self.controller.query
        try:
            for folder in self.registration.folders:
                if self.left:
                    folder.remove_other(query, self.batch, self.controller.run)
                folder.remove_of(query, self.batch, self.runs)
            self.left = False
        except OSError as error:
            self.controller.warn("clean", f"old files of kept records stay: {first_line(error)}")


class StaleFiles:
    """Removes files of shed and failed records that the newest run of a query did not write.

    A batch that was not committed runs again, in another run, and may keep other records. Names of
    files differ by run, so files of the newest run are never removed. Thread safe: `_lock` guards
    the list, and is not held while files are removed.

    Args:
        files: files next to the checkpoints.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._chases: list[_Chase] = []

    def begin(
        self,
        registration: Registration,
        controller: Controller,
        batch: str,
        *,
        earlier: str = "",
    ) -> None:
        """Remove what earlier runs have left, when the first task of a run is heard of.

        Args:
            registration: the operator.
            controller: its controller in the query; its run is the newest one.
            batch: batch of that task.
            earlier: run before; empty if this process has seen none.
        """
        checkpoint = self._files.checkpoint(registration.spark, controller.query)
        if checkpoint is None or not registration.folders:
            return
        for folder in registration.folders:
            try:
                folder.note_query(controller.query, checkpoint)
            except OSError as error:
                controller.warn("note", f"kept records cannot be replayed: {first_line(error)}")
        unfinished = self._files.batch_to_repeat(registration.spark, controller)
        repeated = {batch} if unfinished is None else {batch, str(unfinished)}
        now_s, runs = time.monotonic(), {earlier} - {""}
        looks = [now_s + later_s for later_s in _LOOKS_S] if runs else []
        chases = [_Chase(registration, controller, one, runs, looks) for one in sorted(repeated)]
        for one in chases:
            one.remove()
        with self._lock:
            for one in self._chases:
                # A batch that is not repeated was committed by the run before, and keeps its files.
                if one.controller is controller and one.batch in repeated:
                    one.runs = one.runs | runs
            self._chases += [one for one in chases if one.due_s or one.left]

    def look(self, *, now: bool = False) -> None:
        """Remove files that are due, or those of all batches `now`."""
        with self._lock:
            chases, time_s = [*self._chases], time.monotonic()
        for one in chases:
            if now or one.left or one.due_s[0] <= time_s:
                one.remove()
                one.due_s = [due_s for due_s in one.due_s if due_s > time_s]
        with self._lock:
            self._chases = [one for one in self._chases if one.due_s or one.left]
