"""Trackers: they measure the records of an instance, and send messages to its policy."""

from enum import StrEnum

import numpy as np

from penstock.policies.costs import ByCall, BySize, CostModel, CountMin
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import positive, whole


class TrackerState(StrEnum):
    """States of Figure 2 of the POSG paper."""

    START = "START"
    STABILIZING = "STABILIZING"


class WhenAsked:
    """Answers every request with its true clock and all costs measured since the last answer.

    One message replaces both messages of POSG: matrices, and replies to synchronisation.

    Example:
        >>> from penstock.policies.costs import SpaceSaving
        >>> tracker = WhenAsked(instance=0, model=SpaceSaving(capacity=8))
        >>> tracker.execute(np.array([1]), np.array([5.0]), finished_ms=5.0)
        []
        >>> request = SyncRequest(instance=0, epoch=0, estimate_ms=9.0)
        >>> answer, = tracker.execute(np.array([2]), np.array([7.0]), 12.0, request)
        >>> answer.delta_ms, len(answer.costs)
        (3.0, 2)
    """

    state = "MEASURING"

    def __init__(self, instance: int, model: CostModel) -> None:
        self.instance = whole("instance", instance, least=0)
        self.model = model

    def execute(
        self,
        keys: Int64,
        costs_ms: Float64,
        finished_ms: float,
        request: SyncRequest | None = None,
        sizes: Float64 | None = None,
    ) -> list[Feedback]:
        """Measure the records; answer if the last one carried a request."""
        if isinstance(self.model, BySize):
            self.model.update(keys, costs_ms, sizes)
        elif isinstance(self.model, ByCall):
            self.model.add_call(keys, float(costs_ms.sum()))
        else:
            self.model.update(keys, costs_ms)
        if request is None:
            return []
        delta_ms = finished_ms - request.estimate_ms
        answer = Feedback(
            self.instance, self.model.hand_over(), epoch=request.epoch, delta_ms=delta_ms
        )
        return [answer]

    def finish(self) -> list[Feedback]:
        """Send the measured costs."""
        return [Feedback(self.instance, self.model.hand_over())]


class WhenStable:
    r"""The state machine of POSG's operator (Figure 2): send the matrices when they are stable.

    The state is START until N records are executed; then a snapshot S of the cells' means is taken
    (2.A). In STABILIZING the relative change against the snapshot is computed every N records:

    $$\eta = \frac{\sum_{i,j} |S[i,j] - W[i,j] / F[i,j]|}{\sum_{i,j} S[i,j]}$$

    If it is at most $\mu$, the matrices are sent and reset, and the state is START (2.C). Otherwise
    a new snapshot is taken (2.B). The answer to a request is the difference between the cumulated
    execution time and the estimate in the request.

    Args:
        instance: number of the instance.
        model: empty pair of matrices.
        window: N, number of records between two snapshots.
        tolerance: mu, relative change up to which matrices are stable, > 0.

    Deviations:
        Cells that are empty in the snapshot do not count in eta: with them most skewed streams
        never become stable.
    """

    def __init__(self, instance: int, model: CountMin, window: int, tolerance: float) -> None:
        self.instance = whole("instance", instance, least=0)
        self.model = model
        self.window = whole("window", window, least=1)
        self.tolerance = positive("tolerance", tolerance)
        self.state = TrackerState.START
        self._executed = 0
        self._cumulated_ms = 0.0
        self._snapshot: Float64 = np.empty(0)

    def execute(
        self,
        keys: Int64,
        costs_ms: Float64,
        finished_ms: float,
        request: SyncRequest | None = None,
        sizes: Float64 | None = None,
    ) -> list[Feedback]:
        """Measure window by window; send stable matrices and answers. Sizes do not matter."""
        messages: list[Feedback] = []
        done = 0
        while done < keys.size:
            upto = min(keys.size, done + self.window - self._executed)
            self.model.update(keys[done:upto], costs_ms[done:upto])
            self._executed += upto - done
            done = upto
            if self._executed == self.window:
                messages += self._close_window()
        self._cumulated_ms += float(costs_ms.sum())
        if request is not None:
            delta_ms = self._cumulated_ms - request.estimate_ms
            messages.append(Feedback(self.instance, epoch=request.epoch, delta_ms=delta_ms))
        return messages

    def finish(self) -> list[Feedback]:
        """Send the matrices, stable or not, because no more records follow."""
        return [Feedback(self.instance, self.model.hand_over())]

    def _close_window(self) -> list[Feedback]:
        self._executed = 0
        means = self.model.cell_means()
        if self.state is TrackerState.START:
            self.state = TrackerState.STABILIZING
        elif relative_change(self._snapshot, means) <= self.tolerance:
            self.state = TrackerState.START
            return [Feedback(self.instance, self.model.hand_over())]
        self._snapshot = means
        return []


def relative_change(before: Float64, now: Float64) -> float:
    """Return eta (Eq. 1) over the cells that were not empty (NaN) before."""
    seen = ~np.isnan(before)
    total = float(before[seen].sum())
    change = float(np.abs(before[seen] - now[seen]).sum())
    return change / total if total > 0 else 0.0
