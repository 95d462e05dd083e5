"""Where does a small task spend its time? Penstock's tasks beside those of plain Spark.

One slot (`local[1]`) and warm Python workers. Plain Spark runs `mapInArrow` with a function that
returns its batches. It runs over TCP, over TCP with acknowledgements at once (as Penstock's tasks
do), and over UNIX domain sockets (`spark.python.unix.domain.socket.enabled`). Applications take
turns, round by round. Clocks inside of the workers measure the parts; they add up to the time from
one task to the next. Spark's own metrics of the same tasks stand beside them.

    python benchmarks/task.py
"""

import json
import multiprocessing
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import penstock
import task_clocks
from common import Options, new_table, write_report
from penstock.spark.executor.shipping import acknowledging
from penstock.spark.lab import session

RECORDS = 20
# Applications: plain Spark and Penstock never share a Python worker.
TCP, UNIX, PENSTOCK = "TCP", "UNIX", "penstock"
# Spark's own metrics of a task, in milliseconds.
METRICS = (
    "Executor Deserialize Time",
    "Executor Run Time",
    "time to start Python workers",
    "time to initialize Python workers",
    "time to run Python workers",
    "time to execute Python code",
)
LAUNCHES = "from launch to launch"


# The functions of tasks are nested, so that Spark ships them whole: a plain worker must not import
# this file, and Penstock with it.


def plain(frame: DataFrame, tasks: int) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return frame.repartition(tasks).mapInArrow(run, frame.schema)


def plain_acknowledging(frame: DataFrame, tasks: int) -> DataFrame:
    acknowledge = acknowledging()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge()
        yield from batches

    return frame.repartition(tasks).mapInArrow(run, frame.schema)


def by_penstock(frame: DataFrame, tasks: int) -> DataFrame:
    def nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    return balanced(frame, tasks, nothing)


def by_penstock_one_by_one(frame: DataFrame, tasks: int) -> DataFrame:
    def nothing(record: dict[str, Any]) -> dict[str, Any]:
        return record

    return balanced(frame, tasks, nothing)


def balanced(frame: DataFrame, tasks: int, function: Callable[[Any], Any]) -> DataFrame:
    # Turns, so that every task gets as many records.
    operator = penstock.balance(
        function, key="id", schema=frame.schema, instances=tasks, grouping="round_robin"
    )
    return frame.transform(operator)


@dataclass(frozen=True)
class Case:
    """A kind of task.

    Attributes:
        way: name of the way to run it.
        application: name of the application that runs it.
        records: number of records of a task.
        make: function that returns the result of a frame, with a number of tasks.
    """

    way: str
    application: str
    records: int
    make: Callable[[DataFrame, int], DataFrame]


CASES = {
    f"{way}, {records} records": Case(way, application, records, make)
    for records in (0, RECORDS)
    for way, application, make in (
        ("plain", TCP, plain),
        ("plain, quick ack", TCP, plain_acknowledging),
        ("plain, UNIX socket", UNIX, plain),
        ("penstock", PENSTOCK, by_penstock),
        ("penstock, one by one", PENSTOCK, by_penstock_one_by_one),
    )
    if records or make is not by_penstock_one_by_one
}

Times = dict[str, float]


@dataclass(frozen=True)
class Round:
    """A job to run: a number of tasks of one kind. It is not measured in a warm-up."""

    case: str
    tasks: int
    measured: bool


def serve(application: str, connection: Connection) -> None:
    """Run an application in this process: a job for each round; in the end send the times.

    Args:
        application: name of the application.
        connection: connection to the process that sends rounds, and None in the end.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-task-") as name:
        folder = Path(name)
        here = str(Path(__file__).parent)
        os.environ[task_clocks.FOLDER] = name
        os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
        spark = session(
            "local[1]",
            f"penstock-task-{application}",
            spark__eventLog__enabled="true",
            spark__eventLog__dir=folder.as_uri(),
            spark__eventLog__compress="false",
            spark__eventLog__rolling__enabled="false",
            spark__python__daemon__module=task_clocks.__name__,
            spark__python__unix__domain__socket__enabled=str(application == UNIX).lower(),
            # Jobs without records have as many tasks as others.
            spark__sql__adaptive__enabled="false",
        )
        application_id = spark.sparkContext.applicationId
        connection.send("ready")
        while (one := connection.recv()) is not None:
            run(spark, one)
            connection.send("done")
        spark.stop()
        connection.send(times_of(folder / application_id, folder))


def run(spark: SparkSession, one: Round) -> None:
    case = CASES[one.case]
    spark.sparkContext.setJobGroup(one.case if one.measured else "warm-up", one.case)
    rows = spark.range(0, max(1, case.records * one.tasks), 1, 1)
    frame = rows if case.records else rows.where("id < 0")
    case.make(frame, one.tasks).write.format("noop").mode("overwrite").save()


def times_of(log: Path, folder: Path) -> dict[str, list[Times]]:
    """Return parts and metrics of all measured tasks but the first of each job, by case."""
    parts = {}
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            parts[entry["task"]] = entry["parts_ms"]
    found = {}
    for case, tasks in measured_tasks(log).items():
        # A worker that Spark has ended did not write the times of its last task.
        found[case] = [{**parts[one.number], **one.metrics} for one in tasks if one.number in parts]
    return found


@dataclass(frozen=True)
class Task:
    """A task in the event log: its number, its launch, and Spark's metrics in milliseconds."""

    number: int
    launch_ms: float
    metrics: Times = field(default_factory=dict)


