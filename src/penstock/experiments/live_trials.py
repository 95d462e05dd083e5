"""Live trials on real Spark: records that arrive at their own pace, and wait if nobody is free.

The operators here sleep: they stand for calls to a database, so that more instances than cores can
be shown. Such a trial is latency-bound, and says so wherever its numbers are shown.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.policies.kernels import Float64, Int64
from penstock.policies.shedding import Shedder
from penstock.sim import Workload
from penstock.spark.balance import BalanceOperator, balance
from penstock.spark.lab.streams import SparkSession, collect_stream

GIVEN = "key long, cost_ms double, arrival timestamp"
RETURNED = "arrival_s double, started_s double, cost_ms double"
_TICK_S = 0.25


@dataclass(frozen=True)
class Phase:
    """A time in which load does not change.

    Attributes:
        seconds: how long it is.
        load: work that arrives over what all instances can do.
        slowdown: by which records cost more than usual.
        held: whether the source is paused: its records come all at once when the phase ends.
    """

    seconds: float
    load: float
    slowdown: float = 1.0
    held: bool = False


@dataclass(frozen=True)
class LiveTrial:
    """What happened to the records of a live trial.

    Attributes:
        arrival_s: when each record arrived that was processed, since the first phase began.
        waiting_ms: from there to its execution.
        arrived_s: when each record arrived, processed or not.
        received: records, as the operator has counted.
        shed: records, as the operator has counted.
        processed: records, as the operator has counted.
    """

    arrival_s: Float64
    waiting_ms: Float64
    arrived_s: Float64
    received: int
    shed: int
    processed: int

    def waiting(self, start_s: float, stop_s: float) -> float:
        """Mean waiting time of records that arrived then; NaN if none of them was processed."""
        chosen = (self.arrival_s >= start_s) & (self.arrival_s < stop_s)
        return float(self.waiting_ms[chosen].mean()) if chosen.any() else float("nan")

    def dropped(self, start_s: float, stop_s: float) -> float:
        """Share of the records that arrived then and were not processed."""
        arrived = int(((self.arrived_s >= start_s) & (self.arrived_s < stop_s)).sum())
        kept = int(((self.arrival_s >= start_s) & (self.arrival_s < stop_s)).sum())
        return 1 - kept / arrived if arrived else float("nan")


class Feed:
    """Writes records to a folder at the pace at which they arrive, a file every 250 ms."""

    def __init__(
        self, folder: Path, workload: Workload, phases: Sequence[Phase], capacity_per_s: float
    ) -> None:
        self._folder = folder
        self._workload = workload
        self._phases = phases
        self._capacity_per_s = capacity_per_s
        self._thread = threading.Thread(target=self._run, name="penstock-feed", daemon=True)
        self.arrived_s: list[Float64] = []
        self.began_s = 0.0

    def start(self) -> None:
        """Begin with the first phase."""
        self.began_s = time.time()
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the last phase."""
        self._thread.join()

    def _run(self) -> None:
        stream = self._workload.stream(0)
        number, at, due_s, owed = 0, 0, 0.0, 0.0
        for phase in self._phases:
            held = []
            for _ in range(round(phase.seconds / _TICK_S)):
                owed += phase.load * self._capacity_per_s * _TICK_S
                count = int(owed)
                owed -= count
                due_s += _TICK_S
                chosen = np.arange(at, at + count) % len(stream)
                at += count
                within: Float64 = np.arange(count, dtype=np.float64) / max(1, count)
                offsets = due_s - _TICK_S * (1 - within)
                self.arrived_s.append(offsets)
                costs_ms = stream.costs_ms[chosen] * phase.slowdown
                held.append((number, stream.keys[chosen], costs_ms, self.began_s + offsets))
                number += 1
                time.sleep(max(0.0, self.began_s + due_s - time.time()))
                if not phase.held:
                    write(self._folder, *held.pop())
            for file in held:
                write(self._folder, *file)


def write(folder: Path, number: int, keys: Int64, costs_ms: Float64, arrival_s: Float64) -> None:
    """Write a file of records at once, so that nobody reads half of it."""
    arrival = pa.array((arrival_s * 1e6).astype(np.int64), pa.timestamp("us", tz="UTC"))
    table = pa.table({"key": keys, "cost_ms": costs_ms, "arrival": arrival})
    hidden = folder / f".{number:06}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(folder / f"{number:06}.parquet")


