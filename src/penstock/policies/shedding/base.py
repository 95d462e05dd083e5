"""The shedder: which record is dropped when there is more work than time."""

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
    """The outcome of deciding about some records.

    Attributes:
        mask: whether each of them is admitted, in their order.
        answerable: whether the last one, which is admitted, may be answered by its instance.
        request: what the last one carries to its instance.
    """

    mask: Bool
    answerable: bool = False
    request: SyncRequest | None = None


class Shedder(Learner, ABC):
    """Decides for every record whether it is processed or shed.

    A shedder of your own needs `admit` only; to learn, see `Learner`.

    Args:
        instances: how many instances share the admitted records, >= 1.

    Example:
        >>> class Odd(Shedder):
        ...     def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        ...         return np.asarray(keys) % 2 == 1
        >>> Odd().admit(np.array([1, 2, 3]), np.zeros(3))
        array([ True, False,  True])
    """

    family = "shedder"
    # Whether it sheds without looking at the load.
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

        Args:
            keys: the records' keys as int64, in the order of arrival.
            arrival_ms: when each record arrived: it has been waiting since then.
            now_ms: when it is decided about each record; when it arrived, by default.
            protected: records that must not be shed (the paper's CHECKUTILITY); none by default.
        """

    def admit_together(
        self,
        keys: npt.ArrayLike,
        arrival_ms: npt.ArrayLike,
        now_ms: npt.ArrayLike,
        protected: npt.ArrayLike | None = None,
    ) -> Bool:
        """Decide about records that are all there at once, and so may be compared."""
        return self.admit(keys, arrival_ms, now_ms, protected)

    def admit_until_answer(
        self, keys: Int64, arrival_ms: Float64, now_ms: Float64, protected: Bool
    ) -> Admitted:
        """Decide about the first records: up to one whose execution may be answered.

        The decisions are those of `admit`; see `Grouping.route_until_answer`.
        """
        if self._silent():
            return Admitted(np.asarray(self.admit(keys, arrival_ms, now_ms, protected)))
        mask = np.asarray(self.admit(keys[:1], arrival_ms[:1], now_ms[:1], protected[:1]))
        return Admitted(mask, answerable=bool(mask.any()))

    def begin(self, now_ms: float, share: float = 1.0) -> None:
        """Begin a batch: all instances are idle, and several routers share them.

        Args:
            now_ms: when the batch begins.
            share: of the instances' capacity that this router may use, in (0, 1].
        """

    @property
    def planned_ms(self) -> float:
        """How long the records admitted since the beginning of the batch will wait, in total."""
        return 0.0

    def restart(self) -> None:
        """Begin another stream: nothing waits and nothing has waited; costs stay learnt."""

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return what records of these keys are expected to cost; 0 if nobody expects."""
        return np.zeros(int64_keys("keys", keys).size)

    def _try(self, keys: Int64) -> None:
        self.begin(0.0)
        self.admit_together(keys, np.zeros(keys.size), np.zeros(keys.size))


def checked(
    keys: npt.ArrayLike,
    arrival_ms: npt.ArrayLike,
    now_ms: npt.ArrayLike | None,
    protected: npt.ArrayLike | None,
) -> tuple[Int64, Float64, Float64, Bool]:
    """Validate the arguments of `admit`."""
    array = int64_keys("keys", keys)
    arrival = float64s("arrival_ms", arrival_ms, array.size)
    now = arrival if now_ms is None else float64s("now_ms", now_ms, array.size)
    if protected is None or np.size(protected) == 0:
        return array, arrival, now, NOBODY
    spared = np.require(protected, dtype=np.bool_, requirements=["C", "W"])
    if spared.shape != (array.size,):
        raise PenstockError(f"protected must have shape ({array.size},); got {spared.shape}")
    return array, arrival, now, spared
