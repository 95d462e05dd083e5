"""LAS, word by word."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.costs import CountMin
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.kernels import Bool, Float64, Int64, kernel
from penstock.policies.shedding.base import Admitted, Records, Shedder, checked
from penstock.policies.shedding.target_shedder import ShedderState, checked_target
from penstock.policies.shedding.targets import Target
from penstock.policies.sync_rounds import SyncRounds, SyncState
from penstock.policies.trackers import WhenStable
from penstock.policies.validation import LARGEST, between, int64_keys, positive, whole

# The state machine is that of POSG for one instance, with other names. In WAIT ALL the request has
# been sent, and the answer has not arrived yet.
_NAMES = {
    SyncState.ROUND_ROBIN: ShedderState.NOP,
    SyncState.SEND_ALL: ShedderState.SEND,
    SyncState.WAIT_ALL: ShedderState.RUN,
    SyncState.RUN: ShedderState.RUN,
}
# Indexes of the sums.
_CUMULATED, _FIRST, _WAITED, _ADMITTED, _CHECKING, _SUMS = range(6)


class LoadAwareAsPublished(Shedder):
    r"""Load-Aware Shedding as its paper describes it, for comparison.

    The operator keeps a pair of Count-Min matrices and sends it when it is stable (Figure 2). The
    shedder admits everything until it has received one (NOP). The next admitted record then carries
    a request (SEND). From its answer on (RUN) a record is shed if

    $$\frac{Q + \hat q}{\ell + 1} > \tau, \qquad \hat q = \hat C - (now - t_1)$$

    with the estimated cumulated cost $\hat C$ of all admitted records. It ignores that the
    operator is idle at times, so the estimate drifts. `LoadAware` is the shedder to use.

    Args:
        target: limit of the waiting time: `average` or `each_record`.
        instances: number of instances; must be 1, as in the paper.
        window: N, number of records between two checks of the operator's matrices, >= 1.
        tolerance: mu, relative change up to which matrices are stable, > 0.
        epsilon: precision of the matrices, in (0, 1); costs are multiplied by 1 + epsilon.
        delta: probability of a larger error, in (0, 1).
        seed: seed of the hash functions, >= 0.

    Example:
        >>> from penstock.policies.shedding import average
        >>> shedder = LoadAwareAsPublished(target=average("6.4 ms"))
        >>> shedder.admit([1, 2], [0.0, 1.0]), shedder.state
        (array([ True,  True]), 'NOP')

    References:
        LAS (Rivetti et al., 2020), section 3.3.

    Deviations:
        l + 1 in CHECKLATENCY, where the listing divides by zero for the first record. No check
        before the first answer has arrived, as the queue is unknown until then. Empty cells do not
        count in the stability error (see `WhenStable`). An unseen key costs 0.
    """

    name = "las_as_published"
    needs_answers = True

    def __init__(
        self,
        target: Target,
        instances: int = 1,
        window: int = 1024,
        tolerance: float = 0.05,
        epsilon: float = 0.05,
        delta: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(whole("instances", instances, least=1, most=1))
        self.target: Target = checked_target(target)
        if self.target.records > 1:
            raise PenstockError(
                "target must be made by average or each_record, as the paper has no other; "
                f"got {target}"
            )
        self.window = whole("window", window, least=1, most=LARGEST)
        self.tolerance = positive("tolerance", tolerance)
        self.epsilon = between("epsilon", epsilon, 0, 1)
        self.delta = between("delta", delta, 0, 1)
        self.seed = whole("seed", seed, least=0)
        self._costs = self.measurements()
        self._scheduler = SyncRounds(1)
        self._left = np.full(1, self.window, dtype=np.int64)
        self._sums = np.zeros(_SUMS)
        self.restart()

    def measurements(self) -> CountMin:
        """Return an empty pair of matrices."""
        return CountMin(self.epsilon, self.delta, self.seed)

    def tracker(self, instance: int) -> WhenStable:
        """Return the operator's state machine."""
        return WhenStable(instance, self.measurements(), self.window, self.tolerance)

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the estimates of the matrices; 0 for a key that they have not seen."""
        array = int64_keys("keys", keys)
        if not self._costs.frequency.any():
            return np.zeros(array.size)
        return self._costs.estimate(array)

    def admit(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Decide about all records; requests are lost, as no record carries them."""
        records = checked(keys, arrival_ms, now_ms, protected)
        out = np.empty(records.keys.size, dtype=np.bool_)
        done = 0
        while done < out.size:
            few = records.part(slice(done, done + 4 * self.window))
            mask = self._next(few).mask
            out[done : done + mask.size] = mask
            done += mask.size
        return out

    def admit_until_answer(
        self, keys: Int64, arrival_ms: Float64, now_ms: Float64, protected: Bool
    ) -> Admitted:
        """Decide up to the next request, or up to the end of the operator's window."""
        records = Records(keys=keys, arrival_ms=arrival_ms, now_ms=now_ms, protected=protected)
        return self._next(records.part(slice(0, 4 * self.window)))

    def _next(self, few: Records) -> Admitted:
        """Decide about the first of a few records; see `admit_until_answer`."""
        if not few.keys.size:
            return Admitted(np.empty(0, dtype=np.bool_))
        asking = self._scheduler.state is SyncState.SEND_ALL
        left = np.ones(1, dtype=np.int64) if asking else self._left
        mask = _admit(
            costs_ms=self.expected_ms(few.keys) * (1 + self.epsilon),
            now_ms=few.now_ms,
            protected=few.protected,
            limit_ms=self.target.limit_ms,
            each=self.target.records == 1,
            sums=self._sums,
            left=left,
        )
        if left[0] or not mask[-1]:
            return Admitted(mask)
        request = None
        if asking:
            self._scheduler.ask()
            estimate_ms = float(self._sums[_CUMULATED])
            request = SyncRequest(0, self._scheduler.epoch, estimate_ms)
            self._left[0] -= 1
        if self._left[0] == 0:
            self._left[0] = self.window
        return Admitted(mask, answerable=True, request=request)

    def _observe(self, feedback: Feedback) -> None:
        """Learn from matrices, or from an answer."""
        if feedback.costs is not None:
            if feedback.costs != self.measurements():
                raise PenstockError(f"costs must be {self.measurements()!r}; got {feedback.costs}")
            self._costs.clear()
            self._costs.merge(feedback.costs)  # type: ignore[arg-type]  # it is equal
            self._scheduler.matrices_received(0)
        if feedback.delta_ms is not None:
            found = self._scheduler.answer_received(0, feedback.epoch, feedback.delta_ms)
            if found is not None:
                self._sums[_CUMULATED] += found[0]
                self._sums[_CHECKING] = 1

    def resize(self, instances: int) -> None:
        """Refuse other numbers than 1: the paper's operator has one instance."""
        whole("instances", instances, least=1, most=1)

    def restart(self) -> None:
        """Begin another stream: forget admitted records, and keep learnt costs."""
        checking = self._sums[_CHECKING]
        self._sums[:] = 0
        self._sums[_FIRST] = np.nan
        self._sums[_CHECKING] = checking

    @property
    def running(self) -> bool:
        """Whether the newest matrices are in use, and their request has been sent."""
        return _NAMES[self._scheduler.state] is ShedderState.RUN

    @property
    def state(self) -> str:
        """State of Figure 3."""
        return _NAMES[self._scheduler.state].value

    def _state(self) -> Arrays:
        return {
            "frequency": self._costs.frequency,
            "cumulated_ms": self._costs.cumulated_ms,
            "left": self._left,
            "sums": self._sums,
            **self._scheduler.arrays(),
        }


# Single arguments: named tuples would cost 5% of the time, as every call decides about few records.
@kernel
def _admit(
    costs_ms: Float64,
    now_ms: Float64,
    protected: Bool,
    limit_ms: float,
    each: bool,
    sums: Float64,
    left: Int64,
) -> Bool:
    """Listing 3.2, until `left` records have been admitted; return the decisions made."""
    out = np.empty(costs_ms.size, dtype=np.bool_)
    for i in range(out.size):
        if np.isnan(sums[_FIRST]):
            sums[_FIRST] = now_ms[i]
        wait_ms = sums[_CUMULATED] - (now_ms[i] - sums[_FIRST])
        over = wait_ms > limit_ms
        if not each:
            over = sums[_WAITED] + wait_ms > limit_ms * (sums[_ADMITTED] + 1)
        out[i] = not (sums[_CHECKING] > 0 and over) or (protected.size > 0 and protected[i])
        if not out[i]:
            continue
        if sums[_CHECKING] > 0:
            sums[_WAITED] += wait_ms
            sums[_ADMITTED] += 1
        sums[_CUMULATED] += costs_ms[i]
        left[0] -= 1
        if left[0] == 0:
            return out[: i + 1]
    return out
