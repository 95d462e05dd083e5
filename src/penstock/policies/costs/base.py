"""The base of cost models."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import numpy.typing as npt

from penstock.policies.base import Policy
from penstock.policies.kernels import Float64


class HotKey(NamedTuple):
    """A key that takes much time.

    Attributes:
        key: hash of the key.
        share: share of the time of all measured records, from 0 to 1.
        cost_ms: expected cost of a record of the key.
    """

    key: int
    share: float
    cost_ms: float


class CostModel(Policy, ABC):
    """Learns costs (milliseconds of execution) by key, in bounded memory.

    Models with the same parameters can be merged, so that measurements of several instances can be
    joined. Old measurements fade by `decay`.
    """

    family = "cost model"

    @abstractmethod
    def update(self, keys: npt.ArrayLike, costs_ms: npt.ArrayLike) -> None:
        """Learn from executed records.

        Called by trackers on the executor, for each Arrow batch.

        Args:
            keys: keys of the records.
            costs_ms: cost of each record.
        """

    @abstractmethod
    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Return the estimated cost of a record of each key; a mean for unknown keys.

        Called by groupings and shedders on the executor, for each Arrow batch; by policies on the
        driver, for each report.
        """

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Learn everything that another model of the same kind has learnt.

        Called on the executor at the end of a task, to send its measurements as one model; by
        policies on the driver that keep a model.
        """

    @abstractmethod
    def decay(self, factor: float) -> None:
        """Multiply the weight of everything learnt by `factor`, 0 < factor <= 1.

        Called by the conformance checks only; the pooled costs of policies age in their kernel.
        """

    @abstractmethod
    def clear(self) -> None:
        """Forget everything in new memory: models that were handed over stay as they are.

        Called by `hand_over`, and by policies that replace their model.
        """

    def hand_over(self) -> Self:
        """Return everything learnt as a model of its own, and start again.

        Called by trackers on the executor, for each message with costs.
        """
        learnt = object.__new__(type(self))  # `copy.copy` takes ten times as long
        learnt.__dict__.update(self.__dict__)
        self.clear()
        return learnt

    @property
    def message_bytes(self) -> int:
        """Size of this model in a message. Read by the simulator only."""
        return self.memory_bytes
