"""Notices of finished batches: to the callbacks of users, and to the log."""

import inspect
import logging
import queue
import threading
from collections.abc import Callable

from penstock.control.stats import FinishedBatch
from penstock.errors import PenstockError

log = logging.getLogger("penstock")

# One line of JSON a batch. It is off until a user sets a level.
batch_log = logging.getLogger("penstock.batches")
if batch_log.level == logging.NOTSET:
    batch_log.setLevel(logging.CRITICAL + 1)

OnBatch = Callable[[FinishedBatch], object]

# Notices that wait for slow callbacks; more are dropped.
_WAITING = 1_000
# Longest time for which the end of an operator waits for its callbacks.
_PATIENCE_S = 5.0


class Callbacks:
    """The callbacks of one operator.

    A callback that fails is logged once, and is called again for the next batch.

    Args:
        name: name of the operator, for the log.

    Example:
        >>> callbacks = Callbacks("enrich")
        >>> callbacks.add("print")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: on_batch needs a function of one argument; got 'print'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._functions: tuple[OnBatch, ...] = ()
        self._failed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, function: OnBatch) -> None:
        """Add a callback; refuse anything that cannot be called with one argument."""
        if not callable(function) or not _takes_one(function):
            raise PenstockError(f"on_batch needs a function of one argument; got {function!r}")
        self._functions = (*self._functions, function)

    def call(self, batch: FinishedBatch) -> None:
        """Call all callbacks; a failure is logged, and nothing else."""
        for number, function in enumerate(self._functions):
            try:
                function(batch)
            except (Exception, SystemExit):
                if number not in self._failed:
                    self._failed.add(number)
                    log.exception(
                        "%s: a callback of on_batch has failed in batch %s; the query goes on. "
                        "The callback is called again; its next failures are not logged",
                        self.name,
                        batch.batch,
                    )


class Notices:
    """Delivers finished batches on a thread of its own: a slow callback delays no report.

    The thread starts with the first notice that somebody wants. Thread safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: queue.Queue[tuple[Callbacks, FinishedBatch] | threading.Event | None] = (
            queue.Queue(_WAITING)
        )
        self._thread: threading.Thread | None = None
        self._closed = False
        self._dropped = 0

    def publish(self, callbacks: Callbacks, made: Callable[[], FinishedBatch]) -> None:
        """Deliver a batch soon; return at once.

        Args:
            callbacks: callbacks of its operator.
            made: function that returns the batch; it is called only if somebody wants the batch.
        """
        if not callbacks and not batch_log.isEnabledFor(logging.INFO):
            return
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="penstock-notices", daemon=True
                )
                self._thread.start()
        try:
            self._waiting.put_nowait((callbacks, made()))
        except queue.Full:
            self._drop(callbacks.name)

    def drain(self, seconds: float = _PATIENCE_S) -> bool:
        """Wait until all notices so far are delivered; return whether they are."""
        thread = self._thread
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return True
        reached = threading.Event()
        try:
            self._waiting.put(reached, timeout=seconds)
        except queue.Full:
            return False
        return reached.wait(seconds)

    def close(self) -> None:
        """Deliver what waits, within a few seconds, and end the thread."""
        self.drain()
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return  # a callback hangs; the thread ends with the process
            thread.join(timeout=_PATIENCE_S)

    def _drop(self, operator: str) -> None:
        self._dropped += 1
        if self._dropped == 1:
            log.warning(
                "%s: callbacks of on_batch are too slow: %d batches wait, and newer ones are "
                "dropped until there is room",
                operator,
                _WAITING,
            )

    def _run(self) -> None:
        while True:
            notice = self._waiting.get()
            if notice is None:
                return
            if isinstance(notice, threading.Event):
                notice.set()
                continue
            callbacks, batch = notice
            batch_log.info("%s", batch.to_json())
            callbacks.call(batch)


def _takes_one(function: OnBatch) -> bool:
    """Whether a function can be called with one argument, as far as Python knows."""
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    except ValueError:  # a function of C that has no signature
        return True
    return True
