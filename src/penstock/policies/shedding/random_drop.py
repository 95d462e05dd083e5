"""Base Line: drops a share of the records at random."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.hashing import mix, word_of
from penstock.policies.kernels import Bool, Int64, kernel
from penstock.policies.shedding.base import Shedder, refuse_wrong_start, untimed
from penstock.policies.validation import between, whole

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class RandomDrop(Shedder):
    """Sheds a given share of the records at random, whatever they cost and however long they wait.

    The share must be given: it does not measure by how much the operator is under-provisioned.

    Args:
        ratio: share of records that is shed, in [0, 1].
        instances: number of instances that share the other records, >= 1.
        seed: seed of the draws, >= 0.

    Example:
        >>> bool(RandomDrop(ratio=0.25).admit(range(1000), np.zeros(1000)).mean() > 0.7)
        True

    References:
        LAS (Rivetti et al., 2020), section 5.1: "Base Line".
    """

    name = "random_drop"
    blind = True

    def __init__(self, ratio: float, instances: int = 1, seed: int = 0) -> None:
        super().__init__(instances)
        self.ratio = between("ratio", ratio, 0, 1, closed="low high")
        self.seed = whole("seed", seed, least=0)
        self._offered = np.zeros(1, dtype=np.int64)

    def admit(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Draw for each record."""
        records = untimed(keys, arrival_ms, now_ms, protected)
        out = np.empty(records.keys.size, dtype=np.bool_)
        _draw(self.ratio, word_of(self.seed), records.protected, self._offered, out)
        return out

    def begin(self, now_ms: float, share: float = 1.0) -> None:
        """Begin a batch, with other draws than in the previous one."""
        refuse_wrong_start(now_ms, share)
        self._offered[0] = (int(now_ms) * 1_000_003 + int(share * 1e6)) % 2**62

    def _state(self) -> Arrays:
        return {"offered": self._offered}


@kernel
def _draw(ratio: float, seed: np.uint64, protected: Bool, offered: Int64, out: Bool) -> None:
    for i in range(out.size):
        offered[0] += 1
        bits = mix(offered[0], (seed + np.uint64(1)) * _SPREAD)
        uniform = float(bits >> np.uint64(11)) / 2.0**53
        out[i] = uniform >= ratio or (protected.size > 0 and protected[i])
