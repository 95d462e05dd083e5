"""Beyond the papers: how long batches wait for their slowest task."""

import numpy as np

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.claims import Claim, at_most
from penstock.experiments.division_oracle import best_division, duration_ms
from penstock.experiments.results import Table
from penstock.policies.grouping import Factoring, Grouping, Proactive, RoundRobin
from penstock.policies.grouping.list_scheduling import makespan
from penstock.policies.kernels import Float64
from penstock.sim import HeavyTailed, Overheads, Stream, Worker, simulate_batches

SLOTS, RECORDS, TASK_MS = 8, 1_000, 15.0
LEARNT, MEASURED = 60, 20
# Entries of the cost model for each instance, as on Spark.
CAPACITY = 1_024
# Spread of costs within a key, and whether two slots are half as fast.
CASES = {
    f"s={spread:g}{' slow' if slow else ''}": (spread, slow)
    for spread in (0.0, 0.5, 1.0)
    for slow in (False, True)
}
GOALS = dict(zip(CASES, (1.08, 1.12, 1.10, 1.16, 1.12, 1.22), strict=True))
# Costs of s=0.5 whose records have any key, with and without slow slots.
KEYLESS = {"any key": (0.5, False), "any key slow": (0.5, True)}
# Duration over that of one queue that knows nothing and has no overhead.
KEYLESS_GOAL = 1.05


def _groupings(extra: Extra) -> dict[str, Grouping]:
    return {
        "repartition_8": RoundRobin(8),
        "repartition_64": RoundRobin(64),
        "longest_first": Proactive(SLOTS, capacity=CAPACITY),
        "factoring": Factoring(SLOTS, capacity=CAPACITY),
        **{series: make(SLOTS) for series, make in extra.items()},
    }


def _run(x: X, seed: int, extra: Extra) -> list[Sample]:
    spread, slow = (CASES | KEYLESS)[str(x)]
    count = (LEARNT + MEASURED) * RECORDS
    stream = HeavyTailed(spread=spread, records=count, keyed=x not in KEYLESS).stream(seed)
    workers = [Worker(slowdown=2.0 if slow and i < 2 else 1.0) for i in range(SLOTS)]
    found: list[Sample] = []
    for series, grouping in _groupings(extra).items():
        result = simulate_batches(
            grouping,
            stream,
            records=RECORDS,
            workers=workers,
            overheads=Overheads(task_ms=TASK_MS),
            seed=seed,
        )
        found += samples(series, x, {"to_ideal": result.to_ideal(skip=LEARNT)})
    rivals = _without_keys(stream, np.array([worker.slowdown for worker in workers]), seed)
    for series, ratio in rivals.items():
        found += samples(series, x, {"to_ideal": ratio})
    return found


def _without_keys(stream: Stream, slowdown: Float64, seed: int) -> dict[str, float]:
    """Return the ratios to the ideal of two rivals that look at no key.

    `shared_queue` is one queue that knows nothing, and costs nothing. `best_division` has tasks
    with overhead, whose numbers of records fit the true costs of the batches before.
    """
    batches_ms = np.split(stream.costs_ms, LEARNT + MEASURED)
    # A scheduler offers free slots in a random order.
    rng = np.random.default_rng(seed)
    slots = [rng.permutation(slowdown) for _ in batches_ms]
    sizes = best_division(batches_ms[:LEARNT], slots[:LEARNT], task_ms=TASK_MS)
    queue, division = [], []
    for costs_ms, own in zip(batches_ms[LEARNT:], slots[LEARNT:], strict=True):
        ideal_ms = max(costs_ms.sum() / (1 / slowdown).sum(), costs_ms.max() * slowdown.min())
        queue.append(makespan(costs_ms, slowdown, 0.0) / ideal_ms)
        division.append(duration_ms(sizes, costs_ms, own, task_ms=TASK_MS) / ideal_ms)
    return {"shared_queue": float(np.mean(queue)), "best_division": float(np.mean(division))}


def _claims(table: Table) -> list[Claim]:
    found = table.means("factoring", "to_ideal")
    goals = [
        at_most(f"factoring: duration over the ideal, {x}", found[x], goal=goal)
        for x, goal in GOALS.items()
    ]
    best = {
        x: min(table.means(series, "to_ideal")[x] for series in ("repartition_8", "repartition_64"))
        for x in CASES
    }
    rival = at_most(
        "factoring: largest duration over the better repartition",
        max(found[x] / best[x] for x in CASES),
        goal=1.0,
    )
    queue = table.means("shared_queue", "to_ideal")
    keyless = [
        at_most(
            f"factoring: duration over that of a shared queue, {x}",
            found[x] / queue[x],
            goal=KEYLESS_GOAL,
        )
        for x in KEYLESS
    ]
    return [*goals, rival, *keyless]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="batch-stragglers",
        figure="beyond the papers",
        summary="batches that wait for their slowest task",
        details="costs within a key differ by s; slow: two of eight slots take twice as long; "
        "any key: keys tell nothing about costs",
        x_label="spread within a key, and slow slots",
        xs=(*CASES, *KEYLESS),
        run=_run,
        claims=_claims,
        streams=10,
        main_metric="to_ideal",
        metrics=("to_ideal",),
        params={
            "slots": SLOTS,
            "records": RECORDS,
            "overhead_ms": TASK_MS,
            "learnt": LEARNT,
            "measured": MEASURED,
        },
    ),
)
