"""The grouping: which instance gets which record."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.policies.base import Policy
from penstock.policies.feedback import Feedback, SyncRequest, Tracker
from penstock.policies.kernels import Float64, Int32, Int64
from penstock.policies.validation import float64s, int64_keys, whole


class Routed(NamedTuple):
    """The outcome of routing some records.

    Attributes:
        instances: where they go, in their order.
        answerable: whether the last one may be answered by its instance.
        request: what the last one carries to its instance.
    """

    instances: Int32
    answerable: bool = False
    request: SyncRequest | None = None


class Grouping(Policy, ABC):
    """Decides for every record which of the operator's instances gets it.

    A grouping of your own needs `route` only. If it wants to hear from the instances, it hands
    out a `tracker` for each of them, and gets their messages in `observe`.

    Args:
        instances: number of parallel instances k, >= 1.

    Example:
        >>> class Alternate(Grouping):
        ...     def route(self, keys, now_ms=None):
        ...         return np.asarray(np.abs(keys) % self.instances, dtype=np.int32)
        >>> Alternate(instances=2).route(np.array([1, 2, 3]))
        array([1, 0, 1], dtype=int32)
    """

    def __init__(self, instances: int) -> None:
        self.instances = whole("instances", instances, least=1)

    @abstractmethod
    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Return the instance of each record.

        Args:
            keys: the records' keys as int64, in the order of arrival.
            now_ms: when each record is routed. Without it all are routed at time 0: what counts
                then is the time until all of them are done.
        """

    def route_until_answer(self, keys: Int64, now_ms: Float64) -> Routed:
        """Route the first records: up to one whose execution may be answered by its instance.

        What an instance answers may change the routing of the next record, so an engine that
        delivers answers in time routes in such steps. The decisions are those of `route`.
        """
        if self.tracker(0) is None:
            return Routed(self.route(keys, now_ms))
        return Routed(self.route(keys[:1], now_ms[:1]), answerable=True)

    def tracker(self, instance: int) -> Tracker | None:
        """Return the part that lives at an instance; None if nothing needs to be measured."""
        return None

    def observe(self, feedback: Feedback) -> None:
        """Take a message of an instance; one of an instance that has been removed is dropped."""
        if feedback.instance < self.instances:
            self._observe(feedback)

    def _observe(self, feedback: Feedback) -> None:
        """Learn from a message of an instance; nothing by default."""

    def resize(self, instances: int) -> None:
        """Go on with another number of instances."""
        self.instances = whole("instances", instances, least=1)

    @property
    def fan_out(self) -> int:
        """On how many instances at most the records of one key may end."""
        return self.instances

    @property
    def state(self) -> str:
        """The state the grouping is in, for plots and journals."""
        return "RUN"

    @property
    def knows_truth(self) -> bool:
        """Whether an engine should tell true slowdowns: for yardsticks only."""
        return False


def checked(keys: npt.ArrayLike, now_ms: npt.ArrayLike | None) -> tuple[Int64, Float64]:
    """Validate the arguments of `route`."""
    array = int64_keys("keys", keys)
    if now_ms is None:
        return array, np.zeros(array.size)
    return array, float64s("now_ms", now_ms, array.size)


def resized(array: Float64, length: int, fill: float) -> Float64:
    """Return the first `length` values, filled up with `fill`."""
    longer = np.full(length, fill)
    kept = min(length, array.size)
    longer[:kept] = array[:kept]
    return longer
