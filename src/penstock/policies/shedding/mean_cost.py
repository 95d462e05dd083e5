"""Straw-Man: hold the target, with the mean cost for every record."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64
from penstock.policies.shedding.gate import Gate
from penstock.policies.shedding.gated import Gated, checked_target
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import int64_keys, positive

# How far the mean cost of a batch is followed at once.
_FOLLOW = 0.5


class MeanCost(Gated):
    """Sheds as LAS does, but takes every record to cost the mean.

    Given the mean, it is the paper's Straw-Man: nobody tells it how long records really took, so
    its clock walks away from the true one. Without it, the mean is learnt from how long batches
    take, which works in front of operators that cannot be measured record by record.

    Args:
        target: what must hold.
        mean_cost_ms: mean cost of a record, > 0; None to learn it, and shed nothing until then.
        instances: how many instances share the admitted records, >= 1.

    Example:
        >>> from penstock.policies.shedding import each_record
        >>> shedder = MeanCost(target=each_record("5 ms"), mean_cost_ms=4.0)
        >>> shedder.admit([1, 2, 3, 4], [0.0, 0.0, 0.0, 6.0])
        array([ True,  True, False,  True])

    References:
        LAS (Rivetti et al., 2020), section 5.1: "Straw-Man".
    """

    name = "mean_cost"

    def __init__(
        self, target: Target, mean_cost_ms: float | None = None, instances: int = 1
    ) -> None:
        super().__init__(target, instances, Gate(checked_target(target)))
        given = mean_cost_ms is not None
        self.mean_cost_ms = positive("mean_cost_ms", mean_cost_ms) if given else None
        self._mean_ms = np.full(1, self.mean_cost_ms or 0.0)

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the mean for all of them."""
        return np.full(int64_keys("keys", keys).size, float(self._mean_ms[0]))

    def _observe(self, feedback: Feedback) -> None:
        super()._observe(feedback)
        if self.mean_cost_ms is None and feedback.busy_ms and feedback.records:
            seen_ms = feedback.busy_ms * self.instances / feedback.records
            before_ms = float(self._mean_ms[0]) or seen_ms
            self._mean_ms[0] = before_ms + _FOLLOW * (seen_ms - before_ms)

    @property
    def learns(self) -> bool:
        """Whether the mean was not given."""
        return self.mean_cost_ms is None

    @property
    def state(self) -> str:
        """NOP until the mean is known, then RUN."""
        return "RUN" if self._mean_ms[0] else "NOP"

    def _state(self) -> Arrays:
        return {**super()._state(), "mean_ms": self._mean_ms}