def measured_tasks(log: Path) -> dict[str, list[Task]]:
    """Return the tasks of the last stage of each job, by its group, but the first and the last."""
    case_of: dict[int, str] = {}
    stages: dict[int, list[Task]] = defaultdict(list)
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            case_of[max(event["Stage IDs"])] = event["Properties"]["spark.jobGroup.id"]
        elif event["Event"] == "SparkListenerTaskEnd":
            stages[event["Stage ID"]].append(task_of(event))
    found: dict[str, list[Task]] = defaultdict(list)
    for stage, case in case_of.items():
        if case in CASES:
            tasks = sorted(stages[stage], key=lambda task: task.launch_ms)
            for task, after in pairwise(tasks[1:]):
                task.metrics[LAUNCHES] = after.launch_ms - task.launch_ms
                found[case].append(task)
    return found


def task_of(event: dict[str, Any]) -> Task:
    info = event["Task Info"]
    measured = {**event["Task Metrics"]}
    measured |= {one["Name"]: one["Update"] for one in info["Accumulables"] if "Update" in one}
    # Spark leaves out metrics that are zero.
    metrics = {name: float(measured.get(name, 0)) for name in METRICS}
    return Task(info["Task ID"], info["Launch Time"], metrics)


def middle(tasks: list[Times]) -> Times:
    """Return the mean of the middle half of tasks, by their time: means of parts add up."""
    ordered = sorted(tasks, key=total_ms)
    cut = len(ordered) // 4
    chosen = ordered[cut : len(ordered) - cut]
    return {name: float(np.mean([one[name] for one in chosen])) for name in chosen[0]}


def total_ms(times: Times) -> float:
    return sum(times[part] for part in task_clocks.PARTS)


@dataclass
class Application:
    """An application in a process of its own."""

    name: str
    connection: Connection = field(init=False)
    process: multiprocessing.process.BaseProcess = field(init=False)

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(self.name, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, one: Round | None) -> Any:
        self.connection.send(one)
        return self.connection.recv()


def measure(tasks: int, rounds: int, warm_up: int) -> dict[str, Times]:
    """Return the times of each kind of task; applications take turns, round by round."""
    applications = {name: Application(name) for name in (TCP, UNIX, PENSTOCK)}
    for one in applications.values():
        assert one.connection.recv() == "ready"
    for number in range(-warm_up, rounds):
        for name, case in CASES.items():
            applications[case.application].run(Round(name, tasks, measured=number >= 0))
    found = {}
    for one in applications.values():
        found |= one.run(None)
        one.process.join()
    return {name: middle(found[name]) for name in CASES}


def show(found: dict[str, Times], records: int) -> None:
    """Print a table for the tasks with so many records: a column for each way."""
    chosen = {case.way: found[name] for name, case in CASES.items() if case.records == records}
    table = new_table(
        f"a task with {records} records, ms (one slot, warm workers)",
        labels=("part",),
        numbers=tuple(chosen),
        long_labels=True,
    )
    for part in task_clocks.PARTS:
        table.add_row(part, *(f"{times[part]:.2f}" for times in chosen.values()))
    table.add_row("sum", *(f"{total_ms(times):.2f}" for times in chosen.values()), end_section=True)
    for metric in (LAUNCHES, *METRICS):
        table.add_row(f"Spark: {metric}", *(f"{times[metric]:.1f}" for times in chosen.values()))
    Console().print(table)


def main() -> None:
    options = Options("task", __doc__)
    options.size("tasks", 40, 4, meaning="number of tasks of a job")
    options.size("rounds", 10, 1, meaning="number of measured jobs of each kind of task")
    options.size("warm_up", 3, 1, meaning="number of jobs of each kind that are not measured")
    args = options.parse()
    found = measure(args.tasks, args.rounds, args.warm_up)
    for records in (0, RECORDS):
        show(found, records)
    report = {name: {"sum": total_ms(times), **times} for name, times in found.items()}
    write_report(args.json, report)


if __name__ == "__main__":
    main()
