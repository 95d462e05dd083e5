"""Key grouping by hashing."""

import numpy as np
import numpy.typing as npt

from penstock.policies.grouping.base import Grouping
from penstock.policies.hashing import HashFamily, hash_into
from penstock.policies.kernels import Int32
from penstock.policies.validation import int64_keys, whole


class KeyHash(Grouping):
    r"""Key grouping: all records of a key go to one instance.

    The instance is $h(t)$, with a hash function drawn by the seed.

    It keeps the state of a key in one place, and puts all the load of a hot key there.

    Args:
        instances: number of parallel instances k, >= 1.
        seed: seed that the hash function is drawn with.

    Example:
        >>> a, b = KeyHash(instances=10).route([42, 42])
        >>> bool(a == b)
        True

    References:
        Consistent Grouping (Nasir et al., 2016), section II: key grouping.
    """

    name = "key_hash"

    def __init__(self, instances: int, seed: int = 0) -> None:
        super().__init__(instances)
        self.seed = whole("seed", seed, least=0)
        self._coefficients = HashFamily(1, 1, self.seed).coefficients[0]

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Hash every key."""
        array = int64_keys("keys", keys)
        out = np.empty(array.size, dtype=np.int32)
        hash_into(array, self._coefficients, self.instances, out)
        return out

    @property
    def fan_out(self) -> int:
        """One instance for each key."""
        return 1

    @property
    def order_matters(self) -> bool:
        """The instance of a record depends on its key only."""
        return False
