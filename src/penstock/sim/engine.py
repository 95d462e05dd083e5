"""The engine of virtual time: k FIFO instances, a grouping, and optionally a shedder."""

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder
from penstock.policies.shedding.base import checked
from penstock.policies.validation import at_least_zero, positive, refuse_other, whole
from penstock.sim.answers import AnswersRun
from penstock.sim.result import Result
from penstock.sim.service import Schedule
from penstock.sim.sources import SourcesRun
from penstock.sim.workloads import Stream

# Largest number of time slots of a simulation.
_MOST_SLOTS = 1_000_000


def simulate(
    grouping: Grouping,
    stream: Stream,
    *,
    slowdowns: Schedule = (),
    delay_ms: float = 0.0,
    sources: int = 1,
    slot_ms: float | None = None,
    shedder: Shedder | None = None,
    protected: npt.ArrayLike | None = None,
) -> Result:
    """Route and execute a stream in virtual time.

    The same policies run on Spark. They decide about every record when it arrives, and receive
    the messages of instances after the network's delay. The simulation changes the policies that
    you pass, because they learn: pass clones to keep yours unchanged.

    Args:
        grouping: grouping that routes the records.
        stream: records that arrive.
        slowdowns: pairs of a record's number and the instances' slowdowns from there on.
        delay_ms: time that a message takes from an instance to the scheduler.
        sources: number of sources, each of which routes on its own with a copy of the grouping.
        slot_ms: length of the slots after which instances report their utilization; None for no
            reports.
        shedder: shedder that decides which records are dropped; None to drop no record.
        protected: whether each record must not be dropped; None to protect no record.

    Example:
        >>> from penstock.policies.grouping import RoundRobin
        >>> stream = Stream.of([1, 2, 1], [10.0, 1.0, 10.0]).every(interval_ms=1.0)
        >>> simulate(RoundRobin(instances=2), stream).completion_ms
        array([10.,  1., 18.])
    """
    refuse_other("grouping", grouping, Grouping, ", such as RoundRobin(instances=2)")
    refuse_other("stream", stream, Stream, ", such as Stream.of(keys, costs_ms)")
    if grouping.servers > 1:
        raise PenstockError(
            f"grouping must have servers=1, because instances serve one record at a time; got "
            f"{grouping.servers}. Use simulate_batches for more"
        )
    delay_ms = at_least_zero("delay_ms", delay_ms)
    sources = whole("sources", sources, least=1)
    if slot_ms is not None:
        slot_ms = positive("slot_ms", slot_ms)
        _refuse_short(slot_ms, stream)
    if shedder is None and protected is not None:
        raise PenstockError("protected must be None without a shedder, as no record is dropped")
    if shedder is not None:
        refuse_other("shedder", shedder, Shedder, ", such as LoadAware(average('20 ms'))")
        _refuse_misfit(grouping, shedder, sources=sources, slot_ms=slot_ms)
    if sources == 1 and slot_ms is None:
        unprotected = np.zeros(len(stream), dtype=np.bool_)
        given = unprotected if protected is None else protected
        spared = checked(stream.keys, stream.arrivals_ms, None, given).protected
        return AnswersRun(
            grouping, stream, slowdowns, delay_ms=delay_ms, shedder=shedder, protected=spared
        ).result()
    return SourcesRun(
        grouping, stream, slowdowns, delay_ms=delay_ms, sources=sources, slot_ms=slot_ms
    ).result()


def _refuse_short(slot_ms: float, stream: Stream) -> None:
    """Refuse slots that a simulation would take hours to close one by one."""
    lasts_ms = float(np.ptp(stream.arrivals_ms)) if len(stream) else 0.0
    least_ms = lasts_ms / _MOST_SLOTS
    if slot_ms < least_ms:
        raise PenstockError(
            f"slot_ms must be >= {least_ms:g}, a millionth of the stream; got {slot_ms:g}"
        )


def _refuse_misfit(
    grouping: Grouping, shedder: Shedder, *, sources: int, slot_ms: float | None
) -> None:
    if sources > 1 or slot_ms is not None:
        raise PenstockError(
            f"sources must be 1 and slot_ms None with a shedder; got sources = {sources}, "
            f"slot_ms = {slot_ms}. Leave them out"
        )
    if shedder.instances != grouping.instances:
        raise PenstockError(
            f"shedder: instances must be that of the grouping ({grouping.instances}); "
            f"got {shedder.instances}"
        )
