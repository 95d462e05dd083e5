"""What instances and scheduler tell each other."""

from dataclasses import dataclass
from typing import Protocol

from penstock.policies.costs import CostModel
from penstock.policies.kernels import Float64, Int64

_HEADER_BYTES = 8  # instance and epoch


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Rides on a record: what the scheduler believes about the instance that gets it.

    Attributes:
        instance: where the record goes.
        epoch: the round of synchronisation it belongs to.
        estimate_ms: the scheduler's clock for the instance, this record's own cost included.
    """

    instance: int
    epoch: int
    estimate_ms: float


@dataclass(frozen=True, slots=True)
class Feedback:
    """One message of an instance to the scheduler.

    Attributes:
        instance: who speaks.
        costs: what it has measured since it last said so, or None.
        epoch: the round of the request that is answered.
        delta_ms: the answer: the instance's true clock minus the scheduler's, or None.
        slowdown: its true costs over the nominal ones; only an engine that knows can tell.
        utilization: work it was given in the last time slot over what it can do in one.
        waited_ms: how long records have waited before they were executed, in total.
        records: how many records that is about.
        planned_ms: how long they were expected to wait, in total.
        busy_ms: how long they took together, if nobody has measured them one by one.
    """

    instance: int
    costs: CostModel | None = None
    epoch: int = 0
    delta_ms: float | None = None
    slowdown: float | None = None
    utilization: float | None = None
    waited_ms: float | None = None
    records: int = 0
    planned_ms: float = 0.0
    busy_ms: float | None = None

    @property
    def message_bytes(self) -> int:
        """Size of the message on a network."""
        answer = 0 if self.delta_ms is None else 8
        return _HEADER_BYTES + answer + (0 if self.costs is None else self.costs.message_bytes)


class Tracker(Protocol):
    """The part of a policy that lives at an instance: it measures, and speaks to the scheduler."""

    @property
    def state(self) -> str:
        """The state it is in, for plots and journals."""

    def execute(
        self,
        keys: Int64,
        costs_ms: Float64,
        finished_ms: float,
        request: SyncRequest | None = None,
    ) -> list[Feedback]:
        """Take note of records executed in this order, and return what is to be sent now.

        Args:
            keys: the records' keys.
            costs_ms: what each of them cost.
            finished_ms: when the last one was done.
            request: what the last one carried.
        """

    def finish(self) -> list[Feedback]:
        """The instance's batch is over and this tracker will not be asked again: say the rest."""
