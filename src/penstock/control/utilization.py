"""The utilization of instances in a batch, where it follows from their speed."""

from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64

# A batch with so many records per instance shows how busy instances are. After so many batches on
# one executor, an instance has the speed of that executor.
_TELLING = 50
_STAYED = 8
# Utilization of an instance that is as busy as the mean. A batch has no load of its own: it ends
# with its busiest instance.
_EVEN = 0.8


class Utilization:
    """Remembers the executor of each instance, and for how many batches it has stayed there.

    Spark gives a task to any executor. The busy time of an instance that changes its executor shows
    nothing about the instance, so all instances must have stayed for a while.

    Args:
        instances: number of instances of the operator.
    """

    def __init__(self, instances: int) -> None:
        self._where: list[tuple[str, int]] = [("", 0)] * instances

    def ran(self, instance: int, executor: str) -> None:
        """Note the executor of an instance in a batch."""
        before, stayed = self._where[instance]
        self._where[instance] = executor, stayed + 1 if before == executor else 1

    def of_batch(self, busy_ms: Float64, records_per_batch: float) -> list[Feedback]:
        """Return a message about each instance; none if utilizations mean nothing.

        Args:
            busy_ms: busy time of each instance that got records.
            records_per_batch: mean number of records in a batch.
        """
        mean_ms = float(busy_ms.mean())
        stayed = min(batches for _, batches in self._where[: busy_ms.size]) >= _STAYED
        if mean_ms <= 0 or not stayed or records_per_batch < _TELLING * busy_ms.size:
            return []
        return [
            Feedback(i, utilization=_EVEN * float(ms) / mean_ms) for i, ms in enumerate(busy_ms)
        ]
