"""The power of two choices."""

import numpy as np

from penstock.policies.codec import Arrays
from penstock.policies.grouping.loads import TOTAL, LoadCounting
from penstock.policies.grouping.slots import salt_of
from penstock.policies.hashing import mix
from penstock.policies.kernels import Int32, Int64, kernel


class TwoChoices(LoadCounting):
    r"""The power of two choices (PoTC): of two random instances, the one with less load.

    The choices are drawn for every record, independent of its key. The imbalance is
    $O(\ln \ln n)$ records for any stream, and a frequent key goes to all instances.

    Args:
        instances: number of parallel instances k, >= 1.
        half_life: records per instance after which a load counts half; None for lifetime counts.
        seed: seed that the choices are drawn with.

    Example:
        >>> TwoChoices(instances=2).route([7, 7, 7, 7]).tolist().count(0)
        2

    References:
        Y. Azar et al., "Balanced allocations", SIAM J. Comput. 1999; Consistent Grouping (Nasir
        et al., 2016), section VI-A and Lemma 6.2.

    Deviations:
        A record's two instances always differ, if there are two.
    """

    name = "potc"

    def __init__(self, instances: int, half_life: int | None = 1_000, seed: int = 0) -> None:
        super().__init__(instances, half_life, seed)
        self._salt = salt_of(self.seed)
        self._drawn = np.zeros(1, dtype=np.int64)

    def _choose(self, keys: Int64, out: Int32, arriving: int) -> None:
        """Draw two instances for every record, and compare the loads."""
        _choose(self._drawn, self._salt, self._loads, out)
        self._counted[TOTAL] += arriving * keys.size

    def begin(self, router: int) -> None:
        """Set all loads to 0; each router draws choices of its own."""
        super().begin(router)
        self._drawn[0] = router << 40

    def _state(self) -> Arrays:
        return super()._state() | {"drawn": self._drawn}


@kernel
def _choose(drawn: Int64, salt: np.uint64, loads: Int64, out: Int32) -> None:
    bins = np.uint64(loads.size)
    for i in range(out.size):
        mixed = mix(drawn[0] + i, salt)
        first = ((mixed >> np.uint64(32)) * bins) >> np.uint64(32)
        second = first
        if bins > 1:
            apart = ((mixed & np.uint64(0xFFFFFFFF)) * (bins - np.uint64(1))) >> np.uint64(32)
            second = first + np.uint64(1) + apart
            second = second - bins if second >= bins else second
        chosen = first if loads[first] <= loads[second] else second
        loads[chosen] += 1
        out[i] = chosen
    drawn[0] += out.size
