"""Objects with a set-up and a tear-down: opened once in a Python worker, and closed at its end.

Spark ends its Python workers without running exit handlers, and kills one that has had no task for
a minute. So objects are closed when they have been idle for a while, and after an error of their
task. They are also closed when another query uses their operator, and on the signals that a worker
gets at shutdown.
"""

import atexit
import contextlib
import logging
import os
import signal
import threading
import time
from asyncio import run_coroutine_threadsafe
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import isclass, iscoroutinefunction
from typing import Any

from penstock.spark.executor.awaiting import Awaiting
from penstock.spark.executor.function import UserFunction, cause
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import attempt_number, task_id

log = logging.getLogger("penstock")

Made = Callable[[], Any]

# Time without a task after which an object is closed, and time between two looks.
_IDLE_S = 30.0
_LOOK_S = 2.0
# Longest time that an async `close` may take while the event loop runs another function.
_CLOSE_S = 10.0


@dataclass(frozen=True)
class Context:
    """Where an object is opened.

    Attributes:
        operator: name of the operator.
        instance: number of the task for which the object is opened.
        batch: number of the micro-batch; name of the SQL execution for a batch job.
        attempt: number of the task's attempt, 0 for the first one.
    """

    operator: str
    instance: int
    batch: str
    attempt: int


class _Opened:
    """An object that is open.

    Attributes:
        owner: identity of its operator.
        key: identity of its query and run.
        target: the object itself.
        uses: number of stages of the running task that use it.
        used_s: time at which it was last used, in seconds of the monotonic clock.
    """

    def __init__(self, owner: str, key: Hashable, target: Any) -> None:  # noqa: ANN401
        self.owner = owner
        self.key = key
        self.target = target
        self.uses = 1
        self.used_s = 0.0


def _idle_since(then_s: float, one: _Opened) -> bool:
    return not one.uses and one.used_s < then_s


class OpenObjects:
    """The open objects of this Python worker.

    Thread safe: `_lock` guards the list. A thread closes objects that have been idle for too long.
    An object may therefore be closed by another thread than the one that opened it.

    Args:
        idle_s: time without a task after which an object is closed.
        look_s: time between two looks at idle objects.
    """

    def __init__(self, idle_s: float = _IDLE_S, look_s: float = _LOOK_S) -> None:
        self._idle_s = idle_s
        self._look_s = look_s
        self._lock = threading.RLock()
        self._open: list[_Opened] = []
        self._closer: threading.Thread | None = None
        self._prepared = False

    @contextlib.contextmanager
    def using(self, owner: str, key: Hashable, made: Made, *, context: Context) -> Iterator[Any]:
        """Lend an object to one task: the open one of this key, or a new one.

        Args:
            owner: identity of the operator; its objects of other keys are closed.
            key: identity of the query and its run.
            made: function that returns the object.
            context: where it is opened.
        """
        one = self._taken(owner, key) or self._opened(owner, key, made, context=context)
        try:
            yield one.target
        except BaseException:
            # Spark ends a worker whose task has failed.
            self._close(lambda other: other is one)
            raise
        with self._lock:
            one.uses -= 1
            one.used_s = time.monotonic()
        self._watch()

    def close_all(self) -> None:
        """Close all objects."""
        self._close(lambda one: True)

    def _taken(self, owner: str, key: Hashable) -> _Opened | None:
        """Return the open object of a key, which a task uses from now on; None without one."""
        self._close(lambda one: one.owner == owner and one.key != key and not one.uses)
        with self._lock:
            for one in self._open:
                if one.key == key:
                    one.uses += 1
                    return one
        return None

    def _opened(self, owner: str, key: Hashable, made: Made, *, context: Context) -> _Opened:
        self._prepare()
        try:
            target = made()
            if hasattr(target, "open"):
                run_method(target.open, context)
        except Exception as error:
            raise RuntimeError(
                f"penstock: operator {context.operator!r} cannot be opened: {cause(error)}"
            ) from error
        one = _Opened(owner, key, target)
        with self._lock:
            self._open.append(one)
        return one

    def _close(self, chosen: Callable[[_Opened], bool]) -> None:
        """Close some objects; a failure is logged, because their work is done.

        The lock is not held while an object closes.
        """
        with self._lock:
            claimed = [one for one in self._open if chosen(one)]
            self._open = [one for one in self._open if one not in claimed]
        for one in claimed:
            try:
                if hasattr(one.target, "close"):
                    run_method(one.target.close)
            except Exception:
                log.exception("an object cannot be closed")

    def _prepare(self) -> None:
        """Close everything on the signals that end a worker, and at a normal exit."""
        if self._prepared:
            return
        self._prepared = True
        atexit.register(self.close_all)
        if threading.current_thread() is not threading.main_thread():
            return
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._end)

    def _end(self, number: int, _: object) -> None:
        """Close everything, and end this process as the signal would have."""
        self.close_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _watch(self) -> None:
        """Start the thread that closes idle objects, unless it runs."""
        with self._lock:
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_idle, daemon=True)
                self._closer.start()

    def _close_idle(self) -> None:
        while True:
            time.sleep(self._look_s)
            since_s = time.monotonic() - self._idle_s
            self._close(partial(_idle_since, since_s))
            with self._lock:
                if not self._open:
                    self._closer = None
                    return


_objects = OpenObjects()


@contextlib.contextmanager
def opened(spec: OperatorSpec, function: UserFunction, instance: int) -> Iterator[UserFunction]:
    """Return the function that a task calls: that of the open object, if there is one to open.

    Args:
        spec: spec of the operator.
        function: the user's function, class or object.
        instance: number of the task's partition in the plan.
    """
    if not function.opens:
        yield function
        return
    task = task_id(spec, instance)
    query = task.query or task.batch
    context = Context(spec.name, instance, task.batch, attempt_number())
    key = (spec.identity, query, task.run if task.query else "")
    with _objects.using(spec.identity, key, lambda: made(function.call), context=context) as target:
        yield replace(function, call=target)


def made(given: Any) -> Any:  # noqa: ANN401 - a class or an object
    """Return an object of a class, or the object itself."""
    return given() if isclass(given) else given


def run_method(method: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - a user's
    """Call a method, or await it on the event loop of this worker."""
    if not iscoroutinefunction(method):
        method(*arguments)
        return
    loop = Awaiting.runner().get_loop()
    if loop.is_running():
        run_coroutine_threadsafe(method(*arguments), loop).result(_CLOSE_S)
    else:
        Awaiting.run(method(*arguments))
