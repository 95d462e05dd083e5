"""The base of all shedders that hold a target."""

from abc import abstractmethod
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.base import Records, Shedder, checked, refuse_wrong_start
from penstock.policies.shedding.finish_clock import Offer
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import float64s

# Share of a batch's lateness that the next batch plans for.
_FOLLOW = 0.5
# Number of records that count half as much as many records do.
_FEW = 50


class ShedderState(StrEnum):
    """States of a shedder: those of Figure 3 of the LAS paper."""

    NOP = "NOP"
    SEND = "SEND"
    RUN = "RUN"


class TargetShedder(Shedder):
    """A shedder that admits records as long as a target holds (see `admission`).

    Args:
        target: limit of the waiting time.
        instances: number of instances that share the admitted records, >= 1.
        admission: admission that decides.
    """

    def __init__(self, target: Target, instances: int, admission: Admission) -> None:
        super().__init__(instances)
        self.target: Target = checked_target(target)
        self._admission = admission
        self._share = np.ones(1)
        # Time by which a batch's records are executed later than planned.
        self._lag_ms = np.zeros(1)

    @abstractmethod
    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the expected cost of a record of each key."""

    @property
    def state(self) -> str:
        """NOP until it has learnt enough to decide, then RUN."""
        return (ShedderState.RUN if self.running else ShedderState.NOP).value

    def admit(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        protected: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> Bool:
        """Admit records as long as the target holds."""
        return self._decide(_with_sizes(checked(keys, arrival_ms, now_ms, protected), sizes))

    def admit_together(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike,
        protected: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> Bool:
        """Admit records as long as the target holds, and choose among all that are there."""
        records = _with_sizes(checked(keys, arrival_ms, now_ms, protected), sizes)
        if not self.running or not records.keys.size:
            return np.ones(records.keys.size, dtype=np.bool_)
        return self._admission.admit_together(self._offer(records), self._pace)

    def _decide(self, records: Records, left: Int64 | None = None) -> Bool:
        """Decide about records until `left` of them are admitted; return the decisions made."""
        if self.running:
            return self._admission.admit(self._offer(records), self._pace, left)
        # Costs are unknown: all are admitted.
        size = records.keys.size
        decided = size if left is None else min(size, int(left[0]))
        if left is not None:
            left[0] -= decided
        return np.ones(decided, dtype=np.bool_)

    def _offer(self, records: Records) -> Offer:
        return Offer(
            costs_ms=self._expected(records),
            arrival_ms=records.arrival_ms,
            now_ms=records.now_ms,
            protected=records.protected,
        )

    def _expected(self, records: Records) -> Float64:
        """Return the expected cost of each record."""
        return self.expected_ms(records.keys)

    @property
    def _pace(self) -> float:
        """Time by which the clock moves on for a millisecond of cost."""
        return 1 / (self.instances * float(self._share[0]))

    def begin(self, now_ms: float, share: float = 1.0) -> None:
        """Begin a batch: all instances are idle, and this router may use a share of them."""
        refuse_wrong_start(now_ms, share)
        self._share[0] = share
        self._admission.begin(now_ms + float(self._lag_ms[0]), share)

    @property
    def planned_ms(self) -> float:
        """Total expected waiting time of the records admitted since the batch began."""
        return self._admission.planned_ms

    def restart(self) -> None:
        """Begin another stream: forget all admitted records and their waiting times."""
        self._admission.restart()

    def _observe(self, feedback: Feedback) -> None:
        if feedback.waited_ms is None or not feedback.records or not feedback.planned_ms:
            return  # records admitted before costs were known do not count, as in the paper
        # The planned time is noted, not the true one. Lateness is made up for by planning it from
        # now on, and not by waiting less than the target allows.
        self._admission.note(feedback.planned_ms, feedback.records)
        late_ms = (feedback.waited_ms - feedback.planned_ms) / feedback.records
        weight = _FOLLOW * feedback.records / (feedback.records + _FEW)
        # At most half of the target: the lag alone never makes it shed.
        most_ms = self.target.limit_ms / 2
        self._lag_ms[0] = min(max(self._lag_ms[0] + weight * late_ms, 0.0), most_ms)

    def _state(self) -> Arrays:
        return {"share": self._share, "lag_ms": self._lag_ms, **self._admission.arrays()}


def _with_sizes(records: Records, sizes: npt.ArrayLike | None) -> Records:
    if sizes is None:
        return records
    return records._replace(sizes=float64s("sizes", sizes, records.keys.size))


def checked_target(target: object) -> Target:
    """Return the target if it is one."""
    if not isinstance(target, Target):
        raise PenstockError(
            f"target must be made by average, sliding_average or each_record; got {target!r}"
        )
    return target
