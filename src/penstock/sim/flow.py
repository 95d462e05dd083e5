"""Kernels of the graph simulation: records flow as a fluid, first in, first out.

Arrays with a value for each operator are in the order of the topology: parents come first. Records
that entered in the same step and wait in the same queue are one piece.
"""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Bool, Float64, Int64, kernel

# Length of a step.
STEP_S = 0.1
# Pieces that have room in the queue of an operator.
PIECES = 1 << 15
# Rows of the counts that are made of each operator.
RECEIVED, PROCESSED, EMITTED, BUSY_S, COUNTS = range(5)


class Graph(NamedTuple):
    """Properties of the operators that do not change.

    Attributes:
        links: whether an operator (row) sends its records to another one (column).
        is_source: whether each operator has no parents.
        cost_s: time that an instance of each operator takes for a record.
        selectivity: records that each operator emits to each child for a record.
        expected: records that reach each operator for one record at every source.
        service_s: time of service along the longest way from a source through each operator.
    """

    links: Bool
    is_source: Bool
    cost_s: Float64
    selectivity: Float64
    expected: Float64
    service_s: Float64


class Queues(NamedTuple):
    """Pieces that wait at each operator, in a ring buffer (row) for each of them.

    Attributes:
        entry_step: step in which the records of a piece entered the graph.
        records: number of records of a piece.
        head: number of pieces that have left each queue.
        tail: number of pieces that have been appended to each queue.
    """

    entry_step: Int64
    records: Float64
    head: Int64
    tail: Int64


class Piece(NamedTuple):
    """Records that entered in the same step.

    Attributes:
        entry_step: step in which the records entered the graph.
        records: number of records.
    """

    entry_step: int
    records: float


class Entries(NamedTuple):
    """Records that enter the graph in each step, and those of them that have left it.

    Attributes:
        arrivals: records that arrive at each source in a step.
        timeout: steps after which a record that has not left the graph is replayed.
        entered: records that entered at each source in a step, with the replayed ones.
        left: records that entered in a step (column) and have left at an operator (row).
        timed_out: number of records that were replayed, an array of one value.
    """

    arrivals: Float64
    timeout: int
    entered: Float64
    left: Float64
    timed_out: Float64


class Done(NamedTuple):
    """Observations of some steps.

    Attributes:
        counts: RECEIVED, PROCESSED, EMITTED and BUSY_S (rows) of each operator (column).
        latency_s: time from entry to end of each piece that has left the graph.
        records: number of records of each such piece.
        pieces: number of such pieces, an array of one value.
    """

    counts: Float64
    latency_s: Float64
    records: Float64
    pieces: Int64


class State(NamedTuple):
    """All that changes while records flow.

    Attributes:
        degree: number of instances of each operator.
        paused: steps for which each operator still pauses.
        queues: pieces that wait at the operators.
        entries: records that enter and leave the graph.
        done: observations of the steps.
    """

    degree: Int64
    paused: Int64
    queues: Queues
    entries: Entries
    done: Done


class Steps(NamedTuple):
    """Steps from `start` up to `stop`."""

    start: int
    stop: int


@kernel
def flow(graph: Graph, state: State, steps: Steps) -> None:
    """Let records flow for some steps."""
    for step in range(steps.start, steps.stop):
        _enter(graph, state, step)
        _work(graph, state, step)


@kernel
def _enter(graph: Graph, state: State, step: int) -> None:
    """Let the records that arrive in a step, and those that are replayed, enter at the sources."""
    entries = state.entries
    late = _timed_out(graph, entries, step - entries.timeout)
    entries.timed_out[0] += late
    entered = entries.arrivals[step] + late
    entries.entered[step] = entered
    for o in range(graph.cost_s.size):
        if graph.is_source[o]:
            state.done.counts[RECEIVED, o] += entered
            _push(state.queues, o, Piece(step, entered))


