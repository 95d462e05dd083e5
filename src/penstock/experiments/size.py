"""Beyond the papers: costs that follow the size of records, where keys explain little."""

import numpy as np

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.claims import Claim, at_most
from penstock.experiments.results import Table
from penstock.policies.costs import Exact
from penstock.policies.feedback import measure
from penstock.policies.grouping import Factoring, FullKnowledge, Grouping
from penstock.sim import AirTimes, Edits, Overheads, Stream, Worker, Workload, simulate_batches

SLOTS, TASK_MS, CAPACITY = 8, 15.0, 1_024
# Number of batches to learn from, and number of batches to measure after these.
LEARNT, MEASURED = 8, 4
BATCHES = LEARNT + MEASURED
STREAMS: dict[str, Workload] = {"edits": Edits(), "flights": AirTimes()}
# Our goals: error with sizes over the error without, and duration over that without.
ERROR, DURATION = 0.5, 1.01


def _run(x: X, seed: int, extra: Extra) -> list[Sample]:
    stream = STREAMS[str(x)].stream(seed)
    size = len(stream) // BATCHES
    stream = stream.part(0, size * BATCHES)
    learners = {
        "mean": Factoring(SLOTS, capacity=CAPACITY),
        "size": Factoring(SLOTS, capacity=CAPACITY, sized=True),
    }
    found: list[Sample] = []
    for series, grouping in learners.items():
        numbers = {
            "to_ideal": _to_ideal(grouping.clone(), stream, size, seed=seed),
            "error": _error(grouping.clone(), stream, size),
        }
        found += samples(series, x, numbers)
    for series, make in extra.items():
        found += samples(series, x, {"to_ideal": _to_ideal(make(SLOTS), stream, size, seed=seed)})
    exact = Exact(np.arange(len(stream)), stream.costs_ms)
    single = Stream.of(np.arange(len(stream)), stream.costs_ms)
    ideal = _to_ideal(FullKnowledge(SLOTS, exact), single, size, seed=seed)
    return [*found, *samples("oracle", x, {"to_ideal": ideal, "error": 0.0})]


def _to_ideal(grouping: Grouping, stream: Stream, size: int, *, seed: int) -> float:
    """Return the duration of the measured batches over the ideal one."""
    return simulate_batches(
        grouping,
        stream,
        records=size,
        workers=[Worker() for _ in range(SLOTS)],
        overheads=Overheads(task_ms=TASK_MS),
        seed=seed,
    ).to_ideal(skip=LEARNT)


def _error(grouping: Factoring, stream: Stream, size: int) -> float:
    """Return the mean absolute error of estimates in the measured batches over the mean cost.

    Each batch is estimated with what the batches before it have taught.
    """
    apart_ms, costs_ms = 0.0, 0.0
    for number in range(BATCHES):
        batch = stream.part(number * size, (number + 1) * size)
        if number >= LEARNT:
            expected_ms = grouping.expected_ms(batch.keys, batch.sizes)
            apart_ms += float(np.abs(expected_ms - batch.costs_ms).sum())
            costs_ms += float(batch.costs_ms.sum())
        tracker = grouping.tracker(0)
        sizes = batch.sizes if grouping.sized else None
        for message in [
            *measure(tracker, batch.keys, batch.costs_ms, sizes=sizes),
            *tracker.finish(),
        ]:
            grouping.observe(message)
    return apart_ms / costs_ms


def _claims(table: Table) -> list[Claim]:
    found: list[Claim] = []
    for metric, words, goal in (
        ("error", "error of estimates", ERROR),
        ("to_ideal", "duration of batches", DURATION),
    ):
        without, by_size = table.means("mean", metric), table.means("size", metric)
        found += [
            at_most(
                f"{x}: {words} with sizes over that without", by_size[x] / without[x], goal=goal
            )
            for x in STREAMS
        ]
    return found


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="cost-by-size",
        figure="beyond the papers",
        summary="costs that follow the size of records",
        details="edits of files with drawn costs; flights with their true time in the air",
        x_label="stream",
        xs=tuple(STREAMS),
        run=_run,
        claims=_claims,
        streams=10,
        main_metric="error",
        metrics=("error", "to_ideal"),
        params={
            "slots": SLOTS,
            "overhead_ms": TASK_MS,
            "learnt": LEARNT,
            "measured": MEASURED,
        },
    ),
)
