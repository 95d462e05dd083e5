"""The cost of `penstock.dashboard()`: CPU time of one update, as a share of a core.

Five queries with a balanced operator have run a batch each and wait for their next trigger. Nearly
all CPU time thus belongs to the dashboard. An update is a look of the sampler, and a request of
one open page over HTTP. A look is measured without news, and as if each query had just ended a
batch; the backlog of files is then read in every tenth look, as in reality.
"""

import itertools
import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

import penstock
from common import Goal, Options, at_most, goal_columns, new_table, write_report
from penstock.control.history import HOUR_S
from penstock.spark.dashboard import Dashboard
from penstock.spark.driver.sampler import CURVES
from penstock.spark.lab import session

SCHEMA = "entity string, n int"
RECORDS = 200
# Updates before the measured ones: the JVM compiles its code.
WARM_UP = 20
GOAL: Goal = at_most(1.0)


def started(spark: SparkSession, folder: Path, number: int, *, instances: int) -> StreamingQuery:
    """Start a query that runs one batch, and then waits for an hour."""
    operator = penstock.balance(
        lambda record: record,
        key="entity",
        schema=SCHEMA,
        instances=instances,
        name=f"operator-{number}",
    )
    frame = spark.readStream.schema(SCHEMA).json(str(folder / "in")).transform(operator)
    writer = frame.writeStream.format("noop").queryName(f"query {number}")
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{number}"))
    return writer.trigger(processingTime="1 hour").start()


def jvm_cpu_s(pid: int) -> float:
    """Return the CPU time of the JVM's threads that answer Python; 0 where it is unknown.

    The JVM compiles and collects garbage all the time, on other threads.
    """
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            if (task / "comm").read_text().startswith("Thread-"):
                total_ns += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            continue  # the thread has ended
    return total_ns / 1e9


def measured(
    work: Callable[[], None], updates: int, pid: int, *, is_client: bool = False
) -> dict[str, float]:
    """Return the CPU time of a piece of work, in Python and in the JVM.

    Args:
        work: function that does the work of one update.
        updates: number of updates.
        pid: process of the JVM.
        is_client: whether the function is a client, whose own CPU time does not count.
    """
    for _ in range(min(WARM_UP, updates)):
        work()
    python_s, own_s, java_s = time.process_time(), time.thread_time(), jvm_cpu_s(pid)
    for _ in range(updates):
        work()
    python_s, own_s = time.process_time() - python_s, time.thread_time() - own_s
    java_s = jvm_cpu_s(pid) - java_s
    python_ms = 1000 * (python_s - own_s if is_client else python_s) / updates
    java_ms = 1000 * java_s / updates
    return {
        "Python CPU ms": python_ms,
        "JVM CPU ms": java_ms,
        "% of a core": (python_ms + java_ms) / 10,
    }


def of_dashboard(served: Dashboard, updates: int, pid: int) -> dict[str, dict[str, float]]:
    """Return the costs of looks and of requests."""
    sampler = served._sampler
    sampler.close()  # its own looks would be counted, too
    for history in sampler.histories.values():
        for second in range(HOUR_S):
            history.add(time.time() - HOUR_S + second, [1.5 * second] * len(CURVES))

    looks = itertools.count()

    def look_at_news() -> None:
        for query, batch in sampler._batches.items():
            sampler._batches[query] = replace(batch, timestamp="")
        if next(looks) % 10 == 0:
            sampler._backlog_due_s.clear()
        sampler.look()

    def ask() -> None:
        with urllib.request.urlopen(f"{served.url}data?span=900", timeout=60) as answer:  # noqa: S310
            answer.read()

    found = {
        "look without news": measured(sampler.look, updates, pid),
        "look with news": measured(look_at_news, updates, pid),
        "open page": measured(ask, updates, pid, is_client=True),
    }
    _, look, page = found.values()
    return {**found, "news and page": {name: look[name] + page[name] for name in look}}


def main() -> None:
    options = Options("dashboard", __doc__)
    options.size("queries", 5, 2, meaning="number of queries")
    options.size("instances", 8, 2, meaning="number of instances of each operator")
    options.size("updates", 300, 3, meaning="number of measured updates")
    args = options.parse()
    spark = session("local[2]", "penstock-benchmark-dashboard")
    pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    with TemporaryDirectory() as temporary, penstock.dashboard() as served:
        folder = Path(temporary)
        (folder / "in").mkdir()
        lines = [json.dumps({"entity": f"e{n % 20}", "n": n}) for n in range(RECORDS)]
        (folder / "in" / "0.json").write_text("\n".join(lines))
        running = [
            started(spark, folder, number, instances=args.instances)
            for number in range(args.queries)
        ]
        while any(query.lastProgress is None for query in running):
            time.sleep(0.1)
        rows = of_dashboard(served, args.updates, pid)
        for query in running:
            query.stop()
    spark.stop()
    table = new_table(
        f"One update a second, {args.queries} queries with operators of {args.instances} instances",
        ["part"],
        [*rows["open page"], "goal (% of a core)", "reached"],
    )
    for part, found in rows.items():
        goal = goal_columns(GOAL, found["% of a core"]) if part == "news and page" else ("", "")
        table.add_row(part, *(f"{value:.2f}" for value in found.values()), *goal)
    Console().print(table)
    write_report(args.json, rows)


if __name__ == "__main__":
    main()
