"""How fast are many calls to an HTTP service, in threads and awaited?

A local service (aiohttp, in a process of its own) answers after 5 to 500 ms: the times of endpoints
are heavy-tailed, and those of one endpoint differ by a lognormal factor. Four tasks at a time make
16 calls each. Three ways call it, in turn: `penstock.balance` with an async function and with
threads, and what users write by hand: `repartition(4)`, and a pool of 16 threads in `mapInArrow`
that waits for each Arrow batch. The ideal is one queue with 64 servers that costs nothing.

    python benchmarks/service.py
    python benchmarks/service.py --quick
"""

import http.client
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import aiohttp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from rich.console import Console

import penstock
from common import Goal, Options, at_least, at_most, goal_columns, new_table, write_report
from penstock.policies.grouping.list_scheduling import makespan
from penstock.spark.lab import session
from service_process import service

INSTANCES, CONCURRENCY, ENDPOINTS = 4, 16, 200
LEAST_MS, SCALE_MS, SHAPE, MOST_MS, SPREAD = 5.0, 30.0, 1.2, 500.0, 0.3
SCHEMA = "endpoint long, status int"
ARROW = pa.schema([("endpoint", pa.int64()), ("status", pa.int32())])
AWAITED, THREADS, BY_HAND = "penstock, async", "penstock, threads", "by hand"

Way = Callable[[DataFrame], DataFrame]


def write_calls(folder: Path, calls: int) -> np.ndarray:
    """Write the calls as four files; return the time of each answer."""
    rng = np.random.default_rng(1)
    of_endpoints_ms = LEAST_MS + SCALE_MS * rng.pareto(SHAPE, ENDPOINTS)
    endpoints = rng.integers(0, ENDPOINTS, calls)
    factors = np.exp(SPREAD * rng.standard_normal(calls))
    answer_ms = np.clip(of_endpoints_ms[endpoints] * factors, LEAST_MS, MOST_MS)
    table = pa.table({"endpoint": endpoints, "ms": answer_ms})
    for number, part in enumerate(np.array_split(np.arange(calls), INSTANCES)):
        pq.write_table(table.slice(part[0], part.size), folder / f"{number}.parquet")
    return answer_ms


class Awaited:
    """Calls the service with aiohttp, over the connections of one session."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self, _: Any) -> None:
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/?ms={record['ms']:.3f}"
        async with self.session.get(url) as answer:
            await answer.read()
            return {"endpoint": record["endpoint"], "status": answer.status}

    async def close(self) -> None:
        await self.session.close()


class Called:
    """Calls the service with the standard library, over one connection for each thread."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.own: Any = None

    def open(self, _: Any) -> None:
        self.own = threading.local()

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.own.connection.request("GET", f"/?ms={record['ms']:.3f}")
        answer = self.own.connection.getresponse()
        answer.read()
        return {"endpoint": record["endpoint"], "status": answer.status}


def by_hand(port: int) -> Way:
    """Return what users write: a pool of threads, and all results of each Arrow batch."""
    called = Called(port)

    def call_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        called.open(None)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            for batch in batches:
                yield pa.RecordBatch.from_pylist([*pool.map(called, batch.to_pylist())], ARROW)

    return lambda frame: frame.repartition(INSTANCES).mapInArrow(call_all, SCHEMA)


def by_penstock(func: Awaited | Called) -> Way:
    operator = penstock.balance(
        func, key="endpoint", schema=SCHEMA, instances=INSTANCES, concurrency=CONCURRENCY
    )
    return lambda frame: frame.transform(operator)


def answered(port: int) -> int:
    with urlopen(f"http://127.0.0.1:{port}/count") as answer:
        return int(answer.read())


def measure(ways: dict[str, Way], frame: DataFrame, *, calls: int, runs: int, port: int) -> Any:
    """Return the times of all ways, which run in turn, after one run that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs + 1):
        for name, way in ways.items():
            before, start = answered(port), time.perf_counter()
            way(frame).write.format("noop").mode("overwrite").save()
            times[name].append(time.perf_counter() - start)
            made = answered(port) - before
            if made != calls:
                raise RuntimeError(f"{name}: the service has answered {made} of {calls} calls")
    return {name: found[1:] for name, found in times.items()}


def main() -> None:
    options = Options("service", __doc__)
    options.size("calls", 10_000, 200, meaning="number of calls")
    options.size("runs", 3, 1, meaning="number of runs of each way")
    options.size("arrow", 10_000, 50, meaning="number of records of an Arrow batch")
    args = options.parse()
    load_before = os.getloadavg()[0]
    records = {"spark__sql__execution__arrow__maxRecordsPerBatch": str(args.arrow)}
    spark = session(f"local[{INSTANCES}]", "penstock-service", **records)
    with TemporaryDirectory(prefix="penstock-") as folder, service() as port:
        answer_ms = write_calls(Path(folder), args.calls)
        ideal_s = makespan(answer_ms, np.ones(INSTANCES * CONCURRENCY), 0.0) / 1000
        ways = {
            BY_HAND: by_hand(port),
            THREADS: by_penstock(Called(port)),
            AWAITED: by_penstock(Awaited(port)),
        }
        frame = spark.read.parquet(folder)
        times = measure(ways, frame, calls=args.calls, runs=args.runs, port=port)
    load = {"before": load_before, "after": os.getloadavg()[0]}
    show(times, ideal_s, load)
    write_report(
        args.json, {"calls": args.calls, "ideal_s": ideal_s, "load": load, "seconds": times}
    )


def show(times: dict[str, list[float]], ideal_s: float, load: dict[str, float]) -> None:
    medians = {name: statistics.median(found) for name, found in times.items()}
    table = new_table(
        f"Calls of an HTTP service, 4 x 16 at a time; ideal: {ideal_s:.2f} s "
        f"(load average {load['before']:.1f} to {load['after']:.1f})",
        labels=("way",),
        numbers=("median (s)", "least (s)", "median over ideal"),
    )
    for name, median in medians.items():
        table.add_row(name, f"{median:.2f}", f"{min(times[name]):.2f}", f"{median / ideal_s:.3f}")
    console = Console()
    console.print(table)
    against = new_table("Goals", ["number"], ["measured", "goal", "reached"])
    goals: list[tuple[str, float, Goal]] = []
    for name in THREADS, AWAITED:
        goals.append((f"{name} / ideal", medians[name] / ideal_s, at_most(1.10)))
        goals.append((f"by hand / {name}", medians[BY_HAND] / medians[name], at_least(1.15)))
    for name, number, goal in goals:
        against.add_row(name, f"{number:.2f}", *goal_columns(goal, number))
    console.print(against)


if __name__ == "__main__":
    main()
