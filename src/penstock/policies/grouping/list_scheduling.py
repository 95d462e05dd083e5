"""List scheduling: tasks start in order, each one on the slot that is free first."""

from typing import NamedTuple

from penstock.policies.grouping.greedy import least_loaded
from penstock.policies.kernels import Float64, Int64, kernel


class Ran(NamedTuple):
    """When and where tasks ran; arrays with one entry for each task.

    Attributes:
        slot: slot of the task.
        began_ms: time of its start.
        end_ms: time of its end.
    """

    slot: Int64
    began_ms: Float64
    end_ms: Float64


@kernel
def list_schedule(
    work_ms: Float64, slots: tuple[Float64, Float64, float], free_ms: Float64, ran: Ran
) -> None:
    """Start tasks in order, each one on the slot that is free first (Graham, 1966).

    Args:
        work_ms: work of each task on a slot with slowdown 1.
        slots: slowdown of each slot, the time of a slot for each task besides its work, and the
            time between the starts of two tasks.
        free_ms: time at which each slot is free, moved on in place.
        ran: when and where the tasks ran, filled in.
    """
    slowdown, task_ms, launch_ms = slots
    launched_ms = -launch_ms
    for i in range(work_ms.size):
        chosen = least_loaded(free_ms)
        launched_ms = max(free_ms[chosen], launched_ms + launch_ms)
        free_ms[chosen] = launched_ms + task_ms[i] + work_ms[i] * slowdown[chosen]
        ran.slot[i] = chosen
        ran.began_ms[i] = launched_ms
        ran.end_ms[i] = free_ms[chosen]


@kernel
def makespan(work_ms: Float64, slowdown: Float64, task_ms: float) -> float:
    """Return when the last task ends.

    Args:
        work_ms: work of each task on a slot with slowdown 1, in the order of their starts.
        slowdown: slowdown of each slot.
        task_ms: time of a slot for each task besides its work.
    """
    free_ms = slowdown * 0.0
    for work in work_ms:
        chosen = least_loaded(free_ms)
        free_ms[chosen] += task_ms + work * slowdown[chosen]
    return float(free_ms.max())
