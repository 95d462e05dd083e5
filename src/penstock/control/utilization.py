"""How busy instances were in a batch, and whether that says how fast they are."""

from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64

# A batch tells how busy instances are if they have executed so many records on average, and an
# instance's speed is that of its executor if it has been there for so many batches.
_TELLING = 50
_STAYED = 8
# What counts as full use of an instance, as batches have no load of their own: they end with the
# busiest one, so it should be as busy as the mean.
_EVEN = 0.8


class Utilization:
    """Remembers on which executor instances run, and for how many batches they have.

    Spark gives a task to any executor: what an instance does on another one every time says
    nothing about itself, so all must have stayed for a while.

    Args:
        instances: of the operator.
    """

    def __init__(self, instances: int) -> None:
        self._where: list[tuple[str, int]] = [("", 0)] * instances

    def ran(self, instance: int, executor: str) -> None:
        """Note where an instance was in a batch."""
        before, stayed = self._where[instance]
        self._where[instance] = executor, stayed + 1 if before == executor else 1

    def of_batch(self, busy_ms: Float64, records_per_batch: float) -> list[Feedback]:
        """Return what to tell a policy about each instance; nothing if it would mean nothing.

        Args:
            busy_ms: of each instance that got records.
            records_per_batch: on average.
        """
        mean_ms = float(busy_ms.mean())
        stayed = min(batches for _, batches in self._where[: busy_ms.size]) >= _STAYED
        if mean_ms <= 0 or not stayed or records_per_batch < _TELLING * busy_ms.size:
            return []
        return [
            Feedback(i, utilization=_EVEN * float(ms) / mean_ms) for i, ms in enumerate(busy_ms)
        ]
