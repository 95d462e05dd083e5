"""A stage as `balance` would run it: its records are divided again, in the simulator."""

from typing import NamedTuple

import numpy as np

from penstock.diagnosis.tasks import Tasks
from penstock.policies.grouping.factoring import Factoring
from penstock.policies.kernels import Float64
from penstock.sim.batch_parts import Overheads, Worker
from penstock.sim.batches import simulate_batches
from penstock.sim.workloads import Stream

# Records of a simulated batch; more of them only make it more even.
_MOST_RECORDS = 2_000
_FEWEST_RECORDS = 2
# Batches that a simulated query learns from, and those that are measured.
_LEARN, _MEASURE = 6, 2
_KEYS = 256
_SEED = 0


class Interval(NamedTuple):
    """A number, with a lower and an upper bound."""

    low: float
    mid: float
    high: float

    def times(self, factor: float) -> "Interval":
        """Return the interval with its three numbers multiplied."""
        return Interval(self.low * factor, self.mid * factor, self.high * factor)

    def plus(self, low: float, mid: float, high: float) -> "Interval":
        """Return the interval with something added to each of its numbers."""
        return Interval(self.low + low, self.mid + mid, self.high + high)


def rebalanced(work_ms: Float64, tasks: Tasks, speeds: Float64, *, overhead_ms: float) -> Interval:
    """Return how long a stage would take with its records divided by cost, in ms.

    A log has the times of tasks, not of records. So costs of records are drawn such that tasks of
    as many records vary as the recorded ones do, beyond what numbers of records explain. At best
    all costs are known, and no single record is long. At worst nothing about costs can be learnt
    from keys, or a task is longer than its number of records explains because of one record.

    Args:
        work_ms: pure work of each task.
        tasks: tasks of the stage with the most work.
        speeds: speed of each slot; 1 is usual.
        overhead_ms: time of a task besides its work.

    Example:
        >>> tasks = Tasks(*np.ones((12, 4)))
        >>> found = rebalanced(np.array([900.0, 100, 100, 100]), tasks, np.ones(4), overhead_ms=5)
        >>> found.low <= found.mid <= found.high
        True
    """
    total_ms = float(work_ms.sum())
    ideal_ms = total_ms / float(speeds.sum())
    best_ms = ideal_ms + overhead_ms
    records = int(min(max(tasks.records.sum(), _FEWEST_RECORDS * speeds.size), _MOST_RECORDS))
    if total_ms <= 0:
        return Interval(0.0, 0.0, 0.0)
    unexplained_ms = work_ms - _explained_ms(work_ms, tasks)
    # One record may be all that a task has more than its records explain.
    single_ms = float(unexplained_ms.max()) / float(speeds.max())
    # The sum of n independent costs varies by 1 / sqrt(n) of what one cost does.
    variation = float(unexplained_ms.std() / work_ms.mean()) * np.sqrt(records / work_ms.size)
    drawn = _Drawn(total_ms, records, variation)
    learnt_ms = _simulated(drawn, speeds, overhead_ms=overhead_ms, keys=_KEYS)
    unlearnt_ms = _simulated(drawn, speeds, overhead_ms=overhead_ms, keys=0)
    worst_ms = max(learnt_ms, unlearnt_ms, min(single_ms + overhead_ms, float(work_ms.max())))
    return Interval(best_ms, max((best_ms + learnt_ms) / 2, best_ms), max(worst_ms, best_ms))


def _explained_ms(work_ms: Float64, tasks: Tasks) -> Float64:
    """Return the work that each task would have, if all records cost the same."""
    total = float(tasks.records.sum())
    if tasks.size != work_ms.size or total <= 0:
        return np.full(work_ms.size, work_ms.mean())
    found: Float64 = work_ms.sum() * tasks.records / total
    return found


class _Drawn(NamedTuple):
    """The records of a simulated batch.

    Attributes:
        work_ms: work of a batch.
        records: number of its records.
        variation: standard deviation of their costs over the mean.
    """

    work_ms: float
    records: int
    variation: float


def _simulated(drawn: _Drawn, speeds: Float64, *, overhead_ms: float, keys: int) -> float:
    """Return the mean duration of learnt batches.

    Args:
        drawn: records.
        speeds: speed of each slot.
        overhead_ms: time of a task besides its work.
        keys: number of keys, each with a cost of its own; 0 for costs that depend on no key.
    """
    rng = np.random.default_rng(_SEED)
    count = drawn.records * (_LEARN + _MEASURE)
    mean_ms = drawn.work_ms / drawn.records
    sigma = float(np.sqrt(np.log1p(drawn.variation**2)))
    if keys:
        own = rng.integers(keys, size=count)
        costs_ms = rng.lognormal(-(sigma**2) / 2, sigma, keys)[own]
    else:
        own = np.arange(count)
        costs_ms = rng.lognormal(-(sigma**2) / 2, sigma, count)
    batches = costs_ms.reshape(-1, drawn.records)
    # Every batch has the recorded work, whatever was drawn.
    costs_ms = (batches * mean_ms / batches.mean(axis=1, keepdims=True)).ravel()
    found = simulate_batches(
        Factoring(instances=speeds.size),
        Stream.of(own, costs_ms),
        records=drawn.records,
        workers=[Worker(slowdown=1 / float(speed)) for speed in speeds],
        overheads=Overheads(task_ms=overhead_ms),
        seed=_SEED,
    )
    return float(found.duration_ms[-_MEASURE:].mean())
