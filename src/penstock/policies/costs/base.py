"""The cost model: what will a record with this key cost?"""

from abc import ABC, abstractmethod
from typing import Self

import numpy.typing as npt

from penstock.policies.base import Policy
from penstock.policies.kernels import Float64


class CostModel(Policy, ABC):
    """Learns costs (milliseconds of execution) by key, in bounded memory.

    Models of the same parameters can be merged, and forget by `decay`, so that one instance's
    measurements can be sent to another place and old ones fade.
    """

    family = "cost model"

    @abstractmethod
    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Learn from executed records: their keys and what each of them cost."""

    @abstractmethod
    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Estimated cost of a record of each key; the mean where the key is not known."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Learn all that another model of the same kind has learnt."""

    @abstractmethod
    def decay(self, factor: float) -> None:
        """Let what has been learnt count `factor` times as much, 0 < factor <= 1."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything, in memory of its own: what was handed out stays as it is."""

    def hand_over(self) -> Self:
        """Return all that was learnt as a model of its own, and start anew."""
        learnt = object.__new__(type(self))  # `copy.copy` takes ten times as long
        learnt.__dict__.update(self.__dict__)
        self.clear()
        return learnt

    @property
    def message_bytes(self) -> int:
        """Bytes that have to be sent for another place to merge this model."""
        return self.memory_bytes
