"""Moves of key groups that are under way: hinted to Spark until a task has run there."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.control.keygroups import KeyGroup
from penstock.spark import internals
from penstock.spark.internals import Executor, StateOperator

# Batches within which a move must be confirmed.
_BATCHES = 6


@dataclass
class Pending:
    """A move that has not been confirmed.

    Attributes:
        executor: target of the key group.
        batches: number of batches that have ended since the plan.
    """

    executor: str
    batches: int = 0


class Moves:
    """The moves of one plan. Thread safe: the loop and the query's own thread both use it.

    Spark runs a state partition on the executor of a hint, and loads its state from the
    checkpoint. Hints that are given while a batch runs race with its tasks, so each is repeated
    until it holds.

    Args:
        spark: session of the query.
        run: identity of the query's run.
        done: function called when no move is left: all are confirmed or given up.
        failed: function called with a reason for each move that is given up.
    """

    def __init__(
        self,
        spark: SparkSession,
        run: str,
        *,
        done: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self.confirmed = 0
        self.given_up = 0
        self._spark = spark
        self._run = run
        self._done = done
        self._failed = failed
        self._lock = threading.Lock()
        self._pending: dict[KeyGroup, Pending] = {}
        self._executors: Mapping[str, Executor] = {}

    @property
    def under_way(self) -> bool:
        """Whether moves are neither confirmed nor given up."""
        return bool(self._pending)

    def targets(self) -> list[str]:
        """Return the executors to which key groups are moving."""
        with self._lock:
            return [one.executor for one in self._pending.values()]

    def pending(self) -> dict[KeyGroup, str]:
        """Return the targets of the key groups that are moving."""
        with self._lock:
            return {group: one.executor for group, one in self._pending.items()}

    def begin(self, moves: Mapping[KeyGroup, str], executors: Mapping[str, Executor]) -> None:
        """Begin the moves of a plan.

        Args:
            moves: target of each key group.
            executors: live executors.
        """
        with self._lock:
            self._executors = executors
            self._pending = {group: Pending(target) for group, target in moves.items()}

    def confirm(self, where: Mapping[KeyGroup, str]) -> None:
        """Compare the moves with the executors on which key groups ran in a batch."""
        with self._lock:
            if not self._pending:
                return
            for group, pending in list(self._pending.items()):
                pending.batches += 1
                if where.get(group) == pending.executor:
                    del self._pending[group]
                    self.confirmed += 1
                elif pending.batches >= _BATCHES:
                    self._give_up(group, f"has not reached executor {pending.executor}")
            if not self._pending:
                self._done()

    def give_up_to(self, marked: frozenset[str]) -> None:
        """Give up the moves to executors that are to be removed."""
        with self._lock:
            for group, pending in list(self._pending.items()):
                if pending.executor in marked:
                    self._give_up(group, f"stays: executor {pending.executor} is to be removed")

    def hint(self, operators: Mapping[int, StateOperator]) -> None:
        """Give Spark the hints of all moves; give up those whose executor is gone.

        Args:
            operators: stateful operators by number.
        """
        with self._lock:
            if not self._pending:
                return
            alive = set(internals.executors(self._spark))
            for (number, partition), pending in list(self._pending.items()):
                executor = self._executors.get(pending.executor)
                if pending.executor not in alive or executor is None:
                    # Spark would wait for this executor before it takes another one.
                    self._give_up(
                        (number, partition), f"stays: executor {pending.executor} is gone"
                    )
                    continue
                internals.hint_location(
                    self._spark,
                    self._run,
                    operators[number],
                    partition=partition,
                    executor=pending.executor,
                    host=executor.host,
                )
            if not self._pending:
                self._done()

    def _give_up(self, group: KeyGroup, why: str) -> None:
        """Forget a move. The caller holds the lock."""
        del self._pending[group]
        self.given_up += 1
        self._failed(f"key group {group} {why}")
