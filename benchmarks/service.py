"""How fast are many calls to an HTTP service, in threads and awaited?

A local service (aiohttp, in a process of its own) answers after 5 to 500 ms: the times of endpoints
are heavy-tailed, and those of one endpoint differ by a lognormal factor. Four tasks at a time make
16 calls each. Three ways call it: `penstock.balance` with an async function and with threads, and
what users write by hand: `repartition(4)`, and a pool of 16 threads in `mapInArrow` that waits for
each Arrow batch.

The calls come in three shapes: many micro-batches, one large batch, and the same with small Arrow
batches. The first two have Spark's default size of Arrow batches, so that each task has one of
them, and the pool never waits in between. First batches, from which Penstock learns, do not count.

The ideal is one queue with 64 servers that costs nothing, and takes the calls of a batch in their
order. The oracle knows the time of each call, and starts the longest first: no way of 64 servers is
much shorter. Its ratio to the time by hand is the largest gain that is possible.

    python benchmarks/service.py
    python benchmarks/service.py --quick
"""

import http.client
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import urlopen

import aiohttp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import penstock
from common import Goal, Options, at_least, at_most, goal_columns, new_table, write_report
from penstock.policies.grouping.list_scheduling import makespan
from penstock.spark.balance import BalanceOperator
from penstock.spark.lab import session
from penstock.spark.lab.streams import run_stream
from service_process import service

INSTANCES, CONCURRENCY, ENDPOINTS = 4, 16, 200
LEAST_MS, SCALE_MS, SHAPE, MOST_MS, SPREAD = 5.0, 30.0, 1.2, 500.0, 0.3
GIVEN, SCHEMA = "endpoint long, ms double", "endpoint long, status int"
ARROW = pa.schema([("endpoint", pa.int64()), ("status", pa.int32())])
AWAITED, THREADS, BY_HAND = "penstock, async", "penstock, threads", "by hand"
ARROW_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"

Way = Callable[[DataFrame], DataFrame]


class Shape(NamedTuple):
    """How the calls come.

    Attributes:
        name: name of the shape.
        calls: number of calls of a batch.
        learn: number of batches to learn from.
        measure: number of batches to measure after these.
        arrow: largest number of records of an Arrow batch.
    """

    name: str
    calls: int
    learn: int
    measure: int
    arrow: int


def write_batches(folder: Path, shape: Shape) -> list[np.ndarray]:
    """Write each batch as four files; return the times of the answers of each batch."""
    rng = np.random.default_rng(1)
    of_endpoints_ms = LEAST_MS + SCALE_MS * rng.pareto(SHAPE, ENDPOINTS)
    batches = []
    for batch in range(shape.learn + shape.measure):
        endpoints = rng.integers(0, ENDPOINTS, shape.calls)
        factors = np.exp(SPREAD * rng.standard_normal(shape.calls))
        answer_ms = np.clip(of_endpoints_ms[endpoints] * factors, LEAST_MS, MOST_MS)
        table = pa.table({"endpoint": endpoints, "ms": answer_ms})
        for number, part in enumerate(np.array_split(np.arange(shape.calls), INSTANCES)):
            file = folder / f"{INSTANCES * batch + number:06}.parquet"
            pq.write_table(table.slice(part[0], part.size), file)
            os.utime(file, (number + INSTANCES * batch,) * 2)  # files are read by their age
        batches.append(answer_ms)
    return batches


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


def by_penstock(func: Awaited | Called) -> BalanceOperator:
    return penstock.balance(
        func, key="endpoint", schema=SCHEMA, instances=INSTANCES, concurrency=CONCURRENCY
    )


def answered(port: int) -> int:
    with urlopen(f"http://127.0.0.1:{port}/count") as answer:
        return int(answer.read())


