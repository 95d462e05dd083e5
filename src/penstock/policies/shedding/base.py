"""The shedder: decides which records are dropped when there is more work than time."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.feedback import SyncRequest
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.learner import Learner
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import float64s, int64_keys

NOBODY: Bool = np.zeros(0, dtype=np.bool_)


class Admitted(NamedTuple):
    """The decisions about some records.

    Attributes:
        mask: whether each record is admitted, in their order.
        answerable: whether the instance of the last record, which is admitted, may answer it.
        request: request that the last record carries to its instance.
    """

    mask: Bool
    answerable: bool = False
    request: SyncRequest | None = None


class Shedder(Learner, ABC):
    """Decides for every record whether it is processed or shed.

    A shedder of your own needs `admit` only; to learn, see `Learner`.

    Args:
        instances: number of instances that share the admitted records, >= 1.

    Example:
        >>> class Odd(Shedder):
        ...     def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        ...         return np.asarray(keys) % 2 == 1
        >>> Odd().admit(np.array([1, 2, 3]), np.zeros(3))
        array([ True, False,  True])
    """

    family = "shedder"
    # Whether it sheds without regard to the load.
    blind: ClassVar[bool] = False
    # Whether it only works if single records are answered, which micro-batches cannot do.
    needs_answers: ClassVar[bool] = False
    target: Target | None = None

    @abstractmethod
    def admit(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike | None = None,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Return whether each record is processed.

        Called by `admit_together` and `admit_until_answer`, unless a shedder overrides these.

        Args:
            keys: keys of the records as int64, in the order of arrival.
            arrival_ms: time at which each record arrived; it has been waiting since then.
            now_ms: time of the decision about each record; its arrival by default.
            protected: whether each record must not be shed (the paper's CHECKUTILITY); none by
                default.
        """

    def admit_together(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Decide about records that are all there at once, so that they can be compared.

        Called by the router on the executor, for each Arrow batch.
        """
        return self.admit(keys, arrival_ms, now_ms, protected)

    def admit_until_answer(
        self, keys: Int64, arrival_ms: Float64, now_ms: Float64, protected: Bool
    ) -> Admitted:
        """Decide about the first records: up to one whose execution may be answered.

        Called by the simulator only. The decisions are those of `admit`; see
        `Grouping.route_until_answer`.
        """
        if self._silent():
            return Admitted(np.asarray(self.admit(keys, arrival_ms, now_ms, protected)))
        mask = np.asarray(self.admit(keys[:1], arrival_ms[:1], now_ms[:1], protected[:1]))
        return Admitted(mask, answerable=bool(mask.any()))

    def begin(self, now_ms: float, share: float = 1.0) -> None:
        """Begin a batch: all instances are idle, and several routers share them.

        Called by the router on the executor, at the start of each task.

        Args:
            now_ms: time at which the batch begins.
            share: share of the instances' capacity that this router may use, in (0, 1].
        """

    @property
    def planned_ms(self) -> float:
        """Total expected waiting time of the records admitted since the batch began.

        Read by the router on the executor, at the end of each task.
        """
        return 0.0

    def restart(self) -> None:
        """Begin another stream: forget waiting times, and keep learnt costs.

        Called by the controller on the driver, when saved state is loaded.
        """

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the expected cost of a record of each key; 0 if the shedder expects none.

        Called by the writer of spilled records on the executor.
        """
        return np.zeros(int64_keys("keys", keys).size)

    def _try(self, keys: Int64) -> None:
        self.begin(0.0)
        self.admit_together(keys, np.zeros(keys.size), np.zeros(keys.size))


class Records(NamedTuple):
    """Records to decide about: the validated arguments of `Shedder.admit`.

    Attributes:
        keys: key of each record.
        arrival_ms: time at which each record arrived.
        now_ms: time of the decision about each record.
        protected: whether each record must not be shed; empty if none is protected.
    """

    keys: Int64
    arrival_ms: Float64
    now_ms: Float64
    protected: Bool

    def part(self, kept: slice) -> "Records":
        """Return some of the records."""
        return Records(
            keys=self.keys[kept],
            arrival_ms=self.arrival_ms[kept],
            now_ms=self.now_ms[kept],
            protected=self.protected[kept],
        )


def checked(
    keys: npt.ArrayLike,
    arrival_ms: npt.ArrayLike,
    now_ms: npt.ArrayLike | None,
    protected: npt.ArrayLike | None,
) -> Records:
    """Validate the arguments of `Shedder.admit`."""
    array = int64_keys("keys", keys)
    arrival = float64s("arrival_ms", arrival_ms, array.size)
    now = arrival if now_ms is None else float64s("now_ms", now_ms, array.size)
    spared = NOBODY
    if protected is not None and np.size(protected):
        spared = np.require(protected, dtype=np.bool_, requirements=["C", "W"])
        if spared.shape != (array.size,):
            raise PenstockError(f"protected must have shape ({array.size},); got {spared.shape}")
    return Records(keys=array, arrival_ms=arrival, now_ms=now, protected=spared)
