"""The base of groupings, which assign records to instances."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.policies.feedback import SyncRequest
from penstock.policies.grouping.greedy import assign
from penstock.policies.kernels import Float64, Int32, Int64
from penstock.policies.learner import Learner
from penstock.policies.validation import float64s, int64_keys


class Routed(NamedTuple):
    """The outcome of routing some records.

    Attributes:
        instances: instance of each record, in the order of the records.
        answerable: whether the instance of the last record may answer after it.
        request: request that the last record carries to its instance.
    """

    instances: Int32
    answerable: bool = False
    request: SyncRequest | None = None


class Grouping(Learner, ABC):
    """Decides for every record which of the operator's instances gets it.

    Your own grouping needs `route` only; to learn, see `Learner`.

    Args:
        instances: number of parallel instances k, >= 1.

    Example:
        >>> class Alternate(Grouping):
        ...     def route(self, keys, now_ms=None):
        ...         return np.asarray(np.abs(keys) % self.instances, dtype=np.int32)
        >>> Alternate(instances=2).route(np.array([1, 2, 3]))
        array([1, 0, 1], dtype=int32)
    """

    family = "grouping"

    def __init__(self, instances: int) -> None:
        super().__init__(instances)

    @abstractmethod
    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Return the instance of each record.

        Called by the simulator, for the next records of a source; by `route_together`, unless a
        grouping overrides that.

        Args:
            keys: keys of the records as int64, in the order of arrival.
            now_ms: time at which each record is routed. Without it all records are routed at time
                0, and the goal is to finish all of them early.
        """

    def route_together(self, keys: npt.ArrayLike) -> Int32:
        """Route records that arrive together, and may be assigned in any order.

        Called by the router on the executor, for each Arrow batch.
        """
        return self.route(keys)

    def begin(self, router: int) -> None:
        """Begin a batch: all instances are idle, and several routers share them.

        Called by the router on the executor, at the start of each task; by the simulator, for each
        source but the first.

        Args:
            router: number of this router; each router starts at another instance.
        """

    def route_until_answer(self, keys: Int64, now_ms: Float64) -> Routed:
        """Route the first records, up to a record whose instance may answer after it.

        An answer may change the routing of the next record, so an engine that delivers answers in
        time routes in such steps. The decisions are those of `route`.

        Called by the simulator only.
        """
        if self._silent():
            return Routed(self.route(keys, now_ms))
        return Routed(self.route(keys[:1], now_ms[:1]), answerable=True)

    def _try(self, keys: Int64) -> None:
        self.route_together(keys)

    @property
    def fan_out(self) -> int:
        """Largest number of instances that records of one key may go to.

        Read by the conformance checks only.
        """
        return self.instances

    @property
    def moves(self) -> int:
        """Number of virtual workers moved between instances. Read by the simulator only."""
        return 0


def checked(keys: npt.ArrayLike, now_ms: npt.ArrayLike | None) -> tuple[Int64, Float64]:
    """Validate the arguments of `route`."""
    array = int64_keys("keys", keys)
    if now_ms is None:
        return array, np.zeros(array.size)
    return array, float64s("now_ms", now_ms, array.size)


_STEPS = np.iinfo(np.uint16).max
# Largest cost of a record that does not matter, as a share of the mean load of an instance.
_NEGLIGIBLE = 0.005


def idle_clocks(instances: int, router: int) -> Float64:
    """Return clocks of idle instances; tiny differences make ties start at the router's number."""
    turns: Float64 = ((np.arange(instances) - router) % instances).astype(np.float64)
    return turns * 1e-9


def resized(array: Float64, length: int, fill: float) -> Float64:
    """Return the first `length` values, filled up with `fill`."""
    longer = np.full(length, fill)
    kept = min(length, array.size)
    longer[:kept] = array[:kept]
    return longer


def longest_first(costs_ms: Float64, clock_ms: Float64, slowdown: Float64) -> Int32:
    """Assign records by decreasing cost, and return their instances in the order of arrival.

    With exact costs the makespan is at most 4/3 - 1/(3k) times the optimum (Graham, 1969). If all
    records are short, the order of arrival is as good: it is at most one record above the mean.

    Args:
        costs_ms: cost of each record on an instance with slowdown 1.
        clock_ms: finish clock of each instance, moved on in place.
        slowdown: slowdown of each instance.
    """
    now = np.zeros(costs_ms.size)
    out = np.empty(costs_ms.size, dtype=np.int32)
    longest_ms = float(costs_ms.max(initial=0.0))
    if longest_ms <= _NEGLIGIBLE * float(costs_ms.sum()) / clock_ms.size:
        assign(costs_ms, now, clock_ms, slowdown, out)
        return out
    # Costs in 65,536 steps are as good as exact ones, and radix sort is ten times as fast.
    shortness = (_STEPS * (1 - costs_ms / longest_ms)).astype(np.uint16)
    order = np.argsort(shortness, kind="stable")
    assigned = np.empty_like(out)
    assign(costs_ms[order], now, clock_ms, slowdown, assigned)
    out[order] = assigned
    return out
