"""Everything that scaling has learnt about a query, as bytes that outlive the driver."""

from typing import NamedTuple

import numpy as np

from penstock.control.fixed_costs import RecordTime
from penstock.control.timeline import Timeline
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.kernels import Float64

_LABEL = "penstock-scaling"


class SavedScaling(NamedTuple):
    """Numbers that are saved beside the timeline.

    Attributes:
        executors: number of executors in the last plan.
        leads_s: times that executors took from their request until they worked.
    """

    executors: int
    leads_s: Float64


def scaling_bytes(timeline: Timeline, rest: RecordTime, known: SavedScaling) -> bytes:
    """Return what was learnt about a query as bytes.

    Args:
        timeline: timeline of the query.
        rest: run time of tasks outside of balanced operators.
        known: everything else.
    """
    arrays = {f"timeline.{name}": values for name, values in timeline.save().items()}
    arrays["rest"] = rest.save()
    arrays["executors"] = np.array([known.executors])
    arrays["leads_s"] = known.leads_s
    return codec.encode(_LABEL, arrays)


def read_scaling(data: bytes, timeline: Timeline, rest: RecordTime) -> SavedScaling:
    """Restore the bytes of `scaling_bytes` into a new timeline and run time."""
    state = codec.decode(_LABEL, data)
    try:
        timeline.load(
            {key.removeprefix("timeline."): value for key, value in state.items() if "." in key}
        )
        rest.load(state["rest"])
        return SavedScaling(int(state["executors"][0]), state["leads_s"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PenstockError(f"saved state of scaling does not fit: {error}") from None
