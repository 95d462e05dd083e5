"""POSG: shuffle grouping by the expected costs of records."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.cost_learner import CostLearner
from penstock.policies.costs import heavy_hitters
from penstock.policies.costs.heavy_hitters import MAX_CAPACITY, Table
from penstock.policies.costs.totals import doubt, mean_of_rest
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.grouping.base import (
    Grouping,
    Routed,
    checked,
    idle_clocks,
    longest_first,
    resized,
)
from penstock.policies.grouping.greedy import chosen_by, give
from penstock.policies.grouping.proactive_as_published import ProactiveAsPublished
from penstock.policies.kernels import Float64, Int32, Int64, kernel
from penstock.policies.sync_rounds import SyncState
from penstock.policies.validation import above_zero, at_least_zero, whole

_NEVER = np.iinfo(np.int64).max
_MOST_SERVERS = 10_000


# Estimates by which records are assigned (a plain tuple for the reason that is given at
# `heavy_hitters.Table`):
#   costs: table of the costs of frequent keys on an average instance,
#   slowdown: cost of a record on each instance over its cost on an average one,
#   clock_ms: finish clock of each instance: time at which all its records will be done.
Estimates = tuple[Table, Float64, Float64]


class Proactive(CostLearner, Grouping):
    r"""Proactive Online Shuffle Grouping: every record to the instance that will be free first.

    The grouping keeps a finish clock for every instance and moves it on by the expected cost of
    each record (see `greedy`). It has one cost model for all instances, and a slowdown $s_i$ for
    each:

    $$i = \arg\min_j C_j, \qquad C_i \leftarrow \max(C_i, now) + s_i \hat w_t$$

    Every N-th record to an instance carries its clock. When that record is done, the instance
    answers with one message. The message has the difference to the true time, which corrects the
    clock. It also has the costs measured since the last message, from which the model learns. The
    slowdown follows the ratio of measured to expected costs of known keys, through a Kalman filter.
    It moves at once if keys predict the costs, and slowly if they do not.

    Until every instance has answered once, records are routed in turn.

    It helps if costs differ between keys and instances are busy (100% to 110% provisioning), and
    most if few keys make up most records. With uniform keys it gains from the clocks. If costs do
    not depend on keys, it is as good as round robin.

    Args:
        instances: number of parallel instances k, >= 1.
        window: N, number of records to an instance between two requests, >= 1.
        first_window: length of the first window; it doubles until it is `window`.
        capacity: entries of the cost model of an instance, >= 1, 28 bytes each. The grouping's
            model has `instances` times as many, at most 65,535.
        half_life: number of records after which a measurement counts half, > 0; may be infinite.
        drift: expected change of a slowdown within 1,000 records of its instance (standard
            deviation), >= 0.
        seed: seed of the hash function of the cost model's index.
        sized: whether costs follow the size of records (see `costs.BySize`), in 32 more bytes an
            entry.
        servers: number of records that an instance executes at a time, >= 1. Only
            `route_together` knows it; each server has a finish clock of its own there.
        together: whether instances measure whole calls of a function, and not single records (see
            `costs.ByCall`), in 16 more bytes an entry; ignored if `sized`.

    Example:
        >>> from penstock.policies.costs import SpaceSaving
        >>> grouping = Proactive(instances=2)
        >>> grouping.state
        'ROUND ROBIN'
        >>> for instance in 0, 1:
        ...     measured = SpaceSaving(capacity=4)
        ...     measured.update([1, 2], [10.0, 1.0])
        ...     grouping.observe(Feedback(instance, measured, delta_ms=0.0))
        >>> grouping.state, grouping.route([1, 2, 1], [0.0, 1.0, 2.0])
        ('RUN', array([0, 1, 1], dtype=int32))

    References:
        N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni and B. Sericola, "Proactive Online
        Scheduling for Shuffle Grouping in Distributed Stream Processing Systems", 2015
        (hal-01246701), sections III and V. `as_published` follows its text literally.

    Deviations:
        Finish clocks replace cumulated costs, which ignore idle time and lose to round robin from
        100% provisioning up. A table of frequent keys replaces Count-Min matrices of about the
        same memory. Costs of all instances are pooled. An unseen key is expected to cost the mean
        of rare keys, not 0. One kind of message, sent every N records, has both costs and
        synchronisation. So clocks are corrected more often with fewer messages, and nothing waits
        for stable matrices. An answer replaces the previous correction instead of being added to
        it: with long queues several answers are under way, and their sum oscillates. Old
        measurements fade instead of being reset.
    """

    name = "posg"

    def __init__(
        self,
        instances: int,
        window: int = 192,
        first_window: int = 24,
        capacity: int = 240,
        half_life: float = 8192,
        drift: float = 0.02,
        seed: int = 0,
        sized: bool = False,
        servers: int = 1,
        together: bool = False,
    ) -> None:
        super().__init__(instances)
        self.servers = whole("servers", servers, least=1, most=_MOST_SERVERS)
        self._server_ms = np.zeros(self.instances * self.servers)
        self.window = whole("window", window, least=1)
        self.first_window = whole("first_window", first_window, least=1)
        self.capacity = whole("capacity", capacity, least=1, most=MAX_CAPACITY)
        self.half_life = above_zero("half_life", half_life)
        self.drift = at_least_zero("drift", drift)
        self.seed = whole("seed", seed, least=0)
        self.sized = bool(sized)
        self.together = bool(together)
        self._costs = self._pooled()
        self._clock_ms = np.zeros(self.instances)
        self._estimates = self._gathered()
        self._correction_ms = np.zeros(self.instances)
        self._running = False
        self._windows = np.full(self.instances, min(self.first_window, self.window))
        self._left = self._windows.copy()
        self._turn = np.zeros(1, dtype=np.int64)

    @classmethod
    def as_published(cls, instances: int, **params: Any) -> ProactiveAsPublished:  # noqa: ANN401
        """Return the grouping that follows the paper's text literally."""
        return ProactiveAsPublished(instances, **params)

    @classmethod
    def frugal(cls, instances: int, **params: Any) -> Self:  # noqa: ANN401
        """Return a preset that sends fewer messages than the paper's own scheme."""
        return cls(instances, **{"window": 2048, "first_window": 128, **params})

    def route(
        self,
        keys: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> Int32:
        """Route all records without requests."""
        array, now = checked(keys, now_ms)
        out = np.empty(array.size, dtype=np.int32)
        self._assign(array, now, np.full(self.instances, _NEVER), out, sizes)
        return out

    def route_together(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Int32:
        """Assign the longest records first: later records could not balance them."""
        if not self.running:
            return self.route(keys)
        costs_ms, slowdown = self._costs.estimate(keys, sizes), self._costs.slowdown
        if self.servers == 1:
            return longest_first(costs_ms, self._clock_ms, slowdown)
        servers = longest_first(costs_ms, self._server_ms, np.repeat(slowdown, self.servers))
        return servers // np.int32(self.servers)

    def possible_ms(
        self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> Float64 | None:
        """Return the expected cost of each record; None before anything is known."""
        return self._costs.estimate(keys, sizes) if self.running else None

    def begin(self, router: int) -> None:
        """Set all clocks to idle."""
        self._clock_ms[:] = idle_clocks(self.instances, router)
        self._server_ms[:] = idle_clocks(self._server_ms.size, router * self.servers)
        self._correction_ms[:] = 0
        self._turn[0] = router % self.instances

    def route_until_answer(
        self, keys: Int64, now_ms: Float64, sizes: Float64 | None = None
    ) -> Routed:
        """Route up to a record that carries a request."""
        out = np.empty(min(keys.size, self.instances * self.window), dtype=np.int32)
        some = None if sizes is None else sizes[: out.size]
        routed = self._assign(keys[: out.size], now_ms, self._left, out, some)
        instances = out[:routed]
        if not routed or self._left[instances[-1]]:
            return Routed(instances)
        last = int(instances[-1])
        self._windows[last] = self._left[last] = min(2 * int(self._windows[last]), self.window)
        # The clock without corrections: several answers may be under way, and each of them must
        # correct the same clock.
        uncorrected_ms = float(self._clock_ms[last] - self._correction_ms[last])
        request = SyncRequest(last, epoch=0, estimate_ms=uncorrected_ms)
        return Routed(instances, answerable=True, request=request)

    def _gathered(self) -> Estimates:
        """Return the estimates; their arrays are the ones in use."""
        return self._costs.table.table, self._costs.slowdown, self._clock_ms

    def _assign(
        self,
        keys: Int64,
        now_ms: Float64,
        left: Int64,
        out: Int32,
        sizes: npt.ArrayLike | None = None,
    ) -> int:
        turn = -1 if self.running else int(self._turn[0])
        if self.sized or self.together:
            costs_ms = self._costs.estimate(keys, sizes)
            routed = _assign_costs(costs_ms, now_ms, self._estimates, turn, left, out)
        else:
            routed = _assign(keys, now_ms, self._estimates, turn, left, out)
        if turn >= 0:
            self._turn[0] = (turn + routed) % self.instances
        return routed

    def _observe(self, feedback: Feedback) -> None:
        """Learn measured costs, and correct the clock of the instance."""
        super()._observe(feedback)
        self._running = bool(self._costs.heard.all())
        if feedback.delta_ms is not None:
            i = feedback.instance
            self._clock_ms[i] += feedback.delta_ms - self._correction_ms[i]
            self._correction_ms[i] = feedback.delta_ms

    def resize(self, instances: int) -> None:
        """Keep the learnt costs; new instances start idle, with average speed."""
        super().resize(instances)
        self._clock_ms = resized(self._clock_ms, instances, 0.0)
        self._server_ms = resized(self._server_ms, instances * self.servers, 0.0)
        self._estimates = self._gathered()
        self._correction_ms = resized(self._correction_ms, instances, 0.0)
        self._windows = np.full(instances, min(self.first_window, self.window))
        self._left = self._windows.copy()
        self._turn[0] = 0

    @property
    def running(self) -> bool:
        """Whether every instance has sent costs, so that records go by clocks and not in turn."""
        return self._running

    @property
    def state(self) -> str:
        """ROUND ROBIN while it learns, then RUN."""
        state = SyncState.RUN if self.running else SyncState.ROUND_ROBIN
        return state.value

    def _state(self) -> Arrays:
        return {
            "clock_ms": self._clock_ms,
            "correction_ms": self._correction_ms,
            "windows": self._windows,
            "left": self._left,
            "turn": self._turn,
            **({} if self.servers == 1 else {"server_ms": self._server_ms}),
            **self._costs.arrays(),
        }

    def _load(self, state: Arrays) -> None:
        super()._load(state)
        self._running = bool(self._costs.heard.all())


@kernel
def _assign(
    keys: Int64, now_ms: Float64, estimates: Estimates, turn: int, left: Int64, out: Int32
) -> int:
    """Assign records until one is the last that is `left` for its instance; return how many.

    They go to instances in turn from `turn` on or, if that is -1, to the least loaded one.
    """
    costs, slowdown, clock_ms = estimates
    entries, index, totals, coefficients, _ = costs
    rest_ms = mean_of_rest(totals)
    doubted = doubt(totals)
    for i in range(keys.size):
        chosen, turn = chosen_by(turn, clock_ms)
        cost_ms = heavy_hitters.estimate_one(
            keys[i], rest_ms, doubted, entries, index, coefficients
        )
        give(chosen, cost_ms, now_ms[i], clock_ms, slowdown)
        out[i] = chosen
        left[chosen] -= 1
        if left[chosen] == 0:
            return i + 1
    return keys.size


@kernel
def _assign_costs(
    costs_ms: Float64, now_ms: Float64, estimates: Estimates, turn: int, left: Int64, out: Int32
) -> int:
    """Assign records of estimated costs; see `_assign`."""
    _, slowdown, clock_ms = estimates
    for i in range(costs_ms.size):
        chosen, turn = chosen_by(turn, clock_ms)
        give(chosen, costs_ms[i], now_ms[i], clock_ms, slowdown)
        out[i] = chosen
        left[chosen] -= 1
        if left[chosen] == 0:
            return i + 1
    return costs_ms.size
