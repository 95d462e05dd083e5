"""Does the number of executors follow the load with `penstock.attach(scale=...)`?

On a standalone cluster of this machine the load rises from 1x to 4x over two minutes and falls
again. The operator sleeps (latency-bound). Three runs of the same stream: with one executor, with
`penstock.attach`, and with it while the driver is killed at the top and started again. Every record
must be in the sink exactly once.

The oracle knows the load and the costs of the run: the fixed time of its batches and the cost of a
record. It has the fewest executors whose batches end within the trigger's interval, at any time.

    python benchmarks/scale.py
    python benchmarks/scale.py --only attach
"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

from common import Goal, Options, at_most, goal_columns, new_table, write_report, yes_or_no
from penstock.plots import style
from penstock.spark.lab import StandaloneCluster
from penstock.spark.lab.jvms import share_classes
from scale_job import COST_S, INTERVAL_S, MOST_EXECUTORS
from scale_load import FULL, LOW_PER_S, QUICK, Feed, Load

# Longest time to wait for one executor before the load rises.
CALM_S = 120.0
# Length of the run after the driver was killed.
AFTER_KILL_S = 110.0
# Two triggers' worth of records at the top.
TWO_TRIGGERS = 2 * INTERVAL_S * 4 * LOW_PER_S
GOALS = {
    "records not yet processed, at most": at_most(TWO_TRIGGERS),
    "executors above the oracle's, at most": at_most(1),
    "executor-seconds, of the oracle's": at_most(1.15),
    "seconds from the end of the fall to one executor": at_most(60),
}
AFTER_A_KILL = {"seconds from the restart until no backlog is left": at_most(60)}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run to make.

    Attributes:
        name: name of the run.
        executors: largest number of executors.
        length_s: length of the run.
        kills_driver: whether the driver is killed and started again.
    """

    name: str
    executors: int
    length_s: float
    kills_driver: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """The states of a run, second by second.

    Attributes:
        name: name of the run.
        at_s: seconds since the start.
        executors: number of executors at these seconds.
        backlog: number of records not yet processed at these seconds.
        oracle: number of executors of the oracle at these seconds.
        fixed_s: fixed time of a batch, from which the oracle follows.
        restarted_s: second at which the driver was started again; NaN if it was not.
        records: number of records in the sink.
        exact: whether every record is in the sink exactly once.
        plans: reasons of the plans.
    """

    name: str
    at_s: np.ndarray
    executors: np.ndarray
    backlog: np.ndarray
    oracle: np.ndarray
    fixed_s: float
    restarted_s: float
    records: int
    exact: bool
    plans: list[str]

    def measured(self, load: Load) -> dict[str, float]:
        """Return the number of each goal."""
        spent_s = np.diff(self.at_s, prepend=0.0)
        many = self.at_s[self.executors > 1].max(initial=load.fallen_s)
        numbers = (
            float(self.backlog.max()),
            float((self.executors - self.oracle).max()),
            float((spent_s * self.executors).sum() / (spent_s * self.oracle).sum()),
            float(many - load.fallen_s),
        )
        return dict(zip(GOALS, numbers, strict=True))

    def worked_off_s(self) -> float:
        """Return the time from the restart until fewer than two triggers' records wait."""
        behind = self.at_s[(self.backlog > TWO_TRIGGERS) & (self.at_s > self.restarted_s)]
        return float(behind.max(initial=self.restarted_s) - self.restarted_s)

    def report(self) -> dict[str, object]:
        return {
            "run": self.name,
            "exact": self.exact,
            "records": self.records,
            "at_s": self.at_s.round(1).tolist(),
            "executors": self.executors.tolist(),
            "backlog": self.backlog.round().tolist(),
            "oracle": self.oracle.tolist(),
            "fixed_s": self.fixed_s,
            "restarted_s": self.restarted_s,
            "plans": self.plans,
        }


