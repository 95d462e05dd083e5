"""Reactive scaling: one more instance when busy, one less when idle."""

from penstock.policies.scaling.base import History, Observed, Scaler, Topology
from penstock.policies.validation import between


class Threshold(Scaler):
    r"""Adds an instance if utilization exceeds a threshold, and removes one below another.

    $$u = \frac{processed \cdot cost}{degree \cdot period}, \qquad
      degree \leftarrow degree + 1 \text{ if } u > high, \quad degree - 1 \text{ if } u < low$$

    It knows the last period only. So it is late on a step, by one period for each missing instance.

    Args:
        low: utilization below which an instance is removed, in [0, 1).
        high: utilization above which an instance is added, in (0, 1).
        min_degree: least number of instances of an operator, >= 1.
        max_degree: largest number of instances of an operator.
        min_executors: least number of executors of an application, >= 1.
        max_executors: largest number of executors of an application; None for the number at the
            time it is attached.

    Example:
        >>> Threshold(low=0.3, high=0.8).high
        0.8
    """

    name = "threshold"

    def __init__(
        self,
        low: float = 0.3,
        high: float = 0.8,
        min_degree: int = 1,
        max_degree: int = 8,
        min_executors: int = 1,
        max_executors: int | None = None,
    ) -> None:
        super().__init__(min_degree, max_degree, min_executors, max_executors)
        self.high = between("high", high, 0, 1)
        self.low = between("low", low, 0, self.high, closed="low")

    def wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Change by one instance at most."""
        return {
            name: self._one(history.operators[name], history.period_s) for name in topology.parents
        }

    def _one(self, seen: Observed, period_s: float) -> tuple[int, str]:
        last = seen.last(1)
        processed = float(last.processed[-1])
        busy_s = processed * last.mean_cost_ms / 1000 if processed else 0.0
        used = busy_s / (seen.degree * period_s)
        if used > self.high:
            return seen.degree + 1, f"busy for {used:.0%} of the time"
        if used < self.low and seen.pending <= seen.degree:
            return seen.degree - 1, f"busy for {used:.0%} of the time only"
        return seen.degree, ""
