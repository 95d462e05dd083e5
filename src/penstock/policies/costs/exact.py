"""Exact costs, for ideal policies of comparisons."""

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

    Later costs (`update`, `merge`) replace earlier ones. It never forgets, and holds all keys in
    memory: it is for comparisons, not for production.

    Args:
        keys: all keys, each once.
        costs_ms: cost of each key.

    Example:
        >>> Exact(keys=[5, 3], costs_ms=[50.0, 30.0]).estimate([3, 5, 3])
        array([30., 50., 30.])

    References:
        POSG (Rivetti et al., 2015), section V-B: the input of Full Knowledge.
    """

    name = "exact"

    def __init__(
        self, keys: Sequence[int] | npt.ArrayLike, costs_ms: Sequence[float] | npt.ArrayLike
    ) -> None:
        self.keys = keys
        self.costs_ms = costs_ms
        given = int64_keys("keys", keys)
        if np.unique(given).size < given.size:
            distinct, counts = np.unique(given, return_counts=True)
            raise PenstockError(
                f"keys must be different; got {distinct[np.argmax(counts)]} more than once"
            )
        self._keys: Int64
        self._costs: Float64
        self.clear()

    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Replace the costs of these keys; the last of several costs of a key counts."""
        array = int64_keys("keys", keys)
        costs = non_negatives("costs_ms", costs_ms, array.size)
        together = np.concatenate([array[::-1], self._keys])
        self._keys, first = np.unique(together, return_index=True)
        self._costs = np.concatenate([costs[::-1], self._costs])[first]

    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Return the costs; an unknown key is an error."""
        array = int64_keys("keys", keys)
        if not array.size:
            return np.empty(0)
        where = np.minimum(np.searchsorted(self._keys, array), self._keys.size - 1)
        unknown = self._keys[where] != array
        if unknown.any():
            raise PenstockError(f"keys must be known to Exact; got {array[np.argmax(unknown)]}")
        return self._costs[where]

    def merge(self, other: "Exact") -> None:
        """Take over the costs of another model."""
        if not isinstance(other, Exact):
            raise PenstockError(f"only exact costs can be merged; got {other!r}")
        self.update(other._keys, other._costs)

    def decay(self, factor: float) -> None:
        """Do nothing: exact costs do not fade."""
        between("factor", factor, 0, 1, closed="high")

    def clear(self) -> None:
        """Go back to the costs that were given in the beginning."""
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
