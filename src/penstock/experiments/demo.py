"""The demo: a stream whose records cost from a millisecond to a second, distributed in two ways."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.experiments.batch_trials import (
    BatchTrial,
    ByPenstock,
    Contender,
    Load,
    Progress,
    by_repartition,
    silent,
    try_out,
)
from penstock.policies.kernels import Float64
from penstock.sim import HeavyTailed
from penstock.spark.lab import session

INSTANCES = 8
BATCHES = 20
RECORDS = 800
KEYS = 500
WARM_UP = 4
SPARK, PENSTOCK = f"repartition({INSTANCES})", "Penstock"


@dataclass(frozen=True)
class Comparison:
    """Trials of the same stream.

    Attributes:
        trials: one trial for each contender; Spark's own shuffle first, Penstock last.
        ideal_ms: ideal duration of each batch.
        warm_up: number of batches at the start that are left out of all means.
    """

    trials: list[BatchTrial]
    ideal_ms: Float64
    warm_up: int = WARM_UP

    def table(self) -> list[dict[str, str]]:
        """Return the numbers to show, one row for each contender."""
        return [self._row(trial) for trial in self.trials]

    def _row(self, trial: BatchTrial) -> dict[str, str]:
        settled = trial.settled(self.warm_up)
        median, p95, p99 = np.percentile(settled, [50, 95, 99]) / 1000
        per_batch = trial.records / len(trial.duration_ms)
        return {
            "shuffle": trial.name,
            "median s": f"{median:.2f}",
            "p95 s": f"{p95:.2f}",
            "p99 s": f"{p99:.2f}",
            "records/s": f"{per_batch / settled.mean() * 1000:.0f}",
            "busiest / mean": f"{trial.busiest_over_mean(self.warm_up):.2f}",
            "over ideal": f"{settled.sum() / self.ideal_ms[self.warm_up :].sum():.2f}",
        }

    def speedup(self) -> float:
        """Return the mean duration of a batch in the first trial over that in the last."""
        first, last = self.trials[0], self.trials[-1]
        return float(first.settled(self.warm_up).mean() / last.settled(self.warm_up).mean())

    def typical(self) -> int:
        """Return the number of the batch whose durations are closest to the medians of all trials.

        The distance is |duration - median| / median, summed over the trials.
        """
        distance = np.zeros(self.ideal_ms.size - self.warm_up)
        for trial in self.trials:
            settled = trial.settled(self.warm_up)
            distance += np.abs(settled / np.median(settled) - 1)
        return self.warm_up + int(distance.argmin())


def heavy_tailed(
    batches: int,
    records: int,
    *,
    distinct: int = KEYS,
    spread: float = 0.5,
    keyed: bool = True,
    seed: int = 0,
) -> Load:
    """Return a load of records whose costs differ between keys and within a key."""
    count = batches * records
    workload = HeavyTailed(spread=spread, records=count, distinct=distinct, keyed=keyed)
    stream = workload.stream(seed)
    return Load.of(stream.keys, stream.costs_ms, batches)


def run(
    batches: int = BATCHES,
    records: int = RECORDS,
    progress: Progress = silent,
    *,
    started: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run the stream with Spark's own shuffle, then with Penstock.

    Args:
        batches: number of micro-batches of each run.
        records: number of records of a micro-batch.
        progress: function called after each micro-batch.
        started: function called when Spark has started.
    """
    load = heavy_tailed(batches, records)
    spark = session(f"local[{INSTANCES}]", "penstock-demo")
    started()
    contenders: dict[str, Contender] = {SPARK: by_repartition(INSTANCES), PENSTOCK: ByPenstock()}
    trials = try_out(spark, load, contenders, instances=INSTANCES, progress=progress)
    return Comparison(trials, load.ideal_ms(INSTANCES), min(WARM_UP, batches // 2))
