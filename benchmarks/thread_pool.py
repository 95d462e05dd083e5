"""One task with a pool of threads: a shared queue on Spark that knows nothing about costs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from penstock.experiments.batch_trials import ARROW, SCHEMA, Load, sleeping
from penstock.spark.lab.streams import DataFrame


def by_threads(frame: DataFrame, load: Load, instances: int) -> DataFrame:
    """Run all records in one task, with as many threads as there are instances."""
    work = sleeping(load)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(instances) as pool:
            for batch in batches:
                yield pa.RecordBatch.from_pylist(list(pool.map(work, batch.to_pylist())), ARROW)

    return frame.coalesce(1).mapInArrow(run, SCHEMA)