def measure(
    spark: SparkSession, shape: Shape, ways: dict[str, Way], *, port: int
) -> dict[str, Any]:
    """Run a stream of this shape in all ways; return times of its measured batches."""
    spark.conf.set(ARROW_RECORDS, str(shape.arrow))
    with TemporaryDirectory(prefix="penstock-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        answers = write_batches(source, shape)
        seconds = {}
        for name, way in ways.items():
            before, rows = answered(port), [0]

            def count(table: pa.Table, rows: list[int] = rows) -> None:
                rows[0] += len(table)

            times = run_stream(
                spark,
                source,
                GIVEN,
                operator=way,
                checkpoint=Path(folder, name.replace(" ", "-")),
                sink=count,
                files=INSTANCES,
            )
            wanted = shape.calls * len(answers)
            if rows[0] != wanted or answered(port) - before != wanted:
                raise RuntimeError(f"{name}: {rows[0]} results of {wanted} calls")
            if isinstance(way, BalanceOperator):
                way.close()
            seconds[name] = (times.duration_ms[shape.learn :] / 1000).tolist()
    measured = answers[shape.learn :]
    return {
        "shape": shape._asdict(),
        "ideal_s": [on_servers_s(one) for one in measured],
        "oracle_s": [on_servers_s(-np.sort(-one)) for one in measured],
        "seconds": seconds,
    }


def on_servers_s(answer_ms: np.ndarray) -> float:
    """Return when one queue with all servers has finished these calls, in their order."""
    return makespan(answer_ms, np.ones(INSTANCES * CONCURRENCY), 0.0) / 1000


def main() -> None:
    options = Options("service", __doc__)
    options.size("calls", 10_000, 200, meaning="number of measured calls of a shape")
    options.size("batches", 10, 2, meaning="number of micro-batches of these calls")
    options.size("large", 2, 1, meaning="number of large batches of all calls, in other shapes")
    options.size("arrow", 500, 10, meaning="number of records of a small Arrow batch")
    args = options.parse()
    calls = args.calls // args.batches
    shapes = [
        Shape(
            f"{args.batches} batches of {calls:,}", calls, args.batches // 2, args.batches, 10_000
        ),
        Shape(f"batches of {args.calls:,}", args.calls, 1, args.large, 10_000),
        Shape(
            f"batches of {args.calls:,}, Arrow batches of {args.arrow}",
            args.calls,
            1,
            args.large,
            args.arrow,
        ),
    ]
    load_before = os.getloadavg()[0]
    spark = session(f"local[{INSTANCES}]", "penstock-service")
    found = []
    with service() as port:
        for shape in shapes:
            ways = {
                BY_HAND: by_hand(port),
                THREADS: by_penstock(Called(port)),
                AWAITED: by_penstock(Awaited(port)),
            }
            found.append(measure(spark, shape, ways, port=port))
    load = {"before": load_before, "after": os.getloadavg()[0]}
    show(found, load)
    write_report(args.json, {"load": load, "shapes": found})


def show(found: list[dict[str, Any]], load: dict[str, float]) -> None:
    console = Console()
    table = new_table(
        f"Calls of an HTTP service, {INSTANCES} x {CONCURRENCY} at a time "
        f"(load average {load['before']:.1f} to {load['after']:.1f})",
        labels=("calls", "way"),
        numbers=("sum (s)", "over ideal"),
        long_labels=True,
    )
    against = new_table("Goals", ["calls", "number"], ["measured", "goal"], long_labels=True)
    against.add_column("reached")
    for one in found:
        shape, ideal_s, oracle_s = one["shape"]["name"], sum(one["ideal_s"]), sum(one["oracle_s"])
        total_s = {name: sum(times) for name, times in one["seconds"].items()}
        for name, spent_s in {**total_s, "oracle": oracle_s, "ideal": ideal_s}.items():
            table.add_row(shape, name, f"{spent_s:.2f}", f"{spent_s / ideal_s:.3f}")
        goals: list[tuple[str, float, Goal | None]] = []
        for name in THREADS, AWAITED:
            goals.append((f"{name} / ideal", total_s[name] / ideal_s, at_most(1.10)))
            goals.append((f"by hand / {name}", total_s[BY_HAND] / total_s[name], at_least(1.15)))
        goals.append(("by hand / oracle", total_s[BY_HAND] / oracle_s, None))
        for name, number, goal in goals:
            against.add_row(shape, name, f"{number:.3f}", *goal_columns(goal, number))
    console.print(table)
    console.print(against)


if __name__ == "__main__":
    main()
