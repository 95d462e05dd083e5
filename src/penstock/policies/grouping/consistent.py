"""Consistent grouping: virtual workers that move from busy to idle workers."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.grouping.base import Grouping
from penstock.policies.grouping.random_choices import RandomChoices
from penstock.policies.kernels import Int32, Int64
from penstock.policies.validation import between, positive, whole

_NEVER = 0


class Consistent(Grouping):
    r"""Consistent grouping (CG): PoRC over virtual workers, which workers exchange.

    All virtual workers get the same load, by PoRC; each belongs to an instance. An instance
    measures its utilization $U$ in every time slot and says *busy* if $U > \theta_b$, *idle* if
    $U < \theta_i$. Busy and idle instances wait in two queues, first come first served; a pair of
    them moves virtual workers. So instances end up with shares that fit their capacities, which
    nobody needs to know, and nothing but the routing of later records changes.

    An instance with $v$ virtual workers has $v (1 - \theta / U)$ too many, with $\theta$ in the
    middle of both thresholds. A pair moves `stride` times what the busy one has too many and the
    idle one too few, and at least one.

    A busy instance that finds no idle one gives to the instance that is not busy and was so least
    recently, as otherwise all others could sit between the thresholds for ever.

    With $C = \sum c_w$, load $\rho$ and the slowest worker's $c_{min}$ it takes more than

    $$\frac{\rho C}{n c_{min} (\theta_b - \theta_i)}$$

    virtual workers per instance, or a single move turns a busy worker into an idle one. Far more
    of them converge slowly if one moves at a time.

    Args:
        instances: number of parallel instances n, >= 1.
        virtual_workers: of each instance at the start, >= 1.
        epsilon: how far above the mean a virtual worker may be loaded, > 0.
        idle: utilization below which an instance is idle, > 0.
        busy: utilization above which an instance is busy, > idle.
        stride: part of what is too much that moves at once, 0 to 1; 0 moves one at a time.
        probes: choices tried for a key (PoRC).
        half_life: records a virtual worker after which a load counts half; None for lifetime.
        seed: what the hash function is drawn with.

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
        acknowledgements could carry its signals. A virtual worker returns home if it can. The paper
        moves one virtual worker a signal (`Consistent.as_published`): with 100 of them a change of
        capacities takes longer than most streams stay the same (`docs/cg.md`).
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
    ) -> None:
        super().__init__(instances)
        self.virtual_workers = whole("virtual_workers", virtual_workers, least=1)
        self.epsilon = positive("epsilon", epsilon)
        self.idle = positive("idle", idle)
        self.busy = positive("busy", busy)
        if self.busy <= self.idle:
            raise PenstockError(f"busy must be > idle = {self.idle:g}; got {self.busy:g}")
        self.stride = between("stride", stride, 0, 1, closed="low high")
        self.probes = probes
        self.half_life = half_life
        self.seed = seed
        count = self.instances * self.virtual_workers
        self._bins = RandomChoices(count, epsilon, probes, half_life, seed)
        self._owner = self._homes(count)
        # Signals taken, and virtual workers moved.
        self._clocks = np.zeros(2, dtype=np.int64)
        self._forget_signals()

    @classmethod
    def as_published(cls, instances: int, virtual_workers: int = 20, seed: int = 0) -> "Consistent":
        """Return the paper's scheme: one virtual worker a signal, lifetime counts."""
        return cls(instances, virtual_workers, stride=0.0, half_life=None, seed=seed)

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Choose virtual workers, and look up whose they are."""
        return self._owner[self._bins.route(keys, now_ms)]

    def route_together(self, keys: npt.ArrayLike) -> Int32:
        """Let every virtual worker take its share of all of them."""
        return self._owner[self._bins.route_together(keys)]

    def begin(self, router: int) -> None:
        """All virtual workers are empty; whose they are is kept."""
        self._bins.begin(router)

    @property
    def shares(self) -> Int64:
        """Virtual workers of each instance."""
        shares: Int64 = np.bincount(self._owner, minlength=self.instances)
        return shares[: self.instances]

    @property
    def learns(self) -> bool:
        """Whose the virtual workers are."""
        return True

    @property
    def moves(self) -> int:
        """How many virtual workers have been moved."""
        return int(self._clocks[1])

    def _observe(self, feedback: Feedback) -> None:
        """Take a signal, and pair busy with idle instances."""
        if feedback.utilization is None:
            return
        who = feedback.instance
        self._clocks[0] += 1
        self._utilization[who] = feedback.utilization
        is_busy, is_idle = feedback.utilization > self.busy, feedback.utilization < self.idle
        _queue(self._busy_since, who, is_busy, self._clocks[0])
        _queue(self._idle_since, who, is_idle, self._clocks[0])
        if is_busy:
            self._overloaded_at[who] = self._clocks[0]
        giver = _first(self._busy_since)
        if giver is None:
            return
        taker = _first(self._idle_since)
        if taker is None:
            taker = self._calmest()
        if taker is not None:
            self._move(giver, taker)

    def _calmest(self) -> int | None:
        """Return who is known, not busy, and was so least recently (section VI-A)."""
        calm = np.flatnonzero(self._utilization <= self.busy)
        return int(calm[np.argmin(self._overloaded_at[calm])]) if calm.size else None

    def _move(self, giver: int, taker: int) -> None:
        """Move virtual workers between a pair; each signal is good for one pair."""
        self._busy_since[giver] = self._idle_since[taker] = _NEVER
        own = np.flatnonzero(self._owner == giver)
        count = min(self._stride(giver, taker), own.size - 1)
        # Those at home with the taker first, then the ones that came last.
        strangers = self._homes(self._owner.size)[own] != taker
        moved = own[np.lexsort((-own, strangers))][:count]
        before = self.shares[taker]
        self._owner[moved] = taker
        self._clocks[1] += moved.size
        # What they will be used until they are heard again. Who gives stays busy until it says
        # otherwise, or it would be given back to.
        self._utilization[taker] *= self.shares[taker] / before

    def _stride(self, giver: int, taker: int) -> int:
        """How many virtual workers a pair moves at once."""
        middle = (self.idle + self.busy) / 2
        # Below this an instance had next to nothing to do, and its room is not known.
        used = np.maximum(self._utilization[[giver, taker]], middle / 100)
        surplus, lack = self.shares[[giver, taker]] * (1 - middle / used) * (1, -1)
        return max(1, int(self.stride * min(surplus, lack)))

    def resize(self, instances: int) -> None:
        """Bring or take away virtual workers with their instances; the others stay where they are.

        Those of a removed instance go with it, wherever they are; those it had from others go to
        who has least.
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
        """Return whose the virtual workers are at the start."""
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


def _queue(since: Int64, who: int, waits: bool, now: np.int64) -> None:
    """Let an instance wait from now on, or where it waits already; or wait no longer."""
    if not waits:
        since[who] = _NEVER
    elif since[who] == _NEVER:
        since[who] = now


def _first(since: Int64) -> int | None:
    """Return who has waited longest."""
    waiting = np.flatnonzero(since != _NEVER)
    return int(waiting[np.argmin(since[waiting])]) if waiting.size else None
