"""What `balance` would make of a stage: its records are divided again, in the simulator."""

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
    as many records vary as the recorded ones do. At best all costs are known, and no single record
    is long. At worst nothing about costs can be learnt from keys, or the longest task is long
    because of one record.

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
    # One record may be all that the longest task has more than a typical one.
    single_ms = float(work_ms.max() - np.median(work_ms)) / float(speeds.max())
    learnt_ms = _simulated(work_ms, records, speeds, overhead_ms=overhead_ms, keys=_KEYS)
    unlearnt_ms = _simulated(work_ms, records, speeds, overhead_ms=overhead_ms, keys=0)
    worst_ms = max(learnt_ms, unlearnt_ms, min(single_ms + overhead_ms, float(work_ms.max())))
    return Interval(best_ms, max((best_ms + learnt_ms) / 2, best_ms), max(worst_ms, best_ms))


def _simulated(
    work_ms: Float64, records: int, speeds: Float64, *, overhead_ms: float, keys: int
) -> float:
    """Return the mean duration of learnt batches.

    Args:
        work_ms: pure work of each task.
        records: number of records of a batch.
        speeds: speed of each slot.
        overhead_ms: time of a task besides its work.
        keys: number of keys, each with a cost of its own; 0 for costs that depend on no key.
    """
    rng = np.random.default_rng(_SEED)
    count = records * (_LEARN + _MEASURE)
    mean_ms = float(work_ms.sum()) / records
    # The sum of n independent costs varies by 1 / sqrt(n) of what one cost does.
    variation = float(work_ms.std() / work_ms.mean()) * np.sqrt(records / work_ms.size)
    sigma = float(np.sqrt(np.log1p(variation**2)))
    if keys:
        own = rng.integers(keys, size=count)
        costs_ms = rng.lognormal(-(sigma**2) / 2, sigma, keys)[own]
    else:
        own = np.arange(count)
        costs_ms = rng.lognormal(-(sigma**2) / 2, sigma, count)
    batches = costs_ms.reshape(-1, records)
    # Every batch has the recorded work, whatever was drawn.
    costs_ms = (batches * mean_ms / batches.mean(axis=1, keepdims=True)).ravel()
    found = simulate_batches(
        Factoring(instances=speeds.size),
        Stream.of(own, costs_ms),
        records=records,
        workers=[Worker(slowdown=1 / float(speed)) for speed in speeds],
        overheads=Overheads(task_ms=overhead_ms),
        seed=_SEED,
    )
    return float(found.duration_ms[-_MEASURE:].mean())