@kernel
def _timed_out(graph: Graph, entries: Entries, step: int) -> float:
    """Return the records that entered in a step and have not left every sink."""
    if step < 0 or entries.entered[step] <= 0:
        return 0.0
    entered = entries.entered[step]
    share = 1.0
    for o in range(graph.expected.size):
        if not graph.links[o].any():
            share = min(share, entries.left[o, step] / (entered * graph.expected[o]))
    return float(entered * (1 - share)) if share < 1 - 1e-9 else 0.0


@kernel
def _push(queues: Queues, operator: int, piece: Piece) -> None:
    """Append a piece to a queue, or to its last piece if that entered in the same step.

    If the queue is full, its last two pieces become one.
    """
    head, tail = queues.head, queues.tail
    size = queues.entry_step.shape[1]
    last = (tail[operator] - 1) % size
    waiting = tail[operator] - head[operator]
    same_step = queues.entry_step[operator, last] == piece.entry_step
    if waiting and (same_step or waiting == size):
        queues.records[operator, last] += piece.records
        return
    place = tail[operator] % size
    queues.entry_step[operator, place] = piece.entry_step
    queues.records[operator, place] = piece.records
    tail[operator] += 1


@kernel
def _work(graph: Graph, state: State, step: int) -> None:
    """Let every operator process as many records as its instances can in a step."""
    queues, done, paused = state.queues, state.done, state.paused
    for o in range(graph.cost_s.size):
        if paused[o] > 0:
            paused[o] -= 1
            continue
        is_sink = not graph.links[o].any()
        able = state.degree[o] / graph.cost_s[o] * STEP_S
        while able > 0 and queues.head[o] < queues.tail[o]:
            piece = _pop(queues, o, able)
            able -= piece.records
            emitted = piece.records * graph.selectivity[o]
            done.counts[PROCESSED, o] += piece.records
            done.counts[EMITTED, o] += emitted
            done.counts[BUSY_S, o] += piece.records * graph.cost_s[o]
            for child in range(graph.cost_s.size):
                if graph.links[o, child]:
                    done.counts[RECEIVED, child] += emitted
                    _push(queues, child, Piece(piece.entry_step, emitted))
            if is_sink:
                state.entries.left[o, piece.entry_step] += piece.records
                ended = done.pieces[0]
                waited_s = (step - piece.entry_step) * STEP_S
                done.latency_s[ended] = waited_s + graph.service_s[o]
                done.records[ended] = piece.records
                done.pieces[0] = ended + 1


@kernel
def _pop(queues: Queues, operator: int, most: float) -> Piece:
    """Take at most so many records from the first piece of a queue."""
    place = queues.head[operator] % queues.records.shape[1]
    taken = min(most, queues.records[operator, place])
    queues.records[operator, place] -= taken
    if queues.records[operator, place] <= 1e-12:
        queues.head[operator] += 1
    return Piece(queues.entry_step[operator, place], taken)


def longest_service_s(links: Bool, cost_s: Float64) -> Float64:
    """Return the time of service along the longest way from a source through each operator."""
    longest = np.zeros(cost_s.size)
    for o in range(cost_s.size):
        before = longest[:o][links[:o, o]]
        longest[o] = before.max(initial=0.0) + cost_s[o]
    return longest


def expected_records(links: Bool, is_source: Bool, selectivity: Float64) -> Float64:
    """Return the records that reach each operator for one record at every source."""
    expected = np.where(is_source, 1.0, 0.0)
    for o in range(expected.size):
        for child in np.flatnonzero(links[o]):
            expected[child] += expected[o] * selectivity[o]
    return expected


def ways_to_sinks(links: Bool) -> int:
    """Return the number of ways from operators to sinks, summed over all operators."""
    ways = np.zeros(links.shape[0], dtype=np.int64)
    for o in reversed(range(ways.size)):
        children = np.flatnonzero(links[o])
        ways[o] = ways[children].sum() if children.size else 1
    return int(ways.sum())


def empty_queues(operators: int) -> Queues:
    """Return queues in which no piece waits."""
    return Queues(
        entry_step=np.zeros((operators, PIECES), dtype=np.int64),
        records=np.zeros((operators, PIECES)),
        head=np.zeros(operators, dtype=np.int64),
        tail=np.zeros(operators, dtype=np.int64),
    )
