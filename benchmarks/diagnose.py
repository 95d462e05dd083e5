"""Does `penstock diagnose` name the cause that a job was built with, and predict what a cure gains?

Each job of `diagnose_jobs.py` runs on a local Spark in a process of its own, with an event log; its
name is its planted cause. Then it runs again with a cure that the diagnosis advises, and `penstock
compare` measures the gain on the last batches. Operators sleep, so this is latency-bound; only the
job with garbage collection computes. At last a generated log shows how fast logs are read.

    python benchmarks/diagnose.py
    python benchmarks/diagnose.py --jobs uneven_costs,healthy
    python benchmarks/diagnose.py --logs FOLDER           keeps the logs
    python benchmarks/diagnose.py --logs FOLDER --read    reads kept logs, and runs no job
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from common import OUT, Options, at_most, goal_columns, new_table, write_report, yes_or_no
from diagnose_jobs import JOBS
from penstock.diagnosis import Diagnosis, QueryDiagnosis, diagnose, find_logs, read_log
from penstock.diagnosis.bootstrap import Estimate
from penstock.diagnosis.comparison import compare
from penstock.diagnosis.patient import Cure

# A job may take this long on a busy machine.
LONGEST_S = 900
# A healthy job has no cure with a larger gain.
NOTHING = 1.05
# An achieved gain may differ from the predicted one by this part of it.
NEAR = 0.15
# Part of the batches that is compared: a cure needs some batches to learn or to move state.
LATE = 0.5
# Stands for the number of a job and its stage in a generated log.
_NUMBER = 987_654_321
# Stands for the first digits of all its times, in ms since 1970.
_DAY = 55_555


@dataclass(frozen=True)
class Outcome:
    """A job: its diagnosis, and the gain of its cure.

    Attributes:
        job: name of the job: the planted cause.
        found: diagnosis of its longest query.
        cure: predicted cure; None if the planted cure was not advised.
        achieved: achieved gain; None without a cure.
    """

    job: str
    found: QueryDiagnosis
    cure: Cure | None = None
    achieved: Estimate | None = None

    @property
    def named(self) -> bool:
        """Whether the main cause is the planted one; a healthy job has nothing to gain."""
        gains = [cure.gain for cure in self.found.cures] if self.job == "healthy" else []
        return str(self.found.main_cause) == self.job and all(one <= NOTHING for one in gains)

    @property
    def inside(self) -> bool:
        """Whether the achieved gain is in the predicted interval."""
        if self.cure is None or self.achieved is None:
            return False
        return bool(self.cure.low <= self.achieved.mid <= self.cure.high)

    @property
    def near(self) -> bool:
        """Whether the achieved gain is near the predicted one."""
        if self.cure is None or self.achieved is None:
            return False
        return bool(abs(self.achieved.mid / self.cure.gain - 1) <= NEAR)

    def cause_row(self) -> list[str]:
        """Return the row of the table of causes."""
        share = self.found.causes[0].share if self.found.causes else 0.0
        return [self.job, str(self.found.main_cause), f"{share:.0%}", yes_or_no(self.named)]

    def gain_row(self) -> list[str]:
        """Return the row of the table of gains."""
        cure, gain = self.cure, self.achieved
        row = [self.job]
        row += [f"{cure.gain:.2f}", f"{cure.low:.2f} to {cure.high:.2f}"] if cure else ["none", ""]
        row += [f"{gain.mid:.2f}" if gain else ""]
        return [*row, yes_or_no(self.inside), yes_or_no(self.near)]

    def document(self) -> dict[str, object]:
        """Return the outcome for the file of results."""
        return {
            "main_cause": str(self.found.main_cause),
            "named": self.named,
            "causes": {str(one.cause): round(one.share, 4) for one in self.found.causes},
            "cures": {one.cure: [one.low, one.gain, one.high] for one in self.found.cures},
            "achieved": list(self.achieved) if self.achieved else None,
            "inside": self.inside,
            "near": self.near,
        }


def run(job: str, logs: Path, *, batches: int, more: tuple[str, ...] = ()) -> None:
    """Run a job; its event log goes to a folder."""
    command = [sys.executable, str(Path(__file__).with_name("diagnose_jobs.py")), job]
    command += ["--logs", str(logs), "--batches", str(batches), *more]
    subprocess.run(command, check=True, timeout=LONGEST_S, env=dict(os.environ))  # noqa: S603


def diagnosed(logs: Path) -> Diagnosis:
    """Diagnose the streaming query, or the longest one, of the only log in a folder."""
    (log,) = find_logs(logs)
    found = diagnose(read_log(log))
    chosen = max(found.queries, key=lambda query: (query.streaming, query.duration_s))
    return replace(found, queries=[chosen])


def late(found: Diagnosis) -> Diagnosis:
    """Return a diagnosis with the last batches only."""
    (query,) = found.queries
    count = max(1, round(LATE * query.batches))
    own = replace(query, examined=query.examined[-count:], splits=query.splits[-count:])
    return replace(found, queries=[own])


def advised_slots(cure: Cure | None) -> tuple[str, ...]:
    """Return the options of a job for the slots that a cure advises."""
    number = re.search(r"\d+", cure.what) if cure is not None else None
    return ("--slots", number[0]) if number else ()


def tried(job: str, folder: Path, *, batches: int, reads: bool) -> Outcome:
    """Run a job, diagnose it, run it with its cure, and compare both.

    Args:
        job: name of the job.
        folder: folder for logs.
        batches: number of batches.
        reads: whether the logs are there already.
    """
    logs, cured = folder / job, folder / f"{job}-cured"
    if not reads:
        run(job, logs, batches=batches)
    before = diagnosed(logs)
    (found,) = before.queries
    wanted = JOBS[job][1]
    if wanted is None:
        return Outcome(job, found)
    cure = {one.cure: one for one in found.cures}.get(wanted)
    if not reads:
        run(job, cured, batches=batches, more=("--cured", *advised_slots(cure)))
    (both,) = compare(late(before), late(diagnosed(cured)))
    return Outcome(job, found, cure, both.gain)


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
    options.size("batches", 12, 4, meaning="number of batches of a job")
    options.size("megabytes", 1_000, 20, meaning="size of the generated log; 0 for none")
    options.parser.add_argument("--jobs", default=",".join(JOBS), help="jobs to run; may be empty")
    options.parser.add_argument("--logs", type=Path, help="folder in which logs are kept")
    options.parser.add_argument("--read", action="store_true", help="read kept logs; run no job")
    args = options.parse()
    chosen = [job for job in args.jobs.split(",") if job]
    console = Console()
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="penstock-diagnose-", dir=OUT) as name:
        folder = args.logs or Path(name)
        outcomes = [tried(job, folder, batches=args.batches, reads=args.read) for job in chosen]
        speed = reading(Path(name), args.megabytes) if args.megabytes else None
    causes = new_table("Planted causes on Spark", ["planted", "main cause"], ["share", "named"])
    numbers = ["gain", "between", "achieved", "inside", "near"]
    gains = new_table("Cures, predicted and applied", ["job"], numbers)
    for one in outcomes:
        causes.add_row(*one.cause_row())
        if JOBS[one.job][1] is not None:
            gains.add_row(*one.gain_row())
    console.print(causes)
    console.print(gains)
    report = {"latency_bound": True, "jobs": {one.job: one.document() for one in outcomes}}
    if speed is not None:
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
    write_report(args.json, report)


if __name__ == "__main__":
    main()
