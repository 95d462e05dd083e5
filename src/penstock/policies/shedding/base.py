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
from penstock.policies.validation import (
    between,
    bools,
    finite,
    finites,
    float64s,
    int64_keys,
    misfit_of,
)

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
        silent = self._silent()
        count = keys.size if silent else min(1, keys.size)
        part = slice(0, count)
        mask = self.admit(keys[part], arrival_ms[part], now_ms[part], protected[part])
        refuse_misfit(self, mask, most=count, least=count)
        return Admitted(mask, answerable=not silent and bool(mask.any()))

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
        sizes: size of each record; None if costs do not follow sizes.
    """

    keys: Int64
    arrival_ms: Float64
    now_ms: Float64
    protected: Bool
    sizes: Float64 | None = None

    def part(self, kept: slice) -> "Records":
        """Return some of the records."""
        return Records(
            keys=self.keys[kept],
            arrival_ms=self.arrival_ms[kept],
            now_ms=self.now_ms[kept],
            protected=self.protected[kept],
            sizes=None if self.sizes is None else self.sizes[kept],
        )


def checked(
    keys: npt.ArrayLike,
    arrival_ms: npt.ArrayLike,
    now_ms: npt.ArrayLike | None,
    protected: npt.ArrayLike | None,
) -> Records:
    """Validate the arguments of `Shedder.admit`, for a shedder that decides by time."""
    records = untimed(keys, arrival_ms, now_ms, protected)
    finites("arrival_ms", records.arrival_ms, records.keys.size)
    if now_ms is not None:
        finites("now_ms", records.now_ms, records.keys.size)
    return records


def untimed(
    keys: npt.ArrayLike,
    arrival_ms: npt.ArrayLike,
    now_ms: npt.ArrayLike | None,
    protected: npt.ArrayLike | None,
) -> Records:
    """Validate the arguments of `Shedder.admit`, but for the values of times."""
    array = int64_keys("keys", keys)
    arrival = float64s("arrival_ms", arrival_ms, array.size)
    now = arrival if now_ms is None else float64s("now_ms", now_ms, array.size)
    spared = NOBODY if protected is None else bools("protected", protected, array.size)
    return Records(keys=array, arrival_ms=arrival, now_ms=now, protected=spared)


def refuse_misfit(shedder: Shedder, found: object, *, most: int, least: int) -> None:
    """Refuse other than True or False for each record; a shedder of a user may be wrong.

    Args:
        shedder: shedder that has decided.
        found: its decisions about some records.
        most: number of records.
        least: least number of records that must have been decided about.
    """
    misfit = misfit_of(found, "b", most=most, least=least)
    if misfit:
        raise PenstockError(
            f"{type(shedder).__name__}.admit must return a bool array with True or False for each "
            f"of {misfit}"
        )


def refuse_wrong_start(now_ms: float, share: float) -> None:
    """Validate the arguments of `Shedder.begin`."""
    finite("now_ms", now_ms)
    between("share", share, 0, 1, closed="high")
