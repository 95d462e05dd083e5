"""Straw-Man: holds the target with the mean cost for every record."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.target_shedder import TargetShedder, checked_target
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import int64_keys, positive

# Weight of a batch after one more batch.
_FADE = 0.7


class MeanCost(TargetShedder):
    """Sheds as LAS does, but expects every record to cost the mean.

    With a given mean, it is the paper's Straw-Man: no measurement corrects it, so its clock drifts
    away from the true one. Otherwise it learns the mean from the duration of batches. This works in
    front of operators that cannot be measured record by record.

    Args:
        target: limit of the waiting time.
        mean_cost_ms: mean cost of a record, > 0; None to learn it, and shed nothing until then.
        instances: number of instances that share the admitted records, >= 1.

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
        super().__init__(target, instances, Admission(checked_target(target)))
        given = mean_cost_ms is not None
        self.mean_cost_ms = positive("mean_cost_ms", mean_cost_ms) if given else None
        # Busy time and number of records of the last batches; older ones fade away.
        self._sums = np.array([self.mean_cost_ms or 0.0, 1.0 if given else 0.0])

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the mean cost for every key."""
        busy_ms, records = self._sums
        mean_ms = float(busy_ms / records) if records else 0.0
        return np.full(int64_keys("keys", keys).size, mean_ms)

    def _observe(self, feedback: Feedback) -> None:
        super()._observe(feedback)
        if self.mean_cost_ms is None and feedback.busy_ms and feedback.records:
            self._sums *= _FADE
            self._sums += (feedback.busy_ms * self.instances, feedback.records)

    @property
    def learns(self) -> bool:
        """Whether the mean was not given."""
        return self.mean_cost_ms is None

    @property
    def running(self) -> bool:
        """Whether the mean is known, so that it sheds."""
        return bool(self._sums[1])

    def _state(self) -> Arrays:
        return {**super()._state(), "sums of costs": self._sums}
