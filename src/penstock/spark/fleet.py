"""The executors of an application: more of them, or fewer, without disturbing a query."""

import time

from pyspark.sql import SparkSession

from penstock.spark import internals

# How many times its patience an executor may take to be emptied.
_DRAIN = 12


class Fleet:
    """Brings an application to a number of executors.

    More come when the cluster has them. Fewer: those that came last go first, as what they hold of
    a query's state is least, and while they have no task. Who is never found idle goes after a
    while, and Spark runs its tasks again elsewhere.

    Args:
        spark: the session.
        patience_s: how long to wait for an executor to be idle.
    """

    def __init__(self, spark: SparkSession, patience_s: float) -> None:
        self._spark = spark
        self._patience_s = patience_s
        self._aim: int | None = None
        self._since_s = 0.0
        self._leaving: set[str] = set()
        self._known: set[str] = set()

    def executors(self) -> list[str]:
        """Return those that are there to stay, the oldest first."""
        there = internals.executors(self._spark)
        self._leaving &= set(there)
        return [one for one in there if one not in self._leaving]

    def joined(self) -> bool:
        """Whether there are executors that were not there at the last call."""
        there = set(self.executors())
        new = not there <= self._known
        self._known = there
        return new

    def aim(self, total: int) -> bool:
        """Ask for a number of executors; whether the cluster has taken the request."""
        self._aim = total
        self._since_s = time.monotonic()
        return internals.request_executors(self._spark, total)

    def surplus(self) -> list[str]:
        """Return those that are too many: they came last."""
        return [] if self._aim is None else self.executors()[self._aim :]

    @property
    def leaving(self) -> frozenset[str]:
        """Those that are too many, and those that are about to go."""
        return frozenset(self._leaving) | frozenset(self.surplus())

    def approach(self, holders: frozenset[str] = frozenset()) -> list[str]:
        """Remove what is too much, if it can go now; return who goes although it holds state.

        Args:
            holders: who should be emptied first. They get some time for that: the state of who
                does not get empty is loaded elsewhere, from the checkpoint.
        """
        surplus = self.surplus()[::-1]
        waited_s = time.monotonic() - self._since_s
        if not surplus:
            self._since_s = time.monotonic()
            return []
        full = waited_s > _DRAIN * self._patience_s
        going = [one for one in surplus if full or one not in holders]
        if not going:
            return []
        force = waited_s > self._patience_s
        gone = internals.remove_executors(self._spark, going, force)
        self._leaving |= set(gone)
        return [one for one in gone if one in holders]

    @property
    def missing(self) -> int:
        """How many executors the cluster has not given yet."""
        return max(0, (self._aim or 0) - len(self.executors()))
