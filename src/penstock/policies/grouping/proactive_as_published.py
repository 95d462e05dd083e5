"""POSG, literally as published."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs import CountMin
from penstock.policies.costs.count_min import estimate_one
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.grouping.base import Grouping, Routed, checked, idle_clocks
from penstock.policies.grouping.greedy import chosen_by
from penstock.policies.kernels import Float64, Int32, Int64, UInt64, kernel
from penstock.policies.sync_rounds import SyncRounds, SyncState
from penstock.policies.trackers import WhenStable
from penstock.policies.validation import LARGEST, between, positive, whole

# Pairs of Count-Min matrices of all instances (a plain tuple for the reason that is given at
# `heavy_hitters.Table`):
#   coefficients: hash functions of the rows, the same for all matrices,
#   frequency: F of each instance; the first axis is the instance,
#   cumulated_ms: W of each instance; the first axis is the instance.
Matrices = tuple[UInt64, Float64, Float64]


class ProactiveAsPublished(Grouping):
    r"""Proactive Online Shuffle Grouping as its paper describes it, for comparison.

    Every instance keeps a pair of Count-Min matrices and sends it when it is stable (Figure 2).
    Every new pair starts a synchronisation (Figure 3). The grouping routes in turn until it has all
    pairs, then to the instance with the least estimated cumulated cost (Listing III.2):

    $$i = \arg\min_j \hat C_j, \qquad \hat C_i \leftarrow \hat C_i + \hat w_{t,i}$$

    It loses to round robin if instances are idle at times, because cumulated costs ignore idle
    time. `Proactive` is the grouping to use.

    Args:
        instances: number of parallel instances k, >= 1.
        window: N, number of records that an instance executes between two checks of its matrices.
        tolerance: mu, relative change up to which matrices are stable, > 0.
        epsilon: precision of the matrices, in (0, 1).
        delta: probability of a larger error, in (0, 1).
        seed: seed that the hash functions are drawn with.

    Example:
        >>> grouping = ProactiveAsPublished(instances=2)
        >>> grouping.route([5, 5, 5]), grouping.state
        (array([0, 1, 0], dtype=int32), 'ROUND ROBIN')

    References:
        POSG (Rivetti et al., 2015), section III.

    Deviations:
        An unseen key (F = 0) costs 0; the listing divides by zero. Empty cells do not count in the
        stability error (see `WhenStable`). The time of arrival is ignored, also in the paper.
    """

    name = "posg_as_published"

    def __init__(
        self,
        instances: int,
        window: int = 1024,
        tolerance: float = 0.05,
        epsilon: float = 0.05,
        delta: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(instances)
        self.window = whole("window", window, least=1, most=LARGEST)
        self.tolerance = positive("tolerance", tolerance)
        self.epsilon = between("epsilon", epsilon, 0, 1)
        self.delta = between("delta", delta, 0, 1)
        self.seed = whole("seed", seed, least=0)
        self._start()

    def _start(self) -> None:
        model = self.measurements()
        shape = (self.instances, model.rows, model.columns)
        self._frequency = np.zeros(shape)
        self._cumulated_ms = np.zeros(shape)
        self._matrices: Matrices = (model.coefficients, self._frequency, self._cumulated_ms)
        self._clock_ms = np.zeros(self.instances)
        self._left = np.full(self.instances, self.window, dtype=np.int64)
        self._turn = np.zeros(1, dtype=np.int64)
        self._rounds = SyncRounds(self.instances)

    def measurements(self) -> CountMin:
        """Return an empty pair of matrices."""
        return CountMin(self.epsilon, self.delta, self.seed)

    def tracker(self, instance: int) -> WhenStable:
        """Return the state machine of the paper's operator."""
        return WhenStable(instance, self.measurements(), self.window, self.tolerance)

    def route(self, keys: npt.ArrayLike, now_ms: npt.ArrayLike | None = None) -> Int32:
        """Route all records; requests to instances are lost, because no engine sends them."""
        array, now = checked(keys, now_ms)
        out = np.empty(array.size, dtype=np.int32)
        done = 0
        while done < array.size:
            routed = self.route_until_answer(array[done:], now[done:]).instances
            out[done : done + routed.size] = routed
            done += routed.size
        return out

    def route_until_answer(self, keys: Int64, now_ms: Float64) -> Routed:
        """Route up to the next request, or up to the end of the window of an instance."""
        out = np.empty(keys.size, dtype=np.int32)
        if not keys.size:
            return Routed(out)
        asking = self._rounds.state is SyncState.SEND_ALL
        learning = self._rounds.state is SyncState.ROUND_ROBIN
        first = self._rounds.ask() if asking else int(self._turn[0]) if learning else -1
        routed = _assign(
            keys[:1] if asking else keys,
            self._matrices,
            self._clock_ms,
            self._left,
            first,
            learning,
            out,
        )
        if learning:
            self._turn[0] = (first + routed) % self.instances
        last = int(out[routed - 1])
        window_ends = self._left[last] == 0
        if window_ends:
            self._left[last] = self.window
        request = None
        if asking:
            request = SyncRequest(last, self._rounds.epoch, float(self._clock_ms[last]))
        return Routed(out[:routed], bool(asking or window_ends), request)

    def _observe(self, feedback: Feedback) -> None:
        """Receive matrices, or an answer."""
        instance = feedback.instance
        if feedback.costs is not None:
            if not isinstance(feedback.costs, CountMin):
                raise PenstockError(f"costs must be CountMin; got {feedback.costs!r}")
            if feedback.costs != self.measurements():
                raise PenstockError(
                    f"costs must be {self.measurements()!r}; got {feedback.costs!r}"
                )
            self._frequency[instance] = feedback.costs.frequency
            self._cumulated_ms[instance] = feedback.costs.cumulated_ms
            self._rounds.matrices_received(instance)
        if feedback.delta_ms is not None:
            deltas_ms = self._rounds.answer_received(instance, feedback.epoch, feedback.delta_ms)
            if deltas_ms is not None:
                self._clock_ms += deltas_ms

    def begin(self, router: int) -> None:
        """Set all clocks to idle."""
        self._clock_ms[:] = idle_clocks(self.instances, router)
        self._turn[0] = router % self.instances

    def resize(self, instances: int) -> None:
        """Start again, because the paper has no change of k."""
        super().resize(instances)
        self._start()

    @property
    def running(self) -> bool:
        """Whether records go by estimated costs and not in turn: in WAIT ALL and RUN."""
        return self._rounds.running

    @property
    def state(self) -> str:
        """State of Figure 3."""
        return self._rounds.state.value

    def _state(self) -> Arrays:
        return {
            "frequency": self._frequency,
            "cumulated_ms": self._cumulated_ms,
            "clock_ms": self._clock_ms,
            "left": self._left,
            "turn": self._turn,
            **self._rounds.arrays(),
        }


@kernel
def _assign(
    keys: Int64,
    matrices: Matrices,
    clock_ms: Float64,
    left: Int64,
    turn: int,
    learning: bool,
    out: Int32,
) -> int:
    """Assign records until the window of an instance ends; return how many.

    Args:
        keys: keys of the records.
        matrices: matrices of all instances.
        clock_ms: estimated cumulated cost of each instance, moved on in place.
        left: number of records until the window of each instance ends.
        turn: instance of the first record, others follow in turn; -1 for the least loaded one.
        learning: whether matrices are missing, so that costs cannot be estimated.
        out: instance of each record, filled in.
    """
    coefficients, frequency, cumulated_ms = matrices
    for i in range(keys.size):
        chosen, turn = chosen_by(turn, clock_ms)
        if not learning:
            clock_ms[chosen] += estimate_one(
                keys[i], coefficients, frequency[chosen], cumulated_ms[chosen], 0.0
            )
        out[i] = chosen
        left[chosen] -= 1
        if left[chosen] == 0:
            return i + 1
    return keys.size
