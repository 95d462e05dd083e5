"""Shuffle grouping, the default of stream processors."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.grouping.base import Grouping
from penstock.policies.kernels import Int32
from penstock.policies.validation import int64_keys


class RoundRobin(Grouping):
    r"""Shuffle grouping: instances in turn.

    Record $i$ goes to $i \bmod k$.

    Every instance gets the same number of records, which balances the load if all records cost
    the same and all instances are equally fast. It is the baseline of POSG.

    Args:
        instances: number of parallel instances k, >= 1.

    Example:
        >>> RoundRobin(instances=3).route([9, 9, 9, 9])
        array([0, 1, 2, 0], dtype=int32)

    References:
        POSG (Rivetti et al., 2015), section I; Apache Storm's shuffle grouping.
    """

    name = "round_robin"

    def __init__(self, instances: int) -> None:
        super().__init__(instances)
        self._turn = np.zeros(1, dtype=np.int64)

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Continue after the last instance of the previous call."""
        count = int64_keys("keys", keys).size
        start = int(self._turn[0]) % self.instances
        self._turn[0] = (start + count) % self.instances
        turns = -(-(start + count) // self.instances)
        return np.tile(np.arange(self.instances, dtype=np.int32), turns)[start : start + count]

    def begin(self, router: int) -> None:
        """Start at the instance with the number of this router."""
        self._turn[0] = router % self.instances

    def _state(self) -> Arrays:
        return {"turn": self._turn}