def start_job(
    url: str, folder: Path, scenario: Scenario, *, period_s: float
) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("scale_job.py")
    command = [sys.executable, str(script), url, str(folder)]
    command += ["--executors", str(scenario.executors), "--period-s", str(period_s)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(command, env=environment)  # noqa: S603 - a script of this folder


def run(scenario: Scenario, load: Load, url: str) -> Run:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        (folder / "in").mkdir()
        feed = Feed(folder / "in", load, scenario.length_s)
        restarted_s = math.nan
        process = start_job(url, folder, scenario, period_s=load.period_s)
        thread = threading.Thread(target=feed.run, daemon=True)
        thread.start()
        try:
            wait_for_calm(folder, feed, process)
            feed.go.set()
            if scenario.kills_driver:
                time.sleep(load.kill_s)
                process.send_signal(signal.SIGKILL)
                process.wait()
                Console().print("  the driver is killed and started again")
                restarted_s = time.time() - feed.began_s
                process = start_job(url, folder, scenario, period_s=load.period_s)
            thread.join()
            (folder / "stop").touch()
            if process.wait(timeout=600):
                raise SystemExit("the job has failed")
        finally:
            process.kill()
        return read_run(scenario.name, folder, feed, restarted_s=restarted_s)


def wait_for_calm(folder: Path, feed: Feed, process: subprocess.Popen[bytes]) -> None:
    """Wait until one executor is left that keeps up with the lowest load, for some time."""
    end_s = time.monotonic() + CALM_S
    while process.poll() is None:
        time.sleep(1)
        if time.monotonic() > end_s:
            Console().print(f"  after {CALM_S:g} s one executor is not enough")
            return
        last = (read_lines(folder / "states.jsonl") or [{"processed": 0}])[-1]
        calm = last["processed"] and last["executors"] == 1
        if calm and feed.sent[-1] - last["processed"] < 8 * LOW_PER_S:
            return
    raise SystemExit("the job did not start")


def read_lines(path: Path) -> list[dict]:
    """Return the JSON lines of a file; none if there is no file yet."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fixed_time_s(states: list[dict]) -> float:
    """Return the median time that batches took beyond the work on their records."""
    batches = [one for state in states for one in state["batches"]]
    extra_s = [taken_s - rows * COST_S / executors for rows, taken_s, executors in batches]
    return float(np.median(extra_s))


def oracle_of(load: Load, at_s: np.ndarray, fixed_s: float) -> np.ndarray:
    """Return the fewest executors whose batches end within their interval, at each second."""
    rates = LOW_PER_S * np.array([load.at(second) for second in at_s])
    free_s = max(0.1, INTERVAL_S - fixed_s)
    needed = np.ceil(rates * INTERVAL_S * COST_S / free_s - 1e-9)
    return np.clip(needed, 1, MOST_EXECUTORS).astype(int)


def read_run(name: str, folder: Path, feed: Feed, *, restarted_s: float) -> Run:
    states = read_lines(folder / "states.jsonl")
    at_s = np.array([one["at_s"] for one in states]) - feed.began_s
    processed = joined(np.array([one["processed"] for one in states]))
    sent = np.interp(at_s, np.array(feed.at_s) - feed.began_s, feed.sent)
    ids = np.sort(pq.read_table(folder / "out").column("id").to_numpy())
    journal = read_lines(folder / "journal.jsonl")
    shown = at_s >= 0
    fixed_s = fixed_time_s(states)
    return Run(
        name=name,
        at_s=at_s[shown],
        executors=np.array([one["executors"] for one in states])[shown],
        backlog=np.maximum(0, sent - processed)[shown],
        oracle=oracle_of(feed.load, at_s[shown], fixed_s),
        fixed_s=fixed_s,
        restarted_s=restarted_s,
        records=ids.size,
        exact=bool(np.array_equal(ids, np.arange(feed.sent[-1]))),
        plans=[one["reason"] for one in journal if one["kind"] == "plan"],
    )


def joined(counted: np.ndarray) -> np.ndarray:
    """Return one count of all drivers: a driver that is started again counts from zero."""
    out = counted.astype(float)
    for at in np.flatnonzero(np.diff(counted, prepend=0) < 0):
        out[at:] += counted[at - 1]
    return out


def draw(runs: list[Run], load: Load, target: Path) -> None:
    figure, panels = style.panels(3, 1, (9, 8))
    seconds = np.arange(0, load.length_s)
    panels[0].plot(seconds, [load.at(s) * LOW_PER_S for s in seconds], color="black")
    panels[0].set_ylabel("records/s")
    for one, colour in zip(runs, (style.GREY, style.BLUE, style.ORANGE), strict=False):
        panels[1].step(one.at_s, one.executors, where="post", label=one.name, color=colour)
        panels[2].plot(one.at_s, one.backlog, label=one.name, color=colour)
    last = runs[-1]
    panels[1].step(last.at_s, last.oracle, where="post", label="oracle", color="black", ls=":")
    for panel in panels:
        panel.set(xlim=(0, load.length_s))
        panel.set_ylim(bottom=0)
        style.whole_numbers(panel.yaxis)
    panels[1].set_ylabel("executors")
    panels[2].set_ylabel("records not yet processed")
    panels[2].set_xlabel("seconds")
    style.legend_below(figure, panels)
    style.headline(figure, "Executors that follow the load (latency-bound operator)")
    target.write_bytes(style.png(figure))


def show(runs: list[Run], load: Load) -> None:
    table = new_table(
        "load from 1x to 4x over two minutes, and back (latency-bound)",
        labels=("run",),
        numbers=("records", "exactly once", "largest backlog", "fixed s", "executors"),
    )
    for one in runs:
        table.add_row(
            one.name,
            f"{one.records:,}",
            yes_or_no(one.exact),
            f"{one.backlog.max():,.0f}",
            f"{one.fixed_s:.2f}",
            f"{one.executors.max()}, {one.executors[-1]} at the end",
        )
    console = Console()
    console.print(table)
    columns = ["measured", "goal", "reached"]
    goals = new_table("Goals", ["run", "number"], columns, long_labels=True)
    for one in runs:
        for number, goal, value in goals_of(one, load):
            goals.add_row(one.name, number, f"{value:.2f}", *goal_columns(goal, value))
    console.print(goals)
    for one in runs:
        for reason in one.plans:
            console.print(f"{one.name}: {reason}")


def goals_of(one: Run, load: Load) -> list[tuple[str, Goal, float]]:
    """Return the goals of a run; the run with one executor has none."""
    if math.isfinite(one.restarted_s):
        return [(name, goal, one.worked_off_s()) for name, goal in AFTER_A_KILL.items()]
    if one.executors.max() == 1:
        return []
    measured = one.measured(load)
    return [(name, goal, measured[name]) for name, goal in GOALS.items()]


def main() -> None:
    options = Options("scale", __doc__)
    options.parser.add_argument("--only", help="name of the only run to make")
    args = options.parse()
    load = QUICK if args.quick else FULL
    share_classes()
    scenarios = [
        Scenario(name="one executor", executors=1, length_s=load.alone_s),
        Scenario(name="attach", executors=MOST_EXECUTORS, length_s=load.length_s),
        Scenario(
            name="attach, driver killed",
            executors=MOST_EXECUTORS,
            length_s=min(load.length_s, load.kill_s + AFTER_KILL_S),
            kills_driver=True,
        ),
    ]
    runs = []
    with StandaloneCluster(workers=MOST_EXECUTORS) as cluster:
        for scenario in scenarios:
            if args.only in (None, scenario.name):
                Console().print(f"{scenario.name}: {scenario.length_s:.0f} seconds")
                runs.append(run(scenario, load, cluster.url))
    show(runs, load)
    write_report(args.json, [one.report() for one in runs])
    draw(runs, load, args.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
