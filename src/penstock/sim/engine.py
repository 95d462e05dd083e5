"""The engine of virtual time: an operator with k FIFO instances behind a grouping."""

from penstock.policies.grouping import Grouping
from penstock.policies.validation import at_least_zero, positive, whole
from penstock.sim.answers import AnswersRun
from penstock.sim.result import Result
from penstock.sim.service import Schedule
from penstock.sim.sources import SourcesRun
from penstock.sim.workloads import Stream


def simulate(
    grouping: Grouping,
    stream: Stream,
    *,
    slowdowns: Schedule = (),
    delay_ms: float = 0.0,
    sources: int = 1,
    slot_ms: float | None = None,
) -> Result:
    """Route and execute a stream in virtual time.

    The grouping is the one that runs on Spark: it is asked for every record when it arrives, and
    hears what an instance says after the network's delay. It learns: pass a clone to keep yours.

    Args:
        grouping: what is tried.
        stream: what arrives.
        slowdowns: pairs of a record's number and the instances' slowdowns from there on.
        delay_ms: time a message takes from an instance to the scheduler.
        sources: how many route on their own, with a copy of the grouping each.
        slot_ms: time slot after which instances tell their utilization; None if they do not.

    Example:
        >>> from penstock.policies.grouping import RoundRobin
        >>> stream = Stream.of([1, 2, 1], [10.0, 1.0, 10.0]).every(interval_ms=1.0)
        >>> simulate(RoundRobin(instances=2), stream).completion_ms
        array([10.,  1., 18.])
    """
    delay_ms = at_least_zero("delay_ms", delay_ms)
    sources = whole("sources", sources, least=1)
    if slot_ms is not None:
        slot_ms = positive("slot_ms", slot_ms)
    if sources == 1 and slot_ms is None:
        return AnswersRun(grouping, stream, slowdowns, delay_ms).result()
    return SourcesRun(grouping, stream, slowdowns, delay_ms, sources, slot_ms).result()
