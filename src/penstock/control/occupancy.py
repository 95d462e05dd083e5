"""The slots on which tasks ran, found from their times, and the executors as numbers."""

import math
import statistics
from collections import OrderedDict
from collections.abc import Callable

from penstock.control.newest import trim


class Occupancy:
    """Finds the slot of each task of a batch, and how long the slot had no record before it.

    An engine does not report slots. A task runs on the slot of its executor that has become free
    last before it started. Tasks are added in the order of their ends.

    Args:
        slots: number of slots of the operator.

    Example:
        >>> occupancy = Occupancy(slots=2)
        >>> occupancy.add("1", started_s=0.0, ended_s=1.0)
        (0, None)
        >>> occupancy.add("1", started_s=0.0, ended_s=2.0)
        (1, None)
        >>> slot, gap_ms = occupancy.add("1", started_s=1.01, ended_s=3.0)
        >>> slot, round(gap_ms)
        (0, 10)
    """

    def __init__(self, slots: int) -> None:
        self._most = slots
        # Executor of each slot, and the end of the last task on it.
        self._slots: list[tuple[str, float]] = []

    def add(self, executor: str, started_s: float, ended_s: float) -> tuple[int, float | None]:
        """Add a task.

        Args:
            executor: executor of the task.
            started_s: time at which its first record started.
            ended_s: time at which its last record ended.

        Returns:
            Number of the slot, and the time (ms) since the task before it on the same slot ended;
            None without one.
        """
        found = self._freed(executor, started_s)
        gap_ms = None
        if found is not None:
            gap_ms = 1000 * (started_s - self._slots[found][1])
            self._slots[found] = executor, ended_s
            return found, gap_ms
        if len(self._slots) < self._most:
            self._slots.append((executor, ended_s))
            return len(self._slots) - 1, None
        # More tasks at a time than slots: executors have come or gone, or clocks have jumped.
        earliest = min(range(self._most), key=lambda slot: self._slots[slot][1])
        self._slots[earliest] = executor, ended_s
        return earliest, None

    def _freed(self, executor: str, started_s: float) -> int | None:
        """Return the slot of an executor that has become free last before a time."""
        found, latest_s = None, float("-inf")
        for slot, (name, end_s) in enumerate(self._slots):
            if name == executor and latest_s < end_s <= started_s:
                found, latest_s = slot, end_s
        return found


class Workers:
    """The executors of an operator as numbers; the one unseen for longest gives its number away.

    Args:
        most: largest number of executors.

    Example:
        >>> workers = Workers(most=2)
        >>> [workers.number(name) for name in ("1", "7", "1", "9")]
        [0, 1, 0, 1]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def number(self, executor: str) -> int:
        """Return the number of an executor."""
        if executor not in self._numbers:
            trim(self._numbers, self._most - 1)
            taken = set(self._numbers.values())
            self._numbers[executor] = next(i for i in range(self._most) if i not in taken)
        self._numbers.move_to_end(executor)
        return self._numbers[executor]

    def slowdowns(self, of_worker: Callable[[int], float]) -> dict[str, float]:
        """Return the slowdown of each executor over the median one; empty if none is learnt.

        Args:
            of_worker: function that returns the slowdown of a number, NaN if it is unknown.
        """
        found = {name: of_worker(number) for name, number in self._numbers.items()}
        known = {name: slowdown for name, slowdown in found.items() if not math.isnan(slowdown)}
        middle = statistics.median_low(known.values()) if known else 1.0
        return {name: slowdown / middle for name, slowdown in sorted(known.items())}
