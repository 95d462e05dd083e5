"""The demo: a stream whose records cost a millisecond or a second, shared out in two ways."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.experiments.batch_trials import (
    BatchTrial,
    ByPenstock,
    Load,
    Way,
    by_repartition,
    try_out,
)
from penstock.policies.kernels import Float64
from penstock.sim import zipf_keys
from penstock.spark.lab import session

INSTANCES = 8
BATCHES = 20
RECORDS = 800
KEYS = 500
WARM_UP = 4
SPARK, PENSTOCK = f"repartition({INSTANCES})", "Penstock"


@dataclass(frozen=True)
class Comparison:
    """Trials of the same stream, and the least time its batches can take."""

    trials: list[BatchTrial]
    ideal_ms: Float64
    warm_up: int = WARM_UP

    def table(self) -> list[dict[str, str]]:
        """Return the numbers to show, one row a way."""
        return [self._row(trial) for trial in self.trials]

    def _row(self, trial: BatchTrial) -> dict[str, str]:
        settled = trial.settled(self.warm_up)
        median, p95, p99 = np.percentile(settled, [50, 95, 99]) / 1000
        per_batch = trial.records / len(trial.duration_ms)
        return {
            "way": trial.name,
            "median s": f"{median:.2f}",
            "p95 s": f"{p95:.2f}",
            "p99 s": f"{p99:.2f}",
            "records/s": f"{per_batch / settled.mean() * 1000:.0f}",
            "busiest / mean": f"{trial.busiest_over_mean(self.warm_up):.2f}",
            "over ideal": f"{settled.sum() / self.ideal_ms[self.warm_up :].sum():.2f}",
        }

    def speedup(self) -> float:
        """Mean duration of a batch with the first way over that with the last."""
        first, last = self.trials[0], self.trials[-1]
        return float(first.settled(self.warm_up).mean() / last.settled(self.warm_up).mean())


def heavy_tailed(batches: int, records: int, distinct: int = KEYS, seed: int = 0) -> Load:
    """Zipf-1 keys, each with a cost of its own: min(1 + 5 Pareto(1.3), 1000) ms."""
    rng = np.random.default_rng(seed)
    cost_ms = np.minimum(1 + 5 * rng.pareto(1.3, distinct), 1000)
    # The cost of a key has nothing to do with how often it comes.
    keys = zipf_keys(rng, batches * records, distinct, exponent=1.0)
    return Load.of(keys, cost_ms[keys], batches)


def run(
    batches: int = BATCHES,
    records: int = RECORDS,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Comparison:
    """Run the stream with Spark's own shuffle, then with Penstock."""
    load = heavy_tailed(batches, records)
    spark = session(f"local[{INSTANCES}]", "penstock-demo")
    ways: dict[str, Way] = {SPARK: by_repartition(INSTANCES), PENSTOCK: ByPenstock()}
    trials = try_out(spark, load, ways, INSTANCES, progress)
    return Comparison(trials, load.ideal_ms(INSTANCES), min(WARM_UP, batches // 2))