def work(record: dict[str, Any]) -> dict[str, float]:
    """Sleep as long as the record costs."""
    started_s = time.time()
    time.sleep(record["cost_ms"] / 1000)
    arrival_s = record["arrival"].timestamp()
    return {"arrival_s": arrival_s, "started_s": started_s, "cost_ms": record["cost_ms"]}


def operator(instances: int, shedder: Shedder | None, name: str) -> BalanceOperator:
    """Return the operator of a trial."""
    given: dict[str, Any] = {} if shedder is None else {"shed": shedder, "arrival": "arrival"}
    return balance(work, key="key", schema=RETURNED, instances=instances, name=name, **given)


def try_live(
    spark: SparkSession,
    name: str,
    workload: Workload,
    phases: Sequence[Phase],
    instances: int,
    capacity_per_s: float,
    shedder: Shedder | None,
    drain_s: float = 0.0,
) -> LiveTrial:
    """Run phases through an operator, with a shedder or without.

    Args:
        spark: with at least as many slots as instances.
        name: of the trial.
        workload: what records are drawn from, over and over.
        phases: what arrives, after another.
        instances: tasks that share the work.
        capacity_per_s: records that they can process, at a load of 1.
        shedder: what drops records; None drops nothing.
        drain_s: how long to go on after the last phase, for records that still wait.
    """
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "source")
        source.mkdir()
        feed = Feed(source, workload, phases, capacity_per_s)
        used = operator(instances, shedder, name)
        checkpoint = Path(folder, "checkpoint")
        with collect_stream(
            spark, source, GIVEN, operator=used, checkpoint=checkpoint
        ) as collected:
            feed.start()
            feed.join()
            time.sleep(drain_s)
        stats = used.stats()
        used.close()
    arrival_s = np.concatenate([t["arrival_s"].to_numpy() for t in collected]) - feed.began_s
    started_s = np.concatenate([t["started_s"].to_numpy() for t in collected]) - feed.began_s
    counts = stats.received, stats.shed, stats.processed
    waiting_ms = 1000 * np.maximum(started_s - arrival_s, 0)
    return LiveTrial(arrival_s, waiting_ms, np.concatenate(feed.arrived_s), *counts)


def capacity_of(spark: SparkSession, workload: Workload, instances: int, batch_ms: float) -> float:
    """Measure how many records a second go through an operator that never waits for any.

    Spark takes some time for each batch, so that larger ones go through faster: what counts here
    are batches that take `batch_ms`, whose records wait as long on average.
    """
    mean_ms = float(workload.stream(1).costs_ms.mean())
    ideal = instances * batch_ms / mean_ms
    files = max(1, round(batch_ms / 1000 / _TICK_S))
    taken_ms = _batch_ms(spark, workload, instances, int(ideal), files)
    # What Spark takes for itself is about the same for fewer records.
    share = 1 - max(0.0, taken_ms - batch_ms) / batch_ms
    records = max(instances, int(ideal * max(0.2, share)))
    return 1000 * records / _batch_ms(spark, workload, instances, records, files)


def _batch_ms(
    spark: SparkSession, workload: Workload, instances: int, records: int, files: int
) -> float:
    """Measure how long a batch of so many records takes, after two that are not timed.

    It comes in as many files as it would if it had arrived at its own pace.
    """
    batches = 6
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "source")
        source.mkdir()
        stream = workload.stream(1)
        numbers = np.arange((batches + 2) * records) % len(stream)
        for file, chosen in enumerate(np.array_split(numbers, (batches + 2) * files)):
            keys, costs_ms = stream.keys[chosen], stream.costs_ms[chosen]
            write(source, file, keys, costs_ms, np.zeros(chosen.size))
        used = operator(instances, None, "capacity")
        checkpoint = Path(folder, "checkpoint")
        with collect_stream(
            spark, source, GIVEN, operator=used, checkpoint=checkpoint, files=files
        ) as collected:
            pass
        used.close()
    ends_s = [float(np.max(table["started_s"].to_numpy())) for table in collected]
    return 1000 * (ends_s[-1] - ends_s[1]) / batches
