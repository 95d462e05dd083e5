"""What shedders have in common that hold a target."""

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.base import Shedder, checked
from penstock.policies.shedding.targets import Target

# How far a batch's lateness is followed at once.
_FOLLOW = 0.5
# Records that say half as much about it as many do.
_FEW = 50


class TargetShedder(Shedder):
    """A shedder whose admission admits records as long as a target holds (see `admission`)."""

    def __init__(self, target: Target, instances: int, admission: Admission) -> None:
        super().__init__(instances)
        self.target: Target = checked_target(target)
        self._admission = admission
        self._share = np.ones(1)
        # How much later than planned a batch's records are executed.
        self._lag_ms = np.zeros(1)

    @abstractmethod
    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return what records of these keys are expected to cost."""

    def admit(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Admit records as long as the target holds."""
        array, arrival, now, spared = checked(keys, arrival_ms, now_ms, protected)
        out = np.empty(array.size, dtype=np.bool_)
        self._decide(array, arrival, now, spared, out)
        return out

    def admit_together(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Admit records as long as the target holds, of all those that are there."""
        array, arrival, now, spared = checked(keys, arrival_ms, now_ms, protected)
        out = np.ones(array.size, dtype=np.bool_)
        if self.state == "RUN" and array.size:
            costs_ms = self.expected_ms(array)
            self._admission.admit_together(costs_ms, arrival, now, spared, out, self._pace)
        return out

    def _decide(
        self,
        keys: Int64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        out: Bool,
        left: Int64 | None = None,
    ) -> int:
        if self.state != "RUN":
            return self._admit_all(keys, out, left)
        costs_ms = self.expected_ms(keys)
        return self._admission.admit(costs_ms, arrival_ms, now_ms, protected, out, self._pace, left)

    def _admit_all(self, keys: Int64, out: Bool, left: Int64 | None) -> int:
        """Admit without looking: nothing is known yet."""
        decided = keys.size if left is None else min(keys.size, int(left[0]))
        out[:decided] = True
        if left is not None:
            left[0] -= decided
        return decided

    @property
    def _pace(self) -> float:
        """By how much the clock moves on for a millisecond of cost."""
        return 1 / (self.instances * float(self._share[0]))

    def begin(self, now_ms: float, share: float = 1.0) -> None:
        """All instances are idle; this router may use a share of them."""
        self._share[0] = share
        self._admission.begin(now_ms + float(self._lag_ms[0]), share)

    @property
    def planned_ms(self) -> float:
        """How long the records admitted since the beginning of the batch will wait, in total."""
        return self._admission.planned_ms

    def restart(self) -> None:
        """Nothing waits and nothing has waited."""
        self._admission.restart()

    def _observe(self, feedback: Feedback) -> None:
        if feedback.waited_ms is None or not feedback.records or not feedback.planned_ms:
            return  # what was admitted before anything was known is not counted, as in the paper
        # As planned: what came later than that is made up for by planning it from now on, and
        # not by waiting less than the target allows.
        self._admission.note(feedback.planned_ms, feedback.records)
        late_ms = (feedback.waited_ms - feedback.planned_ms) / feedback.records
        weight = _FOLLOW * feedback.records / (feedback.records + _FEW)
        # At most half of the target: by lag alone nothing is shed.
        most_ms = self.target.limit_ms / 2
        self._lag_ms[0] = min(max(self._lag_ms[0] + weight * late_ms, 0.0), most_ms)

    def _state(self) -> Arrays:
        return {"share": self._share, "lag_ms": self._lag_ms, **self._admission.arrays()}


def checked_target(target: object) -> Target:
    """Return the target, if it is one."""
    if not isinstance(target, Target):
        raise PenstockError(
            f"target must be made by average, sliding_average or each_record; got {target!r}"
        )
    return target
