"""Kernels of the graph simulation: records as a fluid, first in, first out."""

import numpy as np
import numpy.typing as npt

from penstock.policies.kernels import Float64, Int64, kernel

STEP_S = 0.1
# Names of the counts.
RECEIVED, PROCESSED, EMITTED, BUSY_S, COUNTS = range(5)


@kernel
def _push(
    operator: int,
    entry_step: int,
    records: float,
    entry: Int64,
    amount: Float64,
    head: Int64,
    tail: Int64,
) -> None:
    """Append to a queue; pieces of the same step are one, and so are the last two of a full one."""
    size = entry.shape[1]
    last = (tail[operator] - 1) % size
    waiting = tail[operator] - head[operator]
    if waiting and (entry[operator, last] == entry_step or waiting == size):
        amount[operator, last] += records
        return
    place = tail[operator] % size
    entry[operator, place] = entry_step
    amount[operator, place] = records
    tail[operator] += 1


@kernel
def _timed_out(
    step: int, links: npt.NDArray[np.bool_], expected: Float64, entered: Float64, left: Float64
) -> float:
    """Records that entered in a step and have not left every sink."""
    if step < 0 or entered[step] <= 0:
        return 0.0
    share = 1.0
    for o in range(expected.size):
        if not links[o].any():
            share = min(share, left[o, step] / (entered[step] * expected[o]))
    return entered[step] * (1 - share) if share < 1 - 1e-9 else 0.0


@kernel
def flow(
    start: int,
    stop: int,
    timeout: int,
    arrivals: Float64,
    links: npt.NDArray[np.bool_],
    is_source: npt.NDArray[np.bool_],
    cost_s: Float64,
    selectivity: Float64,
    expected: Float64,
    degree: Int64,
    paused: Int64,
    entry: Int64,
    amount: Float64,
    head: Int64,
    tail: Int64,
    entered: Float64,
    left: Float64,
    timed_out: Float64,
    counts: Float64,
    out: Float64,
) -> int:
    """Let records flow for some steps; return how many pieces have reached their end."""
    written = 0
    queues = entry, amount, head, tail
    for step in range(start, stop):
        late = _timed_out(step - timeout, links, expected, entered, left)
        timed_out[0] += late
        entered[step] = arrivals[step] + late
        for o in range(cost_s.size):
            if is_source[o]:
                counts[RECEIVED, o] += entered[step]
                _push(o, step, entered[step], *queues)
        for o in range(cost_s.size):
            if paused[o] > 0:
                paused[o] -= 1
            else:
                able = degree[o] / cost_s[o] * STEP_S
                written = _work(
                    o, step, able, links, cost_s, selectivity, *queues, left, counts, out, written
                )
    return written


@kernel
def _work(
    o: int,
    step: int,
    able: float,
    links: npt.NDArray[np.bool_],
    cost_s: Float64,
    selectivity: Float64,
    entry: Int64,
    amount: Float64,
    head: Int64,
    tail: Int64,
    left: Float64,
    counts: Float64,
    out: Float64,
    written: int,
) -> int:
    """Let an operator process what it can in a step; return how many pieces have ended so far."""
    is_sink = not links[o].any()
    while able > 0 and head[o] < tail[o]:
        place = head[o] % entry.shape[1]
        begun = entry[o, place]
        taken = min(able, amount[o, place])
        able -= taken
        amount[o, place] -= taken
        if amount[o, place] <= 1e-12:
            head[o] += 1
        emitted = taken * selectivity[o]
        counts[PROCESSED, o] += taken
        counts[EMITTED, o] += emitted
        counts[BUSY_S, o] += taken * cost_s[o]
        for child in range(cost_s.size):
            if links[o, child]:
                counts[RECEIVED, child] += emitted
                _push(child, begun, emitted, entry, amount, head, tail)
        if is_sink:
            left[o, begun] += taken
            out[0, written] = (step - begun) * STEP_S + _service(o, links, cost_s)
            out[1, written] = taken
            written += 1
    return written


@kernel
def _service(operator: int, links: npt.NDArray[np.bool_], cost_s: Float64) -> float:
    """Time of service along the longest way to an operator."""
    longest = np.zeros(cost_s.size)
    for o in range(operator + 1):
        before = 0.0
        for parent in range(o):
            if links[parent, o]:
                before = max(before, longest[parent])
        longest[o] = before + cost_s[o]
    return float(longest[operator])
