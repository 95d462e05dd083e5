"""What shedders have in common that hold a target."""

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding.base import Shedder, checked
from penstock.policies.shedding.gate import Gate
from penstock.policies.shedding.targets import Target


class Gated(Shedder):
    """A shedder whose gate admits records as long as a target holds (see `gate`)."""

    def __init__(self, target: Target, instances: int, gate: Gate) -> None:
        super().__init__(instances)
        self.target = checked_target(target)
        self._gate = gate
        self._share = np.ones(1)

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

    def _decide(
        self,
        keys: Int64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        out: Bool,
        left: Int64 | None = None,
    ) -> int:
        costs_ms = self.expected_ms(keys)
        return self._gate.admit(costs_ms, arrival_ms, now_ms, protected, out, self._pace, left)

    @property
    def _pace(self) -> float:
        """By how much the clock moves on for a millisecond of cost."""
        return 1 / (self.instances * float(self._share[0]))

    def begin(self, now_ms: float, share: float = 1.0) -> None:
        """All instances are idle; this router may use a share of them."""
        self._share[0] = share
        self._gate.begin(now_ms)

    def restart(self) -> None:
        """Nothing waits and nothing has waited."""
        self._gate.restart()

    def _observe(self, feedback: Feedback) -> None:
        if feedback.waited_ms is not None:
            self._gate.note(feedback.waited_ms, feedback.records)

    def _state(self) -> Arrays:
        return {"share": self._share, **self._gate.arrays()}


def checked_target(target: object) -> Target:
    """Return the target, if it is one."""
    if not isinstance(target, Target):
        raise PenstockError(
            f"target must be made by average, sliding_average or each_record; got {target!r}"
        )
    return target
