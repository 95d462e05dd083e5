"""Consistent grouping: virtual workers move from busy to idle instances."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.grouping.base import Grouping
from penstock.policies.grouping.random_choices import RandomChoices
from penstock.policies.kernels import Int32, Int64
from penstock.policies.learner import MAX_INSTANCES
from penstock.policies.validation import between, positive, whole

_NEVER = 0


class Consistent(Grouping):
    r"""Consistent grouping (CG): PoRC over virtual workers, which instances exchange.

    PoRC gives all virtual workers the same load; each of them belongs to an instance. An instance
    measures its utilization $U$ in every time slot. It is *busy* if $U > \theta_b$ and *idle* if
    $U < \theta_i$. Busy and idle instances wait in two queues, first come first served; a pair of
    them moves virtual workers. So instances get shares that fit their capacities, although the
    capacities are unknown. Only the routing of later records changes.

    An instance with $v$ virtual workers has $v (1 - \theta / U)$ too many, with $\theta$ in the
    middle of both thresholds. Take the surplus of the busy instance and the lack of the idle one. A
    pair moves `stride` times the smaller of the two, and at least one virtual worker.

    Without an idle instance, a busy one gives to an instance that is not busy: the one whose last
    busy signal is oldest. Otherwise all others could stay between the thresholds for ever.

    With $C = \sum c_w$, load $\rho$ and the capacity $c_{min}$ of the slowest instance, more than

    $$\frac{\rho C}{n c_{min} (\theta_b - \theta_i)}$$

    virtual workers per instance are needed. With fewer, a single move turns a busy instance into an
    idle one. With far more, convergence is slow if one moves at a time.

    Args:
        instances: number of parallel instances n, >= 1.
        virtual_workers: number of virtual workers of each instance at the start, >= 1.
        epsilon: part of the mean load by which a virtual worker may be above it, > 0.
        idle: utilization below which an instance is idle, > 0.
        busy: utilization above which an instance is busy, > idle.
        stride: part of the surplus that moves at once, 0 to 1; 0 moves one at a time.
        probes: number of choices tried for a key (PoRC).
        half_life: records per virtual worker after which a load counts half; None for lifetime.
        seed: seed that the hash function is drawn with.
        reserve: part of a virtual worker's room above the mean that is reserved for its hottest
            key, 0 to 1 (PoRC).

    Example:
        >>> cg = Consistent(instances=2, virtual_workers=4, stride=0)
        >>> cg.observe(Feedback(instance=0, utilization=1.2))
        >>> cg.observe(Feedback(instance=1, utilization=0.4))
        >>> cg.shares, cg.moves
        (array([3, 5]), 1)

    References:
        Consistent Grouping (Nasir et al., 2016), sections V-B, V-C and VI-A.

    Deviations:
        An instance keeps at least one virtual worker: without any it would get no records whose
        acknowledgements could carry its signals. Virtual workers return to their first instance if
        possible. The paper moves one virtual worker per signal (`Consistent.as_published`). With
        100 of them, adapting to new capacities takes longer than most streams stay the same
        (`docs/papers/cg.md`).
    """

    name = "cg"

    def __init__(
        self,
        instances: int,
        virtual_workers: int = 20,
        epsilon: float = 0.01,
        idle: float = 0.75,
        busy: float = 0.85,
        stride: float = 0.5,
        probes: int = 64,
        half_life: int | None = 1_000,
        seed: int = 0,
        reserve: float = 0.5,
    ) -> None:
        super().__init__(instances)
        self.virtual_workers = whole(
            "virtual_workers", virtual_workers, least=1, most=MAX_INSTANCES // self.instances
        )
        self.epsilon = positive("epsilon", epsilon)
        self.idle = positive("idle", idle)
        self.busy = positive("busy", busy)
        if self.busy <= self.idle:
            raise PenstockError(f"busy must be > idle = {self.idle:g}; got {self.busy:g}")
        self.stride = between("stride", stride, 0, 1, closed="low high")
        self.probes = probes
        self.half_life = half_life
        self.seed = seed
        self.reserve = reserve
        count = self.instances * self.virtual_workers
        self._bins = RandomChoices(count, epsilon, probes, half_life, seed, reserve)
        self._owner = self._homes(count)
        # Number of signals received, and of virtual workers moved.
        self._clocks = np.zeros(2, dtype=np.int64)
        self._forget_signals()

    @classmethod
    def as_published(
        cls, instances: int, virtual_workers: int = 20, epsilon: float = 0.01, seed: int = 0
    ) -> "Consistent":
        """Return the paper's scheme: one virtual worker per signal, lifetime counts, plain PoRC."""
        return cls(
            instances,
            virtual_workers,
            epsilon,
            stride=0.0,
            half_life=None,
            seed=seed,
            reserve=0.0,
        )

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Choose virtual workers, and look up their instances."""
        return self._owner[self._bins.route(keys, now_ms)]

    def route_together(self, keys: npt.ArrayLike) -> Int32:
        """Fill every virtual worker with its share of all records."""
        return self._owner[self._bins.route_together(keys)]

    def begin(self, router: int) -> None:
        """Empty all virtual workers; they stay with their instances."""
        self._bins.begin(router)

    @property
    def shares(self) -> Int64:
        """Number of virtual workers of each instance."""
        shares: Int64 = np.bincount(self._owner, minlength=self.instances)
        return shares[: self.instances]

    @property
    def learns(self) -> bool:
        """True: it learns which instance each virtual worker belongs to."""
        return True

    @property
    def moves(self) -> int:
        """Number of virtual workers moved so far."""
        return int(self._clocks[1])

    def _observe(self, feedback: Feedback) -> None:
        """Receive a signal, and pair a busy instance with an idle one."""
        if feedback.utilization is None:
            return
        instance = feedback.instance
        self._clocks[0] += 1
        self._utilization[instance] = feedback.utilization
        is_busy, is_idle = feedback.utilization > self.busy, feedback.utilization < self.idle
        _queue(self._busy_since, instance, is_busy, self._clocks[0])
        _queue(self._idle_since, instance, is_idle, self._clocks[0])
        if is_busy:
            self._overloaded_at[instance] = self._clocks[0]
        giver = _first(self._busy_since)
        if giver is None:
            return
        taker = _first(self._idle_since)
        if taker is None:
            taker = self._calmest()
        if taker is not None:
            self._move(giver, taker)

    def _calmest(self) -> int | None:
        """Return the known instance that is not busy and was busy least recently (section VI-A)."""
        calm = np.flatnonzero(self._utilization <= self.busy)
        return int(calm[np.argmin(self._overloaded_at[calm])]) if calm.size else None

    def _move(self, giver: int, taker: int) -> None:
        """Move virtual workers between a pair; each signal is used for one pair."""
        self._busy_since[giver] = self._idle_since[taker] = _NEVER
        own = np.flatnonzero(self._owner == giver)
        count = min(self._stride(giver, taker), own.size - 1)
        # First those that were the taker's at the start, then those with the highest numbers.
        strangers = self._homes(self._owner.size)[own] != taker
        moved = own[np.lexsort((-own, strangers))][:count]
        before = self.shares[taker]
        self._owner[moved] = taker
        self._clocks[1] += moved.size
        # An estimate until the taker's next signal. The giver stays busy until its next signal,
        # because otherwise it could get virtual workers back at once.
        self._utilization[taker] *= self.shares[taker] / before

    def _stride(self, giver: int, taker: int) -> int:
        """Return the number of virtual workers that a pair moves at once."""
        middle = (self.idle + self.busy) / 2
        # Below this an instance had next to nothing to do, and its room is unknown.
        used = np.maximum(self._utilization[[giver, taker]], middle / 100)
        surplus, lack = self.shares[[giver, taker]] * (1 - middle / used) * (1, -1)
        return max(1, int(self.stride * min(surplus, lack)))

    def resize(self, instances: int) -> None:
        """Add or remove instances with their own virtual workers; the others stay.

        The own virtual workers of a removed instance are removed, wherever they are. Those that it
        had from others go to the instance with the fewest.
        """
        super().resize(instances)
        count = self.instances * self.virtual_workers
        kept = self._owner[:count]
        self._owner = self._homes(count)
        self._owner[: kept.size] = kept
        self._bins.resize(count)
        for virtual in np.flatnonzero(self._owner >= self.instances):
            self._owner[virtual] = np.argmin(self.shares)
        while self.shares.min() < 1:
            richest = np.flatnonzero(self._owner == np.argmax(self.shares))
            self._owner[richest[-1]] = np.argmin(self.shares)
        self._forget_signals()

    def _homes(self, count: int) -> Int32:
        """Return the instance of each virtual worker at the start."""
        return (np.arange(count) // self.virtual_workers).astype(np.int32)

    def _forget_signals(self) -> None:
        self._busy_since = np.full(self.instances, _NEVER, dtype=np.int64)
        self._idle_since = np.full(self.instances, _NEVER, dtype=np.int64)
        self._overloaded_at = np.full(self.instances, _NEVER, dtype=np.int64)
        self._utilization = np.full(self.instances, np.nan)

    def _state(self) -> Arrays:
        bins = {f"bins_{name}": array for name, array in self._bins._state().items()}
        return bins | {
            "owner": self._owner,
            "busy_since": self._busy_since,
            "idle_since": self._idle_since,
            "overloaded_at": self._overloaded_at,
            "utilization": self._utilization,
            "clocks": self._clocks,
        }


def _queue(since: Int64, instance: int, waits: bool, now: np.int64) -> None:
    """Put an instance at the end of a queue, or keep its place in it; or take it out."""
    if not waits:
        since[instance] = _NEVER
    elif since[instance] == _NEVER:
        since[instance] = now


def _first(since: Int64) -> int | None:
    """Return the instance that has waited longest."""
    waiting = np.flatnonzero(since != _NEVER)
    return int(waiting[np.argmin(since[waiting])]) if waiting.size else None
