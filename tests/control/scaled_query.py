"""A query whose executors a scaler plans: batches in, plans out."""

import math

import numpy as np
import pytest

from penstock.control import Limits, Running, ScalingLoop, Timeline
from penstock.control.timeline import Look, Work
from penstock.policies.scaling import Preventive, RateBased, Scaler

PERIOD_S, INTERVAL_S = 10.0, 5.0
WAITING, BUSY = Running(active=False), Running(active=True)
FOLLOWING = [pytest.param(one, id=one.name) for one in (RateBased(), Preventive())]


class Told(Scaler):
    """Wants what it is told, one plan after the other, and remembers what it was shown."""

    def __init__(self, wishes=(), min_degree=1, max_degree=8):
        super().__init__(min_degree, max_degree)
        self.wishes = wishes
        self.shown = []

    def wanted(self, topology, history):
        [(name, seen)] = history.operators.items()
        self.shown.append(seen)
        return {name: (self.wishes[min(len(self.shown), len(self.wishes)) - 1], "told so")}


def loop_of(scaler, executors=1, *, limits=None, **more):
    line = Timeline(PERIOD_S, INTERVAL_S)
    return ScalingLoop(
        "words", scaler, limits or Limits(1, 8, 2), timeline=line, executors=executors, **more
    )


def fill(loop, periods=3, per_s=10.0, cost_ms=20.0, **more):
    """Let a constant rate come, and be done."""
    for i in range(2 * periods + 1):
        rows = per_s * INTERVAL_S
        work = Work(rows * i, rows * i, cost_ms * rows * i)
        loop.timeline.add(Look(INTERVAL_S * i, 1.0, rows, 0.0, work, **more))
    return PERIOD_S * periods


def planned(*wishes, executors=1, state_bytes=0.0, **more):
    """A loop that has been told what to wish, and its plans."""
    loop = loop_of(Told(wishes), executors, **more)
    now_s = fill(loop, state_bytes=state_bytes)
    return loop, [loop.plan(now_s + PERIOD_S * i, WAITING) for i in range(len(wishes))]


def journal_of(loop, kind):
    return [entry for entry in loop.journal.entries() if entry["kind"] == kind]


def followed(loop, per_s, periods, *, told=True, cost_ms=20.0):
    """Executors planned for each period of a query that gets so many records every second.

    A batch takes as long as all slots need for it; executors come and go at once. Routers may tell
    what the running batch has read.
    """
    arrived = np.cumsum([0.0, *(per_s(second) for second in range(int(PERIOD_S * periods)))])
    found, began_s, total = [], 0.0, 0.0
    slots = loop.limits.slots

    def plan_until(end_s, running):
        while len(found) < periods and PERIOD_S * (len(found) + 1) < end_s:
            found.append(loop.plan(PERIOD_S * (len(found) + 1), running).executors)

    while len(found) < periods:
        rows = np.interp(began_s, np.arange(arrived.size), arrived) - total
        total += rows
        taken_s = 0.2 + rows * cost_ms / 1000 / (loop.executors * slots)
        next_s = max(began_s + taken_s, INTERVAL_S * (math.floor(began_s / INTERVAL_S + 1e-9) + 1))
        plan_until(began_s + 0.1, BUSY)  # they need a moment
        plan_until(began_s + taken_s, Running(True, rows if told else 0.0))
        loop.timeline.add(Look(began_s, taken_s, rows, 0.0, Work(total, total, cost_ms * total)))
        plan_until(next_s, WAITING)
        began_s = next_s
    return np.array(found)
