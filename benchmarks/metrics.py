"""How long a scrape of `penstock.metrics()` takes, and how it grows with the operators.

A real server answers over HTTP. The operators have the controllers that queries would have, with
reports of several batches; nothing runs meanwhile.
"""

import time
import urllib.request
from uuid import uuid4

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console

import penstock
from common import Goal, Options, at_most, goal_columns, new_table, write_report
from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, RouterReport, TaskId
from penstock.grouping import Factoring
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.registry import Registration
from penstock.spark.lab import session

BATCHES = 3
GOAL: Goal = at_most(50)


def add_operator(spark: SparkSession, number: int, *, instances: int) -> None:
    """Register an operator whose instances have reported some batches of a query."""
    policies = OperatorPolicies(Factoring(instances))
    name, query = f"operator {number}", str(uuid4())
    journal = Journal()
    registration = Registration(spark, name, name, policies, journal=journal)
    controller = Controller(name, query, policies, journal=journal)
    for batch in range(BATCHES):
        task = TaskId(name, query, str(batch), 0)
        controller.observe(RouterReport(task, 100 * instances, 5.0, 10.0))
        for instance in range(instances):
            task = TaskId(name, query, str(batch), instance)
            began_s = float(batch)
            controller.observe(
                ExecutionReport(
                    task, 100, 100, 900.0, str(instance), started_s=began_s, ended_s=began_s + 0.9
                )
            )
    registration.controllers[query] = controller
    ControlPlane.of(spark).registry.add(registration)


def scraped(url: str, scrapes: int) -> dict[str, float]:
    """Return times of scrapes, and the size of one."""
    taken_ms, cpu_ms, size = [], [], 0
    for _ in range(scrapes + 1):
        start, cpu_s = time.perf_counter(), time.process_time()
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - this process
            size = len(answer.read())
        taken_ms.append(1000 * (time.perf_counter() - start))
        cpu_ms.append(1000 * (time.process_time() - cpu_s))
    return {
        "shortest ms": min(taken_ms[1:]),
        "median ms": float(np.median(taken_ms[1:])),
        "CPU ms": float(np.median(cpu_ms[1:])),
        "kB": size / 1000,
    }


def main() -> None:
    options = Options("metrics", __doc__)
    options.size("operators", 100, 10, meaning="number of operators")
    options.size("instances", 8, 2, meaning="number of instances of each operator")
    options.size("scrapes", 100, 3, meaning="number of scrapes")
    args = options.parse()
    spark = session("local[1]", "penstock-benchmark-metrics")
    rows: dict[int, dict[str, float]] = {}
    made = 0
    with penstock.metrics() as served:
        for operators in (max(1, args.operators // 10), args.operators):
            for number in range(made, operators):
                add_operator(spark, number, instances=args.instances)
            made = operators
            rows[operators] = scraped(served.url, args.scrapes)
    spark.stop()
    table = new_table(
        f"A scrape over HTTP, operators of {args.instances} instances",
        ["operators"],
        [*rows[made], "goal (shortest)", "reached"],
    )
    for operators, found in rows.items():
        numbers = (f"{value:.1f}" for value in found.values())
        table.add_row(f"{operators:,}", *numbers, *goal_columns(GOAL, found["shortest ms"]))
    Console().print(table)
    write_report(args.json, rows)


if __name__ == "__main__":
    main()
