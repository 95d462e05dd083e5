"""Does `penstock diagnose` name the cause that a job was built with?

Each job runs on a local Spark in a process of its own, with an event log. Its operators sleep, so
this is latency-bound. The jobs are in `diagnose_jobs.py`; the name of a job is its planted cause.
For uneven costs the cure is applied, too: the achieved gain should lie in the predicted interval.
At last a generated log shows how fast logs are read.

    python benchmarks/diagnose.py
    python benchmarks/diagnose.py --jobs uneven_costs,healthy
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from common import OUT, Options, at_most, goal_columns, new_table, write_report, yes_or_no
from diagnose_jobs import JOBS
from penstock.diagnosis import Diagnosis, QueryDiagnosis, diagnose, find_logs, read_log

CURED = "uneven_costs_balanced"
# A job may take this long on a busy machine.
LONGEST_S = 900
# Stands for the number of a job and its stage in a generated log.
_NUMBER = 987_654_321
# Stands for the first digits of all its times, in ms since 1970.
_DAY = 55_555


def run(job: str, folder: Path, *, batches: int) -> QueryDiagnosis:
    """Run a job, and diagnose its longest query."""
    logs = folder / job
    command = [sys.executable, str(Path(__file__).with_name("diagnose_jobs.py")), job]
    command += ["--logs", str(logs), "--batches", str(batches)]
    subprocess.run(command, check=True, timeout=LONGEST_S, env=dict(os.environ))  # noqa: S603
    (log,) = find_logs(logs)
    found: Diagnosis = diagnose(read_log(log))
    return max(found.queries, key=lambda query: query.duration_s)


def cured(before: QueryDiagnosis, after: QueryDiagnosis) -> dict[str, float | bool]:
    """Compare the predicted gain of `balance` with the achieved one, on the same batches."""
    count = min(len(before.examined), len(after.examined))
    spent = [sum(batch.duration_ms for batch in one.examined[-count:]) for one in (before, after)]
    achieved = spent[0] / spent[1]
    predicted = {cure.cure: cure for cure in before.cures}.get("balance")
    if predicted is None:
        return {"achieved": achieved, "inside": False}
    return {
        "predicted": predicted.gain,
        "low": predicted.low,
        "high": predicted.high,
        "achieved": achieved,
        "inside": predicted.low <= achieved <= predicted.high,
    }


def generated(path: Path, megabytes: float) -> None:
    """Write a log of many tasks with as many metrics as Spark 4 logs for each."""
    names = [f"internal.metrics.of.a.task.{n}" for n in range(24)]
    metrics = [
        {"ID": n, "Name": name, "Update": n, "Value": n, "Internal": True}
        for n, name in enumerate(names)
    ]
    task_info = {
        "Task ID": 0,
        "Executor ID": "0",
        "Locality": "ANY",
        "Failed": False,
        "Killed": False,
        "Accumulables": metrics,
    }
    task = {
        "Event": "SparkListenerTaskEnd",
        "Stage Attempt ID": 0,
        "Task Metrics": {
            "Executor Run Time": 90,
            "JVM GC Time": 1,
            "Shuffle Read Metrics": {"Fetch Wait Time": 0, "Total Records Read": 10},
        },
    }
    rng = np.random.default_rng(0)
    start_ms = _DAY * 10**8
    events: list[dict] = [
        {"Event": "SparkListenerJobStart", "Job ID": _NUMBER, "Stage IDs": [_NUMBER]}
        | {"Submission Time": start_ms, "Properties": {"spark.job.description": "sums"}}
    ]
    for index, run_ms in enumerate(rng.integers(100, 900, 1_000).tolist()):
        moments = {"Launch Time": start_ms + 50 * index}
        moments["Finish Time"] = moments["Launch Time"] + run_ms
        info = {**task_info, "Index": index, **moments}
        events.append({**task, "Stage ID": _NUMBER, "Task Info": info})
    end = {"Job ID": _NUMBER, "Completion Time": start_ms + 51_000}
    events.append({"Event": "SparkListenerJobEnd", **end})
    job = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()
    added = {"Event": "SparkListenerExecutorAdded", "Timestamp": 0, "Executor ID": "0"}
    added["Executor Info"] = {"Total Cores": 16}
    with path.open("wb") as file:
        file.write(json.dumps(added, separators=(",", ":")).encode() + b"\n")
        number = 0
        while file.tell() < megabytes * 1e6:
            own = job.replace(str(_NUMBER).encode(), str(number).encode())
            file.write(own.replace(str(_DAY).encode(), str(17_672 + number).encode()))
            number += 1


def reading(folder: Path, megabytes: float) -> dict[str, float]:
    """Return how long it takes to read and diagnose a generated log."""
    path = folder / "generated"
    generated(path, megabytes)
    start, cpu = time.perf_counter(), time.process_time()
    (log,) = find_logs(path)
    diagnose(read_log(log))
    return {
        "megabytes": path.stat().st_size / 1e6,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    }


def main() -> None:
    options = Options("diagnose", __doc__)
    options.size("batches", 10, 4, meaning="number of batches of a job")
    options.size("megabytes", 1_000, 20, meaning="size of the generated log")
    options.parser.add_argument("--jobs", default=",".join(JOBS), help="jobs to run; may be empty")
    args = options.parse()
    chosen = [job for job in args.jobs.split(",") if job]
    console = Console()
    report: dict[str, object] = {"latency_bound": True, "jobs": {}}
    found: dict[str, QueryDiagnosis] = {}
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="penstock-diagnose-", dir=OUT) as name:
        for job in chosen:
            found[job] = run(job, Path(name), batches=args.batches)
        speed = reading(Path(name), args.megabytes)
    table = new_table("Planted causes on Spark", ["planted"], ["main cause", "share", "named"])
    for job, query in found.items():
        share = query.causes[0].share if query.causes else 0.0
        named = "" if job == CURED else yes_or_no(str(query.main_cause) == job)
        table.add_row(job, str(query.main_cause), f"{share:.0%}", named)
    console.print(table)
    if "uneven_costs" in found and CURED in found:
        gain = cured(found["uneven_costs"], found[CURED])
        console.print("balance on uneven costs:", gain)
        report["balance"] = gain
    goal = at_most(0.06 * speed["megabytes"])
    reads = new_table("A generated log", ["log"], ["seconds", "CPU seconds", "goal", "reached"])
    reads.add_row(
        f"{speed['megabytes']:,.0f} MB",
        f"{speed['seconds']:.1f}",
        f"{speed['cpu_seconds']:.1f}",
        *goal_columns(goal, speed["seconds"]),
    )
    console.print(reads)
    report["reading"] = speed
    report["jobs"] = {
        job: {"main_cause": str(query.main_cause), "batches": query.batches}
        for job, query in found.items()
    }
    write_report(args.json, report)


if __name__ == "__main__":
    main()
