"""Straw-Man: hold the target, with the mean cost for every record."""

import numpy as np
import numpy.typing as npt

from penstock.policies.kernels import Float64
from penstock.policies.shedding.gate import Gate
from penstock.policies.shedding.gated import Gated, checked_target
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import int64_keys, positive


class MeanCost(Gated):
    """Sheds as LAS does, but takes every record to cost the mean.

    Nobody tells it how long records really took, so its clock walks away from the true one.

    Args:
        target: what must hold.
        mean_cost_ms: mean cost of a record, > 0.
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

    def __init__(self, target: Target, mean_cost_ms: float, instances: int = 1) -> None:
        super().__init__(target, instances, Gate(checked_target(target)))
        self.mean_cost_ms = positive("mean_cost_ms", mean_cost_ms)

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the mean for all of them."""
        return np.full(int64_keys("keys", keys).size, self.mean_cost_ms)
