"""How well does the simulator of micro-batches predict the durations of real ones?

Each run is a stream of uneven costs on Spark (calls sleep, so this is latency-bound), with an event
log. The first batches warm up, the next ones give the numbers that the simulator needs: overheads
of batches, stages, tasks and records. The simulator then runs the same records through the same
grouping, and its durations of the remaining batches stand beside the real ones. `--record` stores
these numbers; a test predicts the stored runs again.

    python benchmarks/calibrate.py
    python benchmarks/calibrate.py --runs factoring posg --record recordings.json
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from rich.console import Console

from common import Options, at_most, goal_columns, new_table, write_report
from penstock.diagnosis import find_logs, read_log
from penstock.diagnosis.queries import Slots, queries_of
from penstock.experiments.batch_trials import ByPenstock, Load, try_out
from penstock.experiments.calibration import (
    BatchWork,
    Recording,
    Setting,
    calibrated,
    write_recordings,
)
from penstock.sim import HeavyTailed
from penstock.spark.lab import session

# Entries of the cost model for each instance, as `balance` has them.
BY_COST = {"capacity": 1_024}
SETTINGS = [
    Setting("factoring", options=BY_COST),
    Setting("equal within keys", options=BY_COST, spread=0.0, seed=1),
    Setting("wide within keys", options=BY_COST, spread=1.0, seed=2),
    Setting("short batches", options=BY_COST, records=300, seed=3),
    Setting("four routers", options=BY_COST, routers=4, seed=4),
    Setting("posg", "posg", options=BY_COST, seed=5),
    Setting("round robin", "round_robin", seed=6),
    Setting(
        "slow executor",
        options=BY_COST,
        seed=7,
        workers=((2, 2.0), (2, 1.0), (2, 1.0), (2, 1.0)),
    ),
]
GOAL = at_most(0.10)


def run(settings: list[Setting], *, warm_up: int, calibrate: int) -> list[Recording]:
    """Run streams on one Spark, and return what the simulator needs for them."""
    loads = [load_of(setting) for setting in settings]
    with TemporaryDirectory(prefix="penstock-calibrate-") as folder:
        spark = session(
            master(settings[0]),
            "penstock-calibrate",
            spark__eventLog__enabled="true",
            spark__eventLog__dir=Path(folder).as_uri(),
            spark__eventLog__compress="false",
            spark__locality__wait="0s",
        )
        trials = []
        for setting, load in zip(settings, loads, strict=True):
            way = ByPenstock(setting.make_grouping())
            trials += try_out(spark, load, {"run": way}, instances=setting.slots)
        spark.stop()
        (files,) = find_logs(Path(folder))
        log = read_log(files)
    queries = [query for query in queries_of(log, Slots(log)) if query.streaming]
    found = []
    for setting, load, trial, query in zip(settings, loads, trials, queries, strict=True):
        # The query's own report has the duration; the log has the times of stages and tasks.
        batches = [
            replace(batch, duration_ms=float(duration_ms))
            for batch, duration_ms in zip(query.batches, trial.duration_ms, strict=True)
        ]
        assert trial.records == setting.batches * setting.records
        tasks = setting.make_grouping().tasks
        works = [
            work_of(rows, tasks, costs_ms=float(costs_ms.sum()))
            for rows, costs_ms in zip(trial.results, load.costs_ms, strict=True)
        ]
        slow = dict(load.slow_executors)
        slowdown = np.array([slow.get(one.name, 1.0) for one in log.executors])
        chosen = slice(warm_up, warm_up + calibrate)
        numbers = calibrated(batches[chosen], works[chosen], slowdown)
        found.append(
            Recording(
                setting=setting,
                overheads={key: round(value, 3) for key, value in vars(numbers.overheads).items()},
                record_ms=round(numbers.record_ms, 5),
                used=warm_up + calibrate,
                real_ms=tuple(batch.duration_ms for batch in batches),
            )
        )
    return found


def load_of(setting: Setting) -> Load:
    """Return the stream of a run in batches, for Spark."""
    count = setting.batches * setting.records
    stream = HeavyTailed(spread=setting.spread, records=count).stream(setting.seed)
    return Load(
        keys=tuple(np.split(stream.keys, setting.batches)),
        costs_ms=tuple(np.split(stream.costs_ms, setting.batches)),
        slow_executors=tuple(
            (str(number), slowdown)
            for number, (_, slowdown) in enumerate(setting.workers)
            if slowdown != 1
        ),
        sources=setting.routers,
    )


def master(setting: Setting) -> str:
    """Return the master of Spark for the executors of a run."""
    executors = len(setting.workers)
    if executors == 1:
        return f"local[{setting.slots}]"
    return f"local-cluster[{executors},{setting.workers[0][0]},1024]"


def work_of(rows: pa.Table, tasks: int, *, costs_ms: float) -> BatchWork:
    """Return the work of a batch from its results."""
    task = rows["task"].to_numpy()
    return BatchWork(
        records=np.bincount(task, minlength=tasks),
        busy_ms=np.bincount(task, weights=rows["cost_ms"].to_numpy(), minlength=tasks),
        costs_ms=costs_ms,
    )


def main() -> None:
    options = Options("calibrate", __doc__)
    options.size("warm_up", 3, 1, meaning="number of batches before all others")
    options.size("calibrate", 5, 1, meaning="number of batches that overheads come from")
    options.size("predict", 6, 1, meaning="number of batches to predict")
    options.size("scale", 1.0, 0.05, meaning="factor for the records of a batch")
    names = [setting.name for setting in SETTINGS]
    options.parser.add_argument(
        "--runs", nargs="+", choices=names, help="runs; all by default, one with --quick"
    )
    options.parser.add_argument("--record", type=Path, help="file for the recordings")
    args = options.parse()
    wanted = args.runs or (names[:1] if args.quick else names)
    count = args.warm_up + args.calibrate + args.predict
    settings = [
        replace(one, batches=count, records=round(args.scale * one.records))
        for one in SETTINGS
        if one.name in wanted
    ]
    recordings = []
    for where in dict.fromkeys(map(master, settings)):
        together = [one for one in settings if master(one) == where]
        recordings += run(together, warm_up=args.warm_up, calibrate=args.calibrate)
    show(recordings)
    if args.record:
        command = " ".join(["python benchmarks/calibrate.py", *sys.argv[1:]])
        load = f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        write_recordings(args.record, recordings, command=command, about=load)
    write_report(
        args.json,
        {
            one.setting.name: {
                "overheads": one.overheads,
                "record_ms": one.record_ms,
                "real_ms": one.real_ms,
                "predicted_ms": one.predicted_ms().tolist(),
            }
            for one in recordings
        },
    )


def show(recordings: list[Recording]) -> None:
    """Print real and predicted durations, and the median error of each run."""
    table = new_table(
        "Durations of batches, real and simulated (latency-bound)",
        ["run"],
        ["batches", "real s", "predicted s", "median error", "goal", "reached"],
    )
    for one in recordings:
        predicted_ms = one.predicted_ms()
        median = float(np.median(np.abs(one.errors(predicted_ms))))
        table.add_row(
            one.setting.name,
            str(len(one.real_ms) - one.used),
            f"{np.mean(one.real_ms[one.used :]) / 1000:.2f}",
            f"{predicted_ms[one.used :].mean() / 1000:.2f}",
            f"{median:.1%}",
            *goal_columns(GOAL, median),
        )
    Console().print(table)


if __name__ == "__main__":
    main()
