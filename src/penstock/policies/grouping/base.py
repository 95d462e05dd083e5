"""The base of groupings, which assign records to instances."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.feedback import SyncRequest
from penstock.policies.grouping.greedy import assign
from penstock.policies.kernels import Float64, Int32, Int64, kernel
from penstock.policies.learner import Learner
from penstock.policies.validation import finites, int64_keys, misfit_of


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
    # Number of records that an instance executes at a time, if the grouping plans with it.
    servers: int = 1

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

    def possible_ms(self, keys: npt.ArrayLike) -> Float64 | None:
        """Return how long each record may take; None if that is unknown.

        Called by a task that executes several records at a time, which takes the longest first; by
        the simulator of micro-batches.
        """
        return None

    @property
    def tasks(self) -> int:
        """Number of tasks that records may go to: one for each instance by default.

        A grouping may use more tasks than there are instances. An engine starts the tasks of a
        batch in the order of their numbers, each one on the instance that is free first.
        """
        return self.instances

    def expect(self, records: float) -> None:
        """Note how many records the whole batch is expected to have, if that matters.

        Called by the router on the executor, before `begin`; by the simulator of micro-batches.

        Args:
            records: expected number of records of all routers together; NaN if it is unknown.
        """

    def slowdown_of(self, worker: int) -> float:
        """Return the time that a worker takes for a record over that of an average one.

        Read by the controller on the driver, for stats and journal. NaN if it is not learnt.
        """
        return float("nan")

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
        silent = self._silent()
        count = keys.size if silent else min(1, keys.size)
        instances = self.route(keys[:count], now_ms[:count])
        refuse_misfit(self, instances, most=count, least=count)
        return Routed(instances, answerable=not silent)

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
    return array, finites("now_ms", now_ms, array.size)


def refuse_misfit(grouping: Grouping, found: object, *, most: int, least: int) -> None:
    """Refuse other than an array with a whole number for each record; a user's grouping may err.

    Args:
        grouping: grouping that has returned them.
        found: instances of some records.
        most: number of records.
        least: least number of records that must have been routed.
    """
    misfit = misfit_of(found, "iu", most=most, least=least)
    if misfit:
        raise PenstockError(
            f"{type(grouping).__name__}.route must return an int32 array with one instance for "
            f"each of {misfit}"
        )


def refuse_outside(grouping: Grouping, found: Int32, *, most: int, least: int = 1) -> None:
    """Refuse instances that do not exist, and too few or too many of them.

    Engines call it once for each batch: they index arrays and tasks with these numbers.
    """
    refuse_misfit(grouping, found, most=most, least=least)
    _refuse_numbers(grouping, found, grouping.instances, of="route must return instances")


def refuse_unknown_tasks(grouping: Grouping, found: Int32, *, records: int) -> None:
    """Refuse tasks that do not exist, and too few or too many of them, in a micro-batch."""
    refuse_misfit(grouping, found, most=records, least=records)
    _refuse_numbers(grouping, found, grouping.tasks, of="route_together must return tasks")


def _refuse_numbers(grouping: Grouping, found: Int32, count: int, *, of: str) -> None:
    if not _inside(found, count):
        wrong = found[(found < 0) | (found >= count)][0]
        raise PenstockError(f"{type(grouping).__name__}.{of} from 0 to {count - 1}; got {wrong}")


@kernel
def _inside(instances: Int32, count: int) -> bool:
    outside = 0
    for i in range(instances.size):
        outside += not 0 <= instances[i] < count
    return outside == 0


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


def order_by_length(possible_ms: Float64, mean_load_ms: float) -> Int64 | None:
    """Return the numbers of records, the longest first; None if their order does not matter.

    Args:
        possible_ms: cost of each record.
        mean_load_ms: mean load of an instance; much shorter records may have any order.
    """
    longest_ms = float(possible_ms.max(initial=0.0))
    if longest_ms <= _NEGLIGIBLE * mean_load_ms:
        return None
    # Costs in 65,536 steps are as good as exact ones, and radix sort is ten times as fast.
    shortness = (_STEPS * (1 - possible_ms / longest_ms)).astype(np.uint16)
    return np.argsort(shortness, kind="stable")


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
    order = order_by_length(costs_ms, float(costs_ms.sum()) / clock_ms.size)
    if order is None:
        assign(costs_ms, now, clock_ms, slowdown, out)
        return out
    assigned = np.empty_like(out)
    assign(costs_ms[order], now, clock_ms, slowdown, assigned)
    out[order] = assigned
    return out
