"""Live trials on real Spark: records arrive at their own pace, and wait for a free instance.

The operators here sleep: they stand for calls to a database, so that a machine can run more
instances than it has cores. Such a trial is latency-bound. All tables and plots state that.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

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
    """A time in which the load does not change.

    Attributes:
        seconds: length of the phase.
        load: arriving work, relative to the capacity of all instances.
        slowdown: factor by which records cost more than usual.
        held: whether the source is paused; all its records then arrive when the phase ends.
    """

    seconds: float
    load: float
    slowdown: float = 1.0
    held: bool = False


@dataclass(frozen=True)
class LiveTrial:
    """Measurements of a live trial. Times in seconds count from the start of the first phase.

    Attributes:
        arrival_s: arrival time of each processed record.
        waiting_ms: time from the arrival of each processed record to its execution.
        cost_ms: cost of each processed record.
        arrived_s: arrival time of each record, whether processed or not.
        received: number of received records, as the operator counts them.
        shed: number of shed records, as the operator counts them.
        processed: number of processed records, as the operator counts them.
    """

    arrival_s: Float64
    waiting_ms: Float64
    cost_ms: Float64
    arrived_s: Float64
    received: int
    shed: int
    processed: int

    def waiting(self, start_s: float, stop_s: float) -> float:
        """Return the mean waiting time of records of this interval; NaN if none was processed."""
        chosen = (self.arrival_s >= start_s) & (self.arrival_s < stop_s)
        return float(self.waiting_ms[chosen].mean()) if chosen.any() else float("nan")

    def completion(self, start_s: float, stop_s: float) -> float:
        """Return the mean time from arrival to completion, of records of this interval."""
        chosen = (self.arrival_s >= start_s) & (self.arrival_s < stop_s)
        both = self.waiting_ms + self.cost_ms
        return float(both[chosen].mean()) if chosen.any() else float("nan")

    def dropped(self, start_s: float, stop_s: float) -> float:
        """Return the share of records of this interval that were not processed."""
        arrived = int(((self.arrived_s >= start_s) & (self.arrived_s < stop_s)).sum())
        kept = int(((self.arrival_s >= start_s) & (self.arrival_s < stop_s)).sum())
        return 1 - kept / arrived if arrived else float("nan")


class File(NamedTuple):
    """Records that arrive within one tick."""

    number: int
    keys: Int64
    costs_ms: Float64
    arrival_s: Float64

    def write(self, folder: Path) -> None:
        """Write the records under a hidden name and rename the file: no reader sees half of it."""
        arrival = pa.array((self.arrival_s * 1e6).astype(np.int64), pa.timestamp("us", tz="UTC"))
        table = pa.table({"key": self.keys, "cost_ms": self.costs_ms, "arrival": arrival})
        hidden = folder / f".{self.number:06}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(folder / f"{self.number:06}.parquet")


class Feed:
    """A thread that writes records to a folder as they arrive, one file every 250 ms."""

    def __init__(
        self, folder: Path, workload: Workload, phases: Sequence[Phase], *, capacity_per_s: float
    ) -> None:
        self._folder = folder
        self._workload = workload
        self._phases = phases
        self._capacity_per_s = capacity_per_s
        self._thread = threading.Thread(target=self._run, name="penstock-feed", daemon=True)
        self.arrived_s: list[Float64] = []
        self.began_s = 0.0

    def start(self) -> None:
        """Start the first phase."""
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
                file = File(
                    number=number,
                    keys=stream.keys[chosen],
                    costs_ms=stream.costs_ms[chosen] * phase.slowdown,
                    arrival_s=self.began_s + offsets,
                )
                number += 1
                time.sleep(max(0.0, self.began_s + due_s - time.time()))
                if phase.held:
                    held.append(file)
                else:
                    file.write(self._folder)
            for file in held:
                file.write(self._folder)


def work(record: dict[str, Any]) -> dict[str, float]:
    """Sleep for the cost of the record."""
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
    workload: Workload,
    phases: Sequence[Phase],
    *,
    name: str,
    instances: int,
    capacity_per_s: float,
    shedder: Shedder | None,
) -> LiveTrial:
    """Run phases through an operator, with or without a shedder, until no record waits.

    Args:
        spark: session with at least as many slots as instances.
        workload: workload from which records are drawn, over and over.
        phases: phases of the trial, in their order.
        name: name of the operator.
        instances: number of tasks that share the work.
        capacity_per_s: records a second that the instances can process: a load of 1.
        shedder: shedder of the operator; None sheds nothing.
    """
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "source")
        source.mkdir()
        feed = Feed(source, workload, phases, capacity_per_s=capacity_per_s)
        used = operator(instances, shedder, name)
        checkpoint = Path(folder, "checkpoint")
        with collect_stream(
            spark, source, GIVEN, operator=used, checkpoint=checkpoint
        ) as collected:
            feed.start()
            feed.join()
        stats = used.stats()
        used.close()
    arrival_s = np.concatenate([t["arrival_s"].to_numpy() for t in collected]) - feed.began_s
    started_s = np.concatenate([t["started_s"].to_numpy() for t in collected]) - feed.began_s
    return LiveTrial(
        arrival_s=arrival_s,
        waiting_ms=1000 * np.maximum(started_s - arrival_s, 0),
        cost_ms=np.concatenate([t["cost_ms"].to_numpy() for t in collected]),
        arrived_s=np.concatenate(feed.arrived_s),
        received=stats.received,
        shed=stats.shed,
        processed=stats.processed,
    )


def capacity_of(
    spark: SparkSession, workload: Workload, instances: int, *, batch_ms: float
) -> float:
    """Measure how many records a second an operator processes that never waits for records.

    Spark takes some time for each batch, so that larger batches have a higher throughput. This
    measures batches that take `batch_ms`: their records wait for that time on average.
    """
    work_ms = float(workload.stream(1).costs_ms.mean()) / instances
    files = max(1, round(batch_ms / 1000 / _TICK_S))
    measured = partial(_batch_ms, spark, workload, instances, files=files)
    # A batch has a fixed overhead, and one for each record: two lengths show both.
    ideal = int(batch_ms / work_ms)
    fewest = max(instances, files, ideal // 5)
    most = max(fewest + 1, ideal)
    measured(records=fewest)  # Spark becomes faster while it runs.
    long_ms, short_ms = measured(records=most), measured(records=fewest)
    each_ms = max(work_ms, (long_ms - short_ms) / (most - fewest))
    wanted = fewest + (batch_ms - short_ms) / each_ms
    records = int(min(max(wanted, fewest), most))
    return 1000 * records / measured(records=records)


def _batch_ms(
    spark: SparkSession, workload: Workload, instances: int, *, records: int, files: int
) -> float:
    """Measure the duration of a batch of so many records, after two batches that are not timed.

    The batch has as many files as it would have if its records had arrived at their own pace.
    """
    batches = 6
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "source")
        source.mkdir()
        stream = workload.stream(1)
        indices = np.arange((batches + 2) * records) % len(stream)
        for number, chosen in enumerate(np.array_split(indices, (batches + 2) * files)):
            File(
                number=number,
                keys=stream.keys[chosen],
                costs_ms=stream.costs_ms[chosen],
                arrival_s=np.zeros(chosen.size),
            ).write(source)
        used = operator(instances, None, "capacity")
        checkpoint = Path(folder, "checkpoint")
        with collect_stream(
            spark, source, GIVEN, operator=used, checkpoint=checkpoint, files=files
        ) as collected:
            pass
        used.close()
    ends_s = [float(np.max(table["started_s"].to_numpy())) for table in collected]
    return 1000 * (ends_s[-1] - ends_s[1]) / batches
