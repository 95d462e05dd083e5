"""Files of kept records that an earlier run of a query has left, or its last tasks still write."""

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from penstock.control import Controller
from penstock.control.newest import trim
from penstock.control.reports import TaskId
from penstock.errors import PenstockError, first_line
from penstock.spark.driver.checkpoint_files import CheckpointFiles
from penstock.spark.driver.registry import Registration
from penstock.spark.driver.streams import Streams

log = logging.getLogger("penstock")

# Spark gives Python two seconds to end a task that was cancelled, and machines may be slow. Files
# are looked for so many seconds after the start of a run.
_LOOKS_S = (1.0, 3.0, 10.0, 30.0)
# Seconds after which a look that failed is repeated, and how often; batches that are remembered.
_RETRY_S = 10.0
_RETRIES = 60
_REMEMBERED = 64


@dataclass
class _Chase:
    """A batch of which earlier runs have left files, or may still write some.

    Attributes:
        registration: the operator, with its folders.
        query: identity of the query.
        batch: number of the batch.
        ended: earlier runs of the query.
        due_s: times of the next looks, in seconds of the monotonic clock.
        left: files that were there before the newest run, by the number of their folder.
        retries: number of times that a look may still fail.
        lock: held while files are removed.
    """

    registration: Registration
    query: str
    batch: str
    ended: set[str]
    due_s: list[float]
    left: set[tuple[int, str]]
    retries: int = _RETRIES
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def key(self) -> tuple[str, str, str]:
        """Batches of one operator, also if its object is new."""
        return self.registration.name, self.query, self.batch

    def look(self, now_s: float) -> None:
        """Remove files, and plan the next look."""
        with self.lock:
            self._look(now_s)

    def _look(self, now_s: float) -> None:
        try:
            for number, folder in enumerate(self.registration.folders):
                late = folder.files_of(self.query, self.batch, self.ended)
                self.left |= {(number, path) for path in late}
                for path in [path for of, path in self.left if of == number]:
                    folder.delete(path)
                    self.left.discard((number, path))
            self.due_s = [due_s for due_s in self.due_s if due_s > now_s]
        except (OSError, PenstockError) as error:
            self.retries -= 1
            log.warning("old files of kept records stay for now: %s", first_line(error))
            self.due_s = [now_s + _RETRY_S, *self.due_s[1:]] if self.retries > 0 else []


class StaleFiles:
    """Removes files of shed and failed records that the newest run of a query did not write.

    A batch that was not committed runs again, in another run, and may keep other records. Names of
    files tell runs apart, so files of the newest run are never removed. Thread safe: `_lock` guards
    the list, and is not held while files are removed.

    Args:
        files: files next to the checkpoints.
        streams: runs of the queries.
    """

    def __init__(self, files: CheckpointFiles, streams: Streams) -> None:
        self._files, self._streams = files, streams
        self._lock = threading.Lock()
        self._chases: OrderedDict[tuple[str, str, str], _Chase] = OrderedDict()
        files.looks.append(self.look)

    def begin(
        self, registration: Registration, controller: Controller, task: TaskId, *, unmarked: bool
    ) -> None:
        """Remove what earlier runs have left, when the first task of a run is heard of.

        Args:
            registration: the operator.
            controller: its controller in the query.
            task: the task.
            unmarked: whether files go as well whose tasks did not know their run.
        """
        query = controller.query
        checkpoint = self._files.checkpoint(registration.spark, query)
        if checkpoint is None or not registration.folders or not task.run:
            return
        again = self._files.batch_to_repeat(registration.spark, controller)
        now_s, ended = time.monotonic(), self._streams.ended_of(query)
        looks_s = [now_s + later_s for later_s in _LOOKS_S] if ended else []
        for batch in {task.batch} if again is None else {task.batch, str(again)}:
            left = set()
            try:
                for number, folder in enumerate(registration.folders):
                    folder.note_query(query, checkpoint)
                    found = folder.files_of_others(query, batch, task.run, unmarked=unmarked)
                    left |= {(number, path) for path in found}
            except (OSError, PenstockError) as error:
                controller.warn("clean", f"old files of kept records stay: {first_line(error)}")
            chase = _Chase(registration, query, batch, ended, looks_s, left)
            chase.look(now_s)
            with self._lock:
                self._chases[chase.key] = chase  # in place of that of an earlier run
                self._forget_ended()

    def _forget_ended(self) -> None:
        """Forget batches without a next look. The caller holds the lock."""
        for key in [key for key, chase in self._chases.items() if not chase.due_s]:
            del self._chases[key]
        trim(self._chases, _REMEMBERED)

    def look(self, *, now: bool = False) -> None:
        """Remove files that are due, or those of all batches `now`."""
        with self._lock:
            now_s, chases = time.monotonic(), [*self._chases.values()]
        for chase in chases:
            if now or any(due_s <= now_s for due_s in chase.due_s):
                chase.look(now_s)
        with self._lock:
            self._forget_ended()
