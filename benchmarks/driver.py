"""How much does the driver do for 1,000 Python workers? Snapshots and reports of one batch.

Snapshots: workers in other processes fetch the snapshot of a batch from a real control channel, all
at once. Each executor has 8 workers that share its answer; for comparison each worker asks by
itself. Reports: a Spark job of many empty tasks, whose tasks report or do not report.

    python benchmarks/driver.py
"""

import multiprocessing
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
from rich.console import Console

from common import Goal, Options, at_most, goal_columns, new_table, write_report
from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, TaskId, pack, pack_costs
from penstock.grouping import Proactive
from penstock.spark.channel import Address, Answer, ControlServer
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.executor.snapshots import Answers
from penstock.spark.lab import session

ENTRIES = 65_535
WORKERS_PER_EXECUTOR = 8
CLIENTS = 2
ROUNDS = 3


def report_of(task: TaskId, records: int, *, busy_ms: float, costs: bytes) -> ExecutionReport:
    return ExecutionReport(
        task,
        records=records,
        emitted=records,
        busy_ms=busy_ms,
        executor=str(task.partition),
        costs=costs,
    )


def controller_with(entries: int) -> Controller:
    """Return a controller that has learnt the costs of some keys."""
    instances = 64
    grouping = Proactive(instances, capacity=1_024)
    controller = Controller("op", "query", OperatorPolicies(grouping), journal=Journal())
    generator = np.random.default_rng(1)
    for instance in range(instances):
        tracker = grouping.tracker(instance)
        keys = generator.integers(-(2**62), 2**62, entries // instances)
        tracker.execute(keys, generator.exponential(10, keys.size), 0.0)
        task = TaskId("op", "query", "0", instance)
        costs = pack_costs(tracker.finish())
        controller.observe(report_of(task, keys.size, busy_ms=1.0, costs=costs))
    return controller


def client(address: Address, folders: list[str], barriers: tuple[Barrier, Barrier]) -> None:
    """Let the workers of some executors fetch the snapshot of each batch, all at once.

    Args:
        address: address of the driver.
        folders: folder of each worker's executor.
        barriers: two meeting points with the driver, before a batch and at its start.
    """
    ready, go = barriers
    workers = [Answers(address, Path(folder)) for folder in folders]
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(lambda one: one.get(TaskId("op", "query", "warm", 0, run="run")), workers))
        for batch in range(ROUNDS):
            ready.wait()
            go.wait()
            task = TaskId("op", "query", str(batch), 0, run="run")
            list(pool.map(lambda one, task=task: one.get(task), workers))


def snapshots(workers: int, entries: int, *, shared: bool) -> dict[str, float]:
    """Measure the driver while all workers fetch the snapshot of a batch."""
    controller = controller_with(entries)
    sent_bytes, requests = 0, 0
    lock = threading.Lock()

    def answer(request: dict[str, str]) -> Answer:
        nonlocal sent_bytes, requests
        snapshot = controller.snapshot(request["batch"])
        with lock:
            requests += 1
            if request.get("version") != snapshot.version:
                sent_bytes += len(snapshot.packed)
        return Answer("query", request["batch"], snapshot)

    server = ControlServer("127.0.0.1", answer)
    root = Path(tempfile.mkdtemp(prefix="penstock-driver-"))
    per_folder = WORKERS_PER_EXECUTOR if shared else 1
    folders = [str(root / str(number // per_folder)) for number in range(workers)]
    context = multiprocessing.get_context("spawn")
    ready, go = context.Barrier(CLIENTS + 1), context.Barrier(CLIENTS + 1)
    clients = [
        context.Process(target=client, args=(server.address, folders[i::CLIENTS], (ready, go)))
        for i in range(CLIENTS)
    ]
    for one in clients:
        one.start()
    measured = []
    for batch in range(ROUNDS):
        ready.wait()
        _teach(controller, batch)
        sent_bytes = requests = 0
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        go.wait()
        while requests < (len(set(folders))):
            time.sleep(0.002)
        time.sleep(0.05)
        measured.append(
            {
                "requests": requests,
                "sent MB": sent_bytes / 1e6,
                "driver CPU ms": 1000 * (time.process_time() - cpu_s),
                "wall ms": 1000 * (time.perf_counter() - wall_s - 0.05),
            }
        )
    for one in clients:
        one.join()
    server.close()
    shutil.rmtree(root)
    return {name: float(np.median([one[name] for one in measured])) for name in measured[0]}


def _teach(controller: Controller, batch: int) -> None:
    """Change the policies, so that a new snapshot must be sent."""
    grouping = Proactive(64, capacity=1_024)
    tracker = grouping.tracker(0)
    tracker.execute(np.arange(10), np.full(10, 5.0 + batch), 0.0)
    task = TaskId("op", "query", f"taught {batch}", 0)
    costs = pack_costs(tracker.finish())
    controller.observe(report_of(task, 10, busy_ms=50.0, costs=costs))


def report_ms(tasks: int) -> float:
    """Return how much longer the driver takes for a task that reports."""
    spark = session("local[2]", "penstock-benchmark-driver")
    plane = ControlPlane.of(spark)
    reports = plane.reports
    tracker = Proactive(64, capacity=1_024).tracker(0)
    tracker.execute(np.arange(200), np.full(200, 5.0), 0.0)
    costs = pack_costs(tracker.finish())
    report = pack(report_of(TaskId("gone", "q", "1", 0), 200, busy_ms=1e3, costs=costs))
    numbers = spark.sparkContext.parallelize(range(tasks), tasks)

    def silent(_: object) -> None:
        pass

    def reporting(_: object) -> None:
        reports.add([report])

    def taken_s(work: object) -> float:
        start = time.perf_counter()
        numbers.foreachPartition(work)  # type: ignore[arg-type]
        return time.perf_counter() - start

    for work in (silent, reporting):
        taken_s(work)
    pairs = [taken_s(reporting) - taken_s(silent) for _ in range(5)]
    return 1000 * float(np.median(pairs)) / tasks


GOALS: dict[str, Goal] = {"per executor": at_most(1.0), "ms per report": at_most(1.0)}


def main() -> None:
    options = Options("driver", __doc__)
    options.size("workers", 1_000, 32, meaning="number of Python workers")
    options.size("entries", ENTRIES, 1_000, meaning="number of keys with known costs")
    options.size("tasks", 1_000, 50, meaning="number of tasks that report")
    args = options.parse()
    executors = args.workers // WORKERS_PER_EXECUTOR
    each = snapshots(args.workers, args.entries, shared=False)
    shared = snapshots(args.workers, args.entries, shared=True)
    table = new_table(
        f"{args.workers:,} workers of {executors:,} executors fetch {args.entries:,} costs",
        ["workers"],
        [*each],
    )
    for name, found in (("each asks", each), ("one of an executor asks", shared)):
        table.add_row(name, *(f"{value:,.0f}" for value in found.values()))
    spent_ms = report_ms(args.tasks)
    goals = new_table("Goals", ["number"], ["measured", "goal", "reached"])
    per_executor = shared["requests"] / executors
    for name, value in (("requests per executor", per_executor), ("ms per report", spent_ms)):
        goal = GOALS["per executor" if "executor" in name else "ms per report"]
        goals.add_row(name, f"{value:.3f}", *goal_columns(goal, value))
    console = Console()
    console.print(table)
    console.print(goals)
    write_report(args.json, {"each": each, "shared": shared, "report_ms": spent_ms})


if __name__ == "__main__":
    main()
