r"""Local load estimation: the number of records that one source has sent to each bin.

A source needs no messages to balance: if every source balances its own records, the whole is
balanced (PKG, section III-B). A load is the number of records sent. It counts half after
`half_life` records per bin, because otherwise an endless stream would never adapt. Loads $L$ and
their sum $m$ are halved together, so that comparisons of loads with $m / n$ do not change.
"""

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.grouping.base import Grouping, resized
from penstock.policies.kernels import Int32, Int64
from penstock.policies.validation import int64_keys, whole

# Names of the numbers in `_counted`: sum of the loads, and records left until they are halved.
TOTAL, UNTIL = range(2)
_NEVER = np.iinfo(np.int64).max


class LoadCounting(Grouping):
    """A grouping that decides by the loads that it has caused itself.

    Args:
        instances: number of parallel instances k, >= 1.
        half_life: records per bin after which a load counts half; None for lifetime counts.
        seed: seed that hash functions or choices are drawn with.
    """

    def __init__(self, instances: int, half_life: int | None = 1_000, seed: int = 0) -> None:
        super().__init__(instances)
        self.half_life = (
            None if half_life is None else whole("half_life", half_life, least=1, most=2**31)
        )
        self.seed = whole("seed", seed, least=0)
        self._loads = np.zeros(self.instances, dtype=np.int64)
        self._counted = np.array([0, self._period])

    @abstractmethod
    def _choose(self, keys: Int64, out: Int32, arriving: int) -> None:
        """Choose a bin for each record, and count it; each adds `arriving` to the total."""

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Choose a bin for each record; loads are halved in time."""
        return self._route(int64_keys("keys", keys), together=False)

    def _route(self, keys: Int64, together: bool) -> Int32:
        out = np.empty(keys.size, dtype=np.int32)
        done = 0
        while done < keys.size:
            stop = min(keys.size, done + int(self._counted[UNTIL]))
            if together:
                self._counted[TOTAL] += stop - done
            self._choose(keys[done:stop], out[done:stop], arriving=0 if together else 1)
            self._counted[UNTIL] -= stop - done
            if not self._counted[UNTIL]:
                self._fade()
            done = stop
        return out

    def _fade(self) -> None:
        self._loads >>= 1
        self._counted[:] = self._loads.sum(), self._period

    @property
    def _period(self) -> int:
        return _NEVER if self.half_life is None else self.half_life * self.instances

    @property
    def loads(self) -> Int64:
        """Number of records sent to each bin; old ones are faded."""
        return self._loads.copy()

    def begin(self, router: int) -> None:
        """Set all loads to 0: this router has sent nothing yet."""
        self._loads[:] = 0
        self._counted[:] = 0, self._period

    def resize(self, instances: int) -> None:
        """Start new instances with the mean load: with less they would be flooded."""
        super().resize(instances)
        fill = int(self._loads.mean())
        self._loads = resized(self._loads.astype(np.float64), instances, fill).astype(np.int64)
        self._counted = np.array([self._loads.sum(), self._period])

    def _state(self) -> Arrays:
        return {"loads": self._loads, "counted": self._counted}
