"""Latency of a stream that arrives at its own pace: from arrival to the commit of the batch."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming import StreamingQuery

from penstock.experiments.live_trials import GIVEN, RETURNED, Feed, Phase, operator
from penstock.sim import HeavyTailed
from penstock.spark.balance import BalanceOperator
from penstock.spark.lab.streams import DataFrame, SparkSession

ARROW = pa.schema([(name, pa.float64()) for name in ("arrival_s", "started_s", "cost_ms")])
# A stream that is behind may take this long after the last arrival.
DRAIN_S = 600.0

# A way to share records out, for `DataFrame.transform`.
Way = Callable[[DataFrame], DataFrame]


def by_repartition(slots: int) -> Way:
    # Nested, so that Spark ships it whole: a plain worker must not import Penstock.
    def work(record: dict[str, Any]) -> dict[str, float]:
        started_s = time.time()
        time.sleep(record["cost_ms"] / 1000)
        arrival_s = record["arrival"].timestamp()
        return {"arrival_s": arrival_s, "started_s": started_s, "cost_ms": record["cost_ms"]}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([work(r) for r in batch.to_pylist()], ARROW)

    return lambda frame: frame.repartition(slots).mapInArrow(run, RETURNED)


def by_penstock(slots: int) -> Way:
    return operator(slots, None, "latency")


def latency_ms(
    spark: SparkSession,
    way: Way,
    *,
    slots: int,
    load: float,
    seconds: float,
) -> float:
    """Return the mean time from arrival to commit, of all records of the second half.

    Args:
        spark: session with as many slots.
        way: way to share records out.
        slots: number of calls at a time.
        load: arriving work over what all slots can do without any overhead.
        seconds: length of the stream.
    """
    workload = HeavyTailed(records=20_000)
    capacity_per_s = 1000 * slots / float(workload.stream(0).costs_ms.mean())
    done: list[tuple[float, np.ndarray]] = []

    def sink(batch: DataFrame, _: int) -> None:
        arrived_s = batch.toArrow()["arrival_s"].to_numpy()
        done.append((time.time(), arrived_s))

    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "source")
        source.mkdir()
        feed = Feed(source, workload, [Phase(seconds, load)], capacity_per_s=capacity_per_s)
        frame = spark.readStream.schema(GIVEN).parquet(str(source)).transform(way)
        writer = frame.writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", str(Path(folder, "checkpoint"))).start()
        try:
            feed.start()
            feed.join()
            _wait(query, done, records=sum(part.size for part in feed.arrived_s))
        finally:
            query.stop()
            if isinstance(way, BalanceOperator):
                way.close()  # the files of its learned state are about to be removed
    waited_s = np.concatenate([committed_s - arrived_s for committed_s, arrived_s in done])
    arrived_s = np.concatenate([arrived_s for _, arrived_s in done]) - feed.began_s
    return 1000 * float(waited_s[arrived_s >= seconds / 2].mean())


def _wait(query: StreamingQuery, done: list[tuple[float, np.ndarray]], *, records: int) -> None:
    """Wait until all records are committed."""
    end = time.monotonic() + DRAIN_S
    while sum(arrived_s.size for _, arrived_s in done) < records:
        failed = query.exception()
        if failed is not None:
            raise failed
        if time.monotonic() > end:
            raise TimeoutError(f"not all of {records:,} records were committed in {DRAIN_S:g} s")
        time.sleep(0.1)
