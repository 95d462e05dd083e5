"""The shedder that sheds nothing."""

import numpy as np
import numpy.typing as npt

from penstock.policies.kernels import Bool
from penstock.policies.shedding.base import Shedder, checked


class Never(Shedder):
    """Admits every record, however long it will wait.

    Args:
        instances: number of instances that share the records, >= 1.

    Example:
        >>> Never().admit([1, 2], [0.0, 1.0])
        array([ True,  True])
    """

    name = "never"

    def admit(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Admit all records."""
        records = checked(keys, arrival_ms, now_ms, protected)
        return np.ones(records.keys.size, dtype=np.bool_)
