"""Partial key grouping: two instances for every key."""

import numpy as np

from penstock.policies.grouping.loads import TOTAL, LoadCounting
from penstock.policies.grouping.slots import owners, salt_of, shift_of, start_and_step
from penstock.policies.kernels import Int32, Int64, kernel


class PartialKey(LoadCounting):
    r"""Partial key grouping (PKG): of a key's two instances, the one with less load.

    $$P_t(j) = \arg\min_{i \in \{H_1(j), H_2(j)\}} L_i(t)$$

    The state of a key lives on two instances at most. The imbalance is $O(\ln \ln n)$ records if
    the share of the most frequent key is at most $1 / (5 n)$. Beyond, it grows with that share.

    Args:
        instances: number of parallel instances k, >= 1.
        half_life: records per instance after which a load counts half; None for lifetime counts.
        seed: seed that the hash function is drawn with.

    Example:
        >>> len(set(PartialKey(instances=10).route([7, 7, 7, 7]).tolist()))
        2

    References:
        M. A. U. Nasir et al., "The power of both choices", ICDE 2015; Consistent Grouping
        (Nasir et al., 2016), section VI-A and Lemma 6.1.

    Deviations:
        A key's two instances always differ, if there are two.
    """

    name = "pkg"

    def __init__(self, instances: int, half_life: int | None = 1_000, seed: int = 0) -> None:
        super().__init__(instances, half_life, seed)
        self._salt = salt_of(self.seed)

    def _choose(self, keys: Int64, out: Int32, arriving: int) -> None:
        """Hash every key twice, and compare the loads."""
        _choose(keys, self._salt, owners(self.instances), self._loads, out)
        self._counted[TOTAL] += arriving * keys.size

    @property
    def fan_out(self) -> int:
        """Two instances for each key."""
        return min(2, self.instances)


@kernel
def _choose(keys: Int64, salt: np.uint64, owner: Int32, loads: Int64, out: Int32) -> None:
    shift = shift_of(owner)
    bins = loads.size
    for i in range(keys.size):
        start, step = start_and_step(keys[i], salt)
        first, second = owner[start >> shift], owner[step >> shift]
        if first == second and bins > 1:
            second = (first + 1 + np.int64(step >> np.uint32(1)) % (bins - 1)) % bins
        chosen = first if loads[first] <= loads[second] else second
        loads[chosen] += 1
        out[i] = chosen
