"""Beyond the papers: costs of keys from functions that take whole batches."""

import numpy as np

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.claims import Claim, at_most
from penstock.experiments.results import Table
from penstock.policies.costs import Exact
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.grouping import Factoring, FullKnowledge, Grouping
from penstock.policies.kernels import Float64, Int64
from penstock.policies.trackers import WhenAsked
from penstock.sim import HeavyTailed, Overheads, Stream, Worker, simulate_batches

SLOTS, RECORDS, TASK_MS, CAPACITY = 8, 1_000, 15.0, 1_024
# Batches to learn from, and batches to measure after these; one more is estimated at the end.
LEARNT, MEASURED = 40, 20
# Spread of costs within a key.
CASES = {f"s={spread:g}": spread for spread in (0.0, 0.5, 1.0)}
# Our goals: duration and error over those with equal shares.
DURATION, ERROR = 1.0, 1.0


class _SharedEqually(WhenAsked):
    """Measures whole calls, and gives each record the mean cost of its call."""

    def execute(  # noqa: PLR0917 - the signature of trackers
        self,
        keys: Int64,
        costs_ms: Float64,
        finished_ms: float,
        request: SyncRequest | None = None,
        sizes: Float64 | None = None,
    ) -> list[Feedback]:
        shares_ms = np.full(keys.size, costs_ms.sum() / max(1, keys.size))
        return super().execute(keys, shares_ms, finished_ms, request, sizes)


class _EqualShares(Factoring):
    """Factoring that learns equal shares of each call."""

    def tracker(self, instance: int) -> WhenAsked:
        return _SharedEqually(instance, self.measurements())


def _run(x: X, seed: int, extra: Extra) -> list[Sample]:
    batches = LEARNT + MEASURED + 1
    stream = HeavyTailed(spread=CASES[str(x)], records=batches * RECORDS).stream(seed)
    groupings: dict[str, Grouping] = {
        "mean": _EqualShares(SLOTS, capacity=CAPACITY),
        "batches": Factoring(SLOTS, capacity=CAPACITY, together=True),
        "single": Factoring(SLOTS, capacity=CAPACITY),
        **{series: make(SLOTS) for series, make in extra.items()},
    }
    found: list[Sample] = []
    for series, grouping in groupings.items():
        numbers = {"to_ideal": _to_ideal(grouping, stream, seed=seed)}
        if isinstance(grouping, Factoring):
            numbers["error"] = _error(grouping, stream.part(-RECORDS))
        found += samples(series, x, numbers)
    numbered = Stream.of(np.arange(len(stream)), stream.costs_ms)
    exact = FullKnowledge(SLOTS, Exact(numbered.keys, numbered.costs_ms))
    oracle = {"to_ideal": _to_ideal(exact, numbered, seed=seed), "error": 0.0}
    return [*found, *samples("oracle", x, oracle)]


def _to_ideal(grouping: Grouping, stream: Stream, *, seed: int) -> float:
    """Teach a grouping all batches but the last; return the duration over the ideal one."""
    return simulate_batches(
        grouping,
        stream.part(0, len(stream) - RECORDS),
        records=RECORDS,
        workers=[Worker() for _ in range(SLOTS)],
        overheads=Overheads(task_ms=TASK_MS),
        seed=seed,
    ).to_ideal(skip=LEARNT)


def _error(grouping: Factoring, batch: Stream) -> float:
    """Return the mean absolute error of estimates in a batch over the mean cost."""
    apart_ms = np.abs(grouping.expected_ms(batch.keys) - batch.costs_ms)
    return float(apart_ms.sum() / batch.costs_ms.sum())


def _claims(table: Table) -> list[Claim]:
    found: list[Claim] = []
    for metric, words, goal in (
        ("to_ideal", "duration of batches", DURATION),
        ("error", "error of estimates", ERROR),
    ):
        equal, learnt = table.means("mean", metric), table.means("batches", metric)
        found += [
            at_most(
                f"{x}: {words} with keys from whole batches over that with equal shares",
                learnt[x] / equal[x],
                goal=goal,
            )
            for x in CASES
        ]
    return found


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="batch-functions",
        figure="beyond the papers",
        summary="costs of keys from whole batches",
        details="records of heavy-tailed costs; each task is one call, and only its sum is known",
        x_label="spread of costs within a key",
        xs=tuple(CASES),
        run=_run,
        claims=_claims,
        streams=3,
        main_metric="to_ideal",
        metrics=("to_ideal", "error"),
        params={
            "slots": SLOTS,
            "records": RECORDS,
            "overhead_ms": TASK_MS,
            "learnt": LEARNT,
            "measured": MEASURED,
        },
    ),
)
