"""Exact costs, for policies that know everything."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs.base import CostModel
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import between, int64_keys, non_negatives


class Exact(CostModel):
    r"""The true cost of every key, given beforehand.

    What it is told later (`update`, `merge`) replaces what it knew. It never forgets, and its
    memory is that of all keys: it is the yardstick, not a model to run with.

    Args:
        keys: all keys, each once.
        costs_ms: their costs.

    Example:
        >>> Exact(keys=[5, 3], costs_ms=[50.0, 30.0]).estimate([3, 5, 3])
        array([30., 50., 30.])

    References:
        POSG (Rivetti et al., 2015), section V-B: what Full Knowledge is fed with.
    """

    name = "exact"

    def __init__(
        self, keys: Sequence[int] | npt.ArrayLike, costs_ms: Sequence[float] | npt.ArrayLike
    ) -> None:
        self.keys = keys
        self.costs_ms = costs_ms
        self._keys: Int64
        self._costs: Float64
        self.clear()

    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Replace the costs of these keys; of several costs of a key the last one counts."""
        array = int64_keys("keys", keys)
        costs = non_negatives("costs_ms", costs_ms, array.size)
        together = np.concatenate([array[::-1], self._keys])
        self._keys, first = np.unique(together, return_index=True)
        self._costs = np.concatenate([costs[::-1], self._costs])[first]

    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Return the costs; a key that was never told is an error."""
        array = int64_keys("keys", keys)
        if not array.size:
            return np.empty(0)
        where = np.minimum(np.searchsorted(self._keys, array), self._keys.size - 1)
        unknown = self._keys[where] != array
        if unknown.any():
            raise PenstockError(f"keys must be known to Exact; got {array[np.argmax(unknown)]}")
        return self._costs[where]

    def merge(self, other: "Exact") -> None:
        """Take over what the other knows."""
        self.update(other._keys, other._costs)

    def decay(self, factor: float) -> None:
        """Do nothing: what is exact does not fade."""
        between("factor", factor, 0, 1, closed="high")

    def clear(self) -> None:
        """Go back to what was given in the beginning."""
        self._keys = np.empty(0, dtype=np.int64)
        self._costs = np.empty(0)
        if np.size(self.keys) == 0:
            raise PenstockError("keys must not be empty; got []")
        self.update(self.keys, self.costs_ms)

    def _state(self) -> Arrays:
        return {"keys": self._keys, "costs_ms": self._costs}

    def _refuse_mismatch(self, expected: Arrays, state: Arrays) -> None:
        """Any number of keys fits."""

    def _load(self, state: Arrays) -> None:
        self._keys, self._costs = state["keys"], state["costs_ms"]
