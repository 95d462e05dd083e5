"""The ideal grouping that others are compared with."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.costs import CostModel, Exact
from penstock.policies.feedback import Feedback
from penstock.policies.grouping.base import Grouping, checked, idle_clocks, longest_first, resized
from penstock.policies.grouping.greedy import assign
from penstock.policies.kernels import Int32
from penstock.policies.validation import refuse_other


class FullKnowledge(Grouping):
    r"""The Greedy Online Scheduler with the exact cost of every record.

    Its clocks are the true finish times: $C_i \leftarrow \max(C_i, now) + s_i w_t$.

    Args:
        instances: number of parallel instances k, >= 1.
        costs: exact cost of every key.

    Example:
        >>> costs = Exact(keys=[1, 2], costs_ms=[10.0, 1.0])
        >>> FullKnowledge(instances=2, costs=costs).route([1, 2, 1], [0.0, 1.0, 2.0])
        array([0, 1, 1], dtype=int32)

    References:
        POSG (Rivetti et al., 2015), section V-B; the example is from section II.
    """

    name = "full_knowledge"

    def __init__(self, instances: int, costs: Exact) -> None:
        super().__init__(instances)
        refuse_other("costs", costs, CostModel, ", such as Exact")
        self.costs = costs
        self._clock_ms = np.zeros(self.instances)
        self._slowdown = np.ones(self.instances)

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Give every record to the instance that is free first."""
        array, now = checked(keys, now_ms)
        out = np.empty(array.size, dtype=np.int32)
        assign(self.costs.estimate(array), now, self._clock_ms, self._slowdown, out)
        return out

    def _observe(self, feedback: Feedback) -> None:
        """Learn the true slowdown of an instance."""
        if feedback.slowdown is not None:
            self._slowdown[feedback.instance] = feedback.slowdown

    def route_together(self, keys: npt.ArrayLike) -> Int32:
        """Assign the longest records first."""
        return longest_first(self.costs.estimate(keys), self._clock_ms, self._slowdown)

    def begin(self, router: int) -> None:
        """Set all clocks to idle."""
        self._clock_ms[:] = idle_clocks(self.instances, router)

    def resize(self, instances: int) -> None:
        """Start new instances idle, and forget removed ones."""
        super().resize(instances)
        self._clock_ms = resized(self._clock_ms, instances, 0.0)
        self._slowdown = resized(self._slowdown, instances, 1.0)

    @property
    def knows_truth(self) -> bool:
        """True: it is the ideal for comparisons."""
        return True

    def _state(self) -> Arrays:
        return {"clock_ms": self._clock_ms, "slowdown": self._slowdown}
