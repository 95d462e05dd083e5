"""Messages between a policy and the instances."""

import math
from dataclasses import dataclass
from typing import Protocol

from penstock.policies.costs import CostModel
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import finite, positive, refuse_other, whole

_HEADER_BYTES = 8  # instance and epoch
_NUMBERS = ("delta_ms", "slowdown", "utilization", "waited_ms", "planned_ms", "busy_ms")


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Request that a record carries to its instance: compare this estimate with your clock.

    Attributes:
        instance: instance that gets the record.
        epoch: number of the round of synchronisation.
        estimate_ms: the policy's clock for the instance, including the cost of this record.
    """

    instance: int
    epoch: int
    estimate_ms: float


@dataclass(frozen=True, slots=True)
class Feedback:
    """One message of an instance to a policy.

    Attributes:
        instance: number of the instance that sends it.
        costs: costs measured since the last message with costs, or None.
        epoch: number of the round of the request that is answered.
        delta_ms: the answer: true clock of the instance minus the policy's estimate, or None.
        slowdown: true costs over nominal ones; only the simulator knows it.
        utilization: work given in the last time slot over the work that fits into a slot.
        waited_ms: total time that records have waited before they were executed.
        records: number of records that have waited.
        planned_ms: total time that these records were expected to wait.
        busy_ms: total execution time of these records, if they were not measured one by one.
        worker: number of the worker on which the task ran; None if it is that of the instance.
        overhead_ms: time that the engine spends on a task besides its records; None if unknown.
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
    worker: int | None = None
    overhead_ms: float | None = None

    @property
    def message_bytes(self) -> int:
        """Size of the message on a network. Read by the simulator only."""
        answer = 0 if self.delta_ms is None else 8
        return _HEADER_BYTES + answer + (0 if self.costs is None else self.costs.message_bytes)


def refuse_wrong(feedback: Feedback) -> None:
    """Refuse a message with numbers that would spoil everything learnt, such as NaN."""
    if _is_usual(feedback):
        return
    refuse_other("feedback", feedback, Feedback)
    whole("feedback: instance", feedback.instance, least=0)
    whole("feedback: records", feedback.records, least=0)
    for name in _NUMBERS:
        number = getattr(feedback, name)
        if number is not None:
            finite(f"feedback: {name}", number)
    if feedback.slowdown is not None:
        positive("feedback: slowdown", feedback.slowdown)


def _is_usual(feedback: Feedback) -> bool:
    """Return quickly whether an answer has nothing but finite numbers; most messages are such."""
    if type(feedback) is not Feedback or feedback.slowdown is not None:
        return False
    total = feedback.planned_ms
    for number in (
        feedback.delta_ms,
        feedback.utilization,
        feedback.waited_ms,
        feedback.busy_ms,
    ):
        if number is not None:
            if type(number) is not float:
                return False
            total += number
    whole_numbers = type(feedback.instance) is type(feedback.records) is int
    counted = whole_numbers and feedback.instance >= 0 and feedback.records >= 0
    return counted and type(total) is float and math.isfinite(total)


class Tracker(Protocol):
    """The part of a policy that lives at an instance: it measures records and sends messages."""

    @property
    def state(self) -> str:
        """Name of the state it is in, for plots. Read by the simulator only."""

    def execute(
        self,
        keys: Int64,
        costs_ms: Float64,
        finished_ms: float,
        request: SyncRequest | None = None,
        sizes: Float64 | None = None,
    ) -> list[Feedback]:
        """Measure records that were executed in this order; return the messages to send now.

        Called by the meter on the executor, for each Arrow batch and without requests; by the
        simulator, after each record whose instance may answer.

        Args:
            keys: keys of the records.
            costs_ms: cost of each record.
            finished_ms: time at which the last record was done.
            request: request that the last record carried.
            sizes: size of each record; given only if the policy is `sized`.
        """

    def finish(self) -> list[Feedback]:
        """Return the messages that are left at the end of a batch.

        Called by the meter on the executor, at the end of a task; the tracker is not used again.
        """


def measure(
    tracker: Tracker, keys: Int64, costs_ms: Float64, *, sizes: Float64 | None
) -> list[Feedback]:
    """Let a tracker measure records without requests; return the messages to send now.

    A tracker of a user need not know sizes, so they are passed only if there are any.
    """
    finished_ms = float(costs_ms.sum())
    if sizes is None:
        return tracker.execute(keys, costs_ms, finished_ms)
    return tracker.execute(keys, costs_ms, finished_ms, sizes=sizes)
