"""Async functions: some calls at a time on the event loop of a Python worker."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

from pyspark.sql import Row

from penstock.spark.executor.calls import Outcome, Outcomes, timed_out
from penstock.spark.executor.function import UserFunction, returned_records

Result = TypeVar("Result")

# Time between two looks at an event loop.
_LOOK_S = 0.1


class Awaiting:
    """Awaits an async function on the event loop of this Python worker.

    The loop lives as long as the worker: connections that the function keeps belong to it.

    Attributes:
        stalled_s: longest time for which a call has kept the loop from running.

    Args:
        goes_on: whether records after a failed one are awaited.
    """

    _runner: ClassVar[asyncio.Runner | None] = None
    # Held while the loop runs: the thread that closes idle objects uses the same loop.
    _lock: ClassVar[threading.RLock] = threading.RLock()

    def __init__(self, *, goes_on: bool) -> None:
        self.stalled_s = 0.0
        self._goes_on = goes_on

    @classmethod
    def runner(cls) -> asyncio.Runner:
        """Return the runner of this worker's event loop."""
        if Awaiting._runner is None:
            Awaiting._runner = asyncio.Runner()
        return Awaiting._runner

    @classmethod
    def run(cls, awaited: Coroutine[Any, Any, Result]) -> Result:
        """Await something on the event loop, as soon as no other thread runs the loop."""
        with Awaiting._lock:
            return cls.runner().run(awaited)

    def calls(self, function: UserFunction, rows: list[Row], order: Sequence[int]) -> Outcomes:
        """Await the function for each record; return outcomes in the order of the records.

        Calls start in `order`, and `function.concurrency` of them are under way at a time. If a
        failed call ends the task, the others are cancelled, and only its outcome is returned.
        """
        outcomes = self.run(self._all(function, rows, order))
        failed = [one for one in outcomes if one[1].error is not None]
        return iter(sorted(outcomes) if self._goes_on or not failed else failed[:1])

    async def _all(
        self, function: UserFunction, rows: list[Row], order: Sequence[int]
    ) -> list[tuple[int, Outcome]]:
        """Await all calls, and notice how long the loop stands still meanwhile."""
        heart = asyncio.create_task(self._beat())
        # The heart must beat once before the first call, or it would not notice its first step.
        await asyncio.sleep(0)
        outcomes: list[tuple[int, Outcome]] = []
        numbers = iter(order)

        async def serve() -> bool:
            """Take the next record again and again; return whether all is well."""
            for number in numbers:
                outcome = await _awaited(function, rows[number])
                outcomes.append((number, outcome))
                if outcome.error is not None and not self._goes_on:
                    return False
            return True

        servers = [asyncio.create_task(serve()) for _ in range(function.concurrency)]
        try:
            for done in asyncio.as_completed(servers):
                if not await done:
                    break
        finally:
            for task in (*servers, heart):
                task.cancel()
            await asyncio.gather(*servers, heart, return_exceptions=True)
        return outcomes

    async def _beat(self) -> None:
        """Look at the clock again and again; a late look means that the loop stood still."""
        due = time.perf_counter() + _LOOK_S
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                now = time.perf_counter()
                self.stalled_s = max(self.stalled_s, now - due)
                due = now + _LOOK_S
        finally:
            self.stalled_s = max(self.stalled_s, time.perf_counter() - due)


async def _awaited(function: UserFunction, row: Row) -> Outcome:
    clock = time.perf_counter
    returned: list[dict[str, Any]] = []
    failed: Exception | None = None
    start = clock()
    try:
        async with asyncio.timeout(function.timeout_s) as limit:
            result = await function.call(function.argument_of(row))
        returned = returned_records(result)
    except TimeoutError as error:
        # The function may have timeouts of its own.
        failed = timed_out(function) if limit.expired() else error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # another record has failed
        failed = RuntimeError("the call was cancelled")
    except Exception as error:
        failed = error
    return Outcome(start, 1000 * (clock() - start), returned, failed)
