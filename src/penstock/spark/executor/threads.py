"""Functions in threads: some calls at a time, each of which may have a time limit."""

import math
import queue
import threading
import time
from collections.abc import Sequence

from pyspark.sql import Row

from penstock.spark.executor.calls import Outcome, Outcomes, called, timed_out
from penstock.spark.executor.function import UserFunction


class Threads:
    """Calls a function in `function.concurrency` threads.

    Args:
        goes_on: whether records after a failed one are called.
    """

    def __init__(self, *, goes_on: bool) -> None:
        self._goes_on = goes_on

    def calls(self, function: UserFunction, rows: list[Row], order: Sequence[int]) -> Outcomes:
        """Call the function for each record; return outcomes in the order of the records.

        Calls start in `order`. If a failed call ends the task, no more calls start, and only its
        outcome is returned.
        """
        run = _Run(function, rows, order)
        outcomes: dict[int, Outcome] = {}
        try:
            while len(outcomes) < len(rows):
                number, outcome = run.next_outcome()
                if outcome.error is not None and not self._goes_on:
                    return iter([(number, outcome)])
                outcomes[number] = outcome
        finally:
            run.stop()
        return iter(sorted(outcomes.items()))


class _Run:
    """The calls for the records of one Arrow batch.

    A call that takes too long is given up: Python cannot end a thread. Its thread takes no more
    records, and another one takes its place. `_lock` guards the numbers of the next records.

    Args:
        function: the user's function.
        rows: the records.
        order: numbers of the records, in the order in which their calls start.
    """

    def __init__(self, function: UserFunction, rows: list[Row], order: Sequence[int]) -> None:
        self._function = function
        self._rows = rows
        self._lock = threading.Lock()
        self._next = iter(order)
        self._started_s: dict[int, float] = {}
        self._done: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()
        for _ in range(min(function.concurrency, len(rows))):
            self._start_thread()

    def _start_thread(self) -> None:
        threading.Thread(target=self._serve, daemon=True).start()

    def _take(self) -> int | None:
        """Return the number of the next record; None if there is none."""
        with self._lock:
            number = next(self._next, None)
            if number is not None:
                self._started_s[number] = time.perf_counter()
            return number

    def _serve(self) -> None:
        while (number := self._take()) is not None:
            outcome = self._called(number)
            with self._lock:
                given_up = self._started_s.pop(number, None) is None
            if given_up:
                return
            self._done.put((number, outcome))

    def _called(self, number: int) -> Outcome:
        """Call the function for a record; whatever ends the call is an error of the record.

        An exit that ended this thread instead would leave the task waiting for ever.
        """
        start_s = time.perf_counter()
        try:
            return called(self._function, self._rows[number])
        except BaseException as error:
            failed = RuntimeError(f"the call ended with {type(error).__name__}: {error}")
            failed.__cause__ = error
            return Outcome(start_s, 1000 * (time.perf_counter() - start_s), [], failed)

    def next_outcome(self) -> tuple[int, Outcome]:
        """Wait for a call that ends, or that takes too long."""
        while True:
            try:
                return self._done.get(timeout=self._left_s())
            except queue.Empty:
                late = self._give_up()
                if late is not None:
                    return late

    def _left_s(self) -> float | None:
        """Return the time until the oldest call has taken too long; None for any time."""
        limit_s = self._function.timeout_s
        if limit_s is None:
            return None
        with self._lock:
            oldest_s = min(self._started_s.values(), default=time.perf_counter())
        return max(0.0, oldest_s + limit_s - time.perf_counter())

    def _give_up(self) -> tuple[int, Outcome] | None:
        """Give up the oldest call if it has taken too long, and start another thread."""
        limit_s = self._function.timeout_s or math.inf
        now_s = time.perf_counter()
        with self._lock:
            late = [n for n, start_s in self._started_s.items() if now_s - start_s >= limit_s]
            if not late:
                return None
            start_s = self._started_s.pop(late[0])
        self._start_thread()
        error = timed_out(self._function)
        return late[0], Outcome(start_s, 1000 * (now_s - start_s), [], error)

    def stop(self) -> None:
        """Start no more calls."""
        with self._lock:
            self._next = iter(())
