"""Where the routing stage sends a record: to a task that executes it, to a spill task, or nowhere.

This is the whole protocol of shed records. The routing stage writes one number for each record:

- `0 <= number < tasks`: the record is admitted, and this task executes it;
- `tasks <= number < partitions`: the record is shed, and this spill task keeps it;
- `SHED`: the record is shed, and nothing keeps it.

An operator without a spill folder filters `SHED` records out before the shuffle. A shed operator
in front of a query has no shuffle: its own stage drops or spills the records with `SHED`.
"""

from dataclasses import dataclass

from pyspark.sql import Column

SHED = -1

# One task keeps the shed records of so many instances.
_INSTANCES_PER_SPILL_TASK = 8


@dataclass(frozen=True)
class Destinations:
    """The numbers that the routing stage of one operator may write.

    Attributes:
        tasks: number of tasks that execute records.
        spill_tasks: number of tasks behind them that keep shed records.

    Example:
        >>> kept = Destinations.with_spill(tasks=10, instances=10)
        >>> kept.partitions, kept.for_shed(router=0), kept.for_shed(router=3)
        (12, 10, 11)
        >>> kept.executes(9), kept.executes(10)
        (True, False)
        >>> Destinations(tasks=10).for_shed(router=0) == SHED
        True
    """

    tasks: int
    spill_tasks: int = 0

    @classmethod
    def with_spill(cls, tasks: int, instances: int) -> "Destinations":
        """Return the destinations of an operator whose shed records are kept.

        Args:
            tasks: number of tasks that execute records.
            instances: number of instances that run them.
        """
        return cls(tasks, -(-instances // _INSTANCES_PER_SPILL_TASK))

    @property
    def partitions(self) -> int:
        """Number of partitions of the operator's stage."""
        return self.tasks + self.spill_tasks

    def for_shed(self, router: int) -> int:
        """Return the number that a router writes for the records that it sheds."""
        return self.tasks + router % self.spill_tasks if self.spill_tasks else SHED

    def executes(self, partition: int) -> bool:
        """Whether a partition of the operator's stage executes records, and is no spill task."""
        return partition < self.tasks

    def is_shed(self, number: Column) -> Column:
        """Return a condition for the records that are shed."""
        return (number == SHED) | (number >= self.tasks)
