"""Do executors follow the load? And what does the loop itself cost?

On a standalone cluster of this machine, with an operator that sleeps (latency-bound), the load
rises from 1x to 4x over two minutes and falls again. Three runs of the same stream: with one
executor, with `penstock.attach`, and with it while the driver is killed and started again at the
top. Every record must be in the sink exactly once.

    python benchmarks/scale.py
    python benchmarks/scale.py --only attach
    python benchmarks/scale.py --loop      # only what the loop costs
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

import penstock
from penstock.control import Limits, Running, ScalingLoop, Timeline
from penstock.control.keygroups import KeyGroups, Ran
from penstock.control.placement_loop import PlacementLoop
from penstock.control.timeline import Look, Work
from penstock.spark import internals
from penstock.spark.lab import StandaloneCluster, session

COST_S = 0.04
LOW_PER_S = 12.0
MOST = 4
TICK_S = 0.5
PERIOD_S = 10.0
# Seconds, and the load at their end.
PHASES = ((30, 1), (120, 4), (30, 4), (30, 1), (120, 1))
TOP_S = 165


def load_at(second: float) -> float:
    ends, loads = [0.0], [float(PHASES[0][1])]
    for length, load in PHASES:
        ends.append(ends[-1] + length)
        loads.append(float(load))
    return float(np.interp(second, ends, loads))


@dataclass
class Feed:
    """Writes records at their pace, a file every tick; at the lowest one until it is told to go."""

    folder: Path
    seconds: float
    go: threading.Event = field(default_factory=threading.Event)
    at_s: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    began_s: float = 0.0

    def run(self) -> None:
        began_s, owed = time.time(), 0.0
        while not self.began_s or time.time() < self.began_s + self.seconds:
            if self.go.is_set() and not self.began_s:
                self.began_s = time.time()
            load = load_at(time.time() - self.began_s) if self.began_s else load_at(0)
            owed += load * LOW_PER_S * TICK_S
            self._write(self.sent[-1] if self.sent else 0, int(owed))
            time.sleep(max(0.0, began_s + len(self.sent) * TICK_S - time.time()))

    def _write(self, first: int, stop: int) -> None:
        ids = np.arange(first, stop)
        target = self.folder / f"{len(self.sent):06}.parquet"
        pq.write_table(pa.table({"id": ids, "entity": ids % 50}), target.with_suffix(".tmp"))
        target.with_suffix(".tmp").rename(target)
        self.at_s.append(time.time())
        self.sent.append(stop)


def slow(record: dict) -> dict:
    time.sleep(COST_S)
    return {"id": record["id"]}


def job(url: str, folder: Path, most: int) -> None:
    """Run the query until the file `stop` is there: in a process of its own."""
    spark = session(
        url,
        "penstock-scale",
        spark__executor__memory="512m",
        spark__executor__cores="1",
        spark__cores__max=str(MOST),
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__sql__shuffle__partitions=str(MOST),
    )
    operator = penstock.balance(slow, key="entity", schema="id long", instances=MOST)
    records = spark.readStream.schema("id long, entity long").parquet(str(folder / "in"))
    query = (
        records.transform(operator)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .queryName("answers")
        .trigger(processingTime="2 seconds")
        .start()
    )
    attached = penstock.attach(
        query,
        scale=penstock.scaling.Preventive(min_executors=1, max_executors=most),
        period=1000 * PERIOD_S,
        journal=folder / "journal.jsonl",
    )
    done: dict[int, int] = {}
    with (folder / "seen.jsonl").open("a", buffering=1) as seen:
        while query.isActive and not (folder / "stop").exists():
            for one in query.recentProgress:
                done[one.batchId] = one.numInputRows
            stats = attached.stats()
            fields = {"at_s": time.time(), "executors": stats.executors, "failed": stats.failure}
            seen.write(json.dumps({**fields, "done": sum(done.values())}) + "\n")
            time.sleep(1)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        # All that is left is done with all there is: it is only counted.
        penstock.detach(query)
        internals.request_executors(spark, MOST)
        query.processAllAvailable()
    query.stop()
    spark.stop()


@dataclass(frozen=True)
class Run:
    """What was seen of a run, second by second."""

    name: str
    at_s: np.ndarray
    executors: np.ndarray
    backlog: np.ndarray
    records: int
    exact: bool
    plans: list[str]

    def worst(self, start_s: float, stop_s: float) -> float:
        chosen = (self.at_s >= start_s) & (self.at_s < stop_s)
        return float(self.backlog[chosen].max(initial=0))


def start_job(url: str, folder: Path, most: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--job", url, str(folder), str(most)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(command, env=environment)  # noqa: S603 - this very script


def run(name: str, url: str, most: int, restart: bool, seconds: float, console: Console) -> Run:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        feed = Feed(folder / "in", seconds)
        (folder / "in").mkdir()
        process = start_job(url, folder, most)
        thread = threading.Thread(target=feed.run, daemon=True)
        thread.start()
        try:
            wait_for_calm(folder, feed, process)
            feed.go.set()
            if restart:
                time.sleep(TOP_S)
                process.send_signal(signal.SIGKILL)
                process.wait()
                console.print("  the driver was killed, and is started again")
                process = start_job(url, folder, most)
            thread.join()
            (folder / "stop").touch()
            if process.wait(timeout=600):
                raise SystemExit("the job has failed")
        finally:
            process.kill()
        return read_run(name, folder, feed)


def wait_for_calm(folder: Path, feed: Feed, process: subprocess.Popen[bytes]) -> None:
    """Wait until one executor is left, and it keeps up with the lowest load."""
    while process.poll() is None:
        time.sleep(1)
        seen = folder / "seen.jsonl"
        lines = seen.read_text().splitlines() if seen.exists() else []
        last = json.loads(lines[-1]) if lines else {"done": 0}
        calm = last["done"] and last["executors"] == 1
        if calm and feed.sent[-1] - last["done"] < 8 * LOW_PER_S:
            return
    raise SystemExit("the job did not start")


def read_run(name: str, folder: Path, feed: Feed) -> Run:
    seen = [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]
    at_s = np.array([one["at_s"] for one in seen]) - feed.began_s
    # A driver that is started again begins to count anew.
    counted = np.array([one["done"] for one in seen])
    lost = np.maximum.accumulate(counted) - counted
    done = counted + lost if not lost.any() else _rejoined(counted)
    sent = np.interp(at_s, np.array(feed.at_s) - feed.began_s, feed.sent)
    journal = (folder / "journal.jsonl").read_text().splitlines()
    plans = [one["reason"] for one in map(json.loads, journal) if one["kind"] == "plan"]
    ids = np.sort(pq.read_table(folder / "out").column("id").to_numpy())
    executors = np.array([one["executors"] for one in seen])
    shown = at_s >= 0
    return Run(
        name,
        at_s[shown],
        executors[shown],
        np.maximum(0, sent - done)[shown],
        ids.size,
        bool(np.array_equal(ids, np.arange(feed.sent[-1]))),
        plans,
    )


def _rejoined(counted: np.ndarray) -> np.ndarray:
    steps = np.diff(counted, prepend=0)
    fell = np.flatnonzero(steps < 0)
    out = counted.astype(float)
    for at in fell:
        out[at:] += counted[at - 1]
    return out


def loop_ms(operators: int = 100, executors: int = 1_000, periods: int = 60) -> float:
    """Return how long one period's planning takes, with synthetic observations.

    Executors and where 100 stateful operators with 40 key groups each should live.
    """
    names = [f"operator{i}" for i in range(operators)]
    line = Timeline(PERIOD_S, PERIOD_S)
    scaler = penstock.scaling.Preventive(max_executors=2 * executors)
    loop = ScalingLoop("synthetic", scaler, Limits(1, 2 * executors, 4), line, executors)
    groups = KeyGroups()
    placing = PlacementLoop(
        "synthetic", penstock.placement.Albic(max_migrations=10), groups, dry_run=True
    )
    generator = np.random.default_rng(1)
    rows, spent_s = 0.0, []
    for number in range(periods):
        rows += 10_000 * generator.uniform(0.9, 1.1)
        work = Work(rows, rows, 3 * rows)
        each = dict.fromkeys(names, work)
        busy_ms = generator.uniform(50, 150, (operators, 40))
        ran = [
            Ran((i, j), str((40 * i + j) % executors), float(ms))
            for (i, j), ms in np.ndenumerate(busy_ms)
        ]
        start = time.process_time()
        line.add(Look(PERIOD_S * number, 0.9 * PERIOD_S, 10_000, 0, work, operators=each))
        loop.plan(PERIOD_S * number, Running(active=True))
        groups.add(ran, 1000 * PERIOD_S)
        placing.plan(dict.fromkeys(map(str, range(executors)), 4))
        spent_s.append(time.process_time() - start)
    return 1000 * float(np.median(spent_s[5:]))


def draw(runs: list[Run], target: Path) -> None:
    mpl.use("Agg")
    figure, panels = plt.subplots(3, 1, figsize=(9, 8), sharex=True, layout="constrained")
    seconds = np.arange(0, sum(length for length, _ in PHASES))
    panels[0].plot(seconds, [load_at(s) * LOW_PER_S for s in seconds], color="black")
    panels[0].set_ylabel("records/s")
    for one in runs:
        panels[1].step(one.at_s, one.executors, where="post", label=one.name)
        panels[2].plot(one.at_s, one.backlog, label=one.name)
    panels[1].set_ylabel("executors")
    panels[2].set_ylabel("records not yet done")
    panels[2].set_xlabel("seconds")
    panels[1].legend()
    figure.suptitle("Executors that follow a stream (latency-bound operator)")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/scale.json"))
    parser.add_argument("--loop", action="store_true", help="only what the loop costs")
    parser.add_argument("--only", help="one of the runs, by its name")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        job(args.job[0], Path(args.job[1]), int(args.job[2]))
        return
    console = Console()
    share = loop_ms() / (1000 * PERIOD_S)
    console.print(
        "planning for 100 operators, 4,000 key groups, 1,000 executors: "
        f"{share:.3%} of a core (goal < 1%)"
    )
    if args.loop:
        return
    length = float(sum(seconds for seconds, _ in PHASES))
    ways = [
        ("one executor", 1, False, 180.0),
        ("attach", MOST, False, length),
        ("attach, driver killed", MOST, True, length),
    ]
    ways = [way for way in ways if args.only in (None, way[0])]
    runs = []
    with StandaloneCluster(workers=MOST) as cluster:
        for name, most, restart, seconds in ways:
            console.print(f"{name}: {seconds:.0f} seconds")
            runs.append(run(name, cluster.url, most, restart, seconds, console))
    table = Table(title="load 1x to 4x over two minutes, and back (latency-bound)")
    for column in ("run", "records", "exactly once", "most waiting", "at 180 s", "executors"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for one in runs:
        shown = f"{one.executors.max()}, {one.executors[-1]} at the end"
        row = f"{one.records:,}", str(one.exact), f"{one.backlog.max():,.0f}"
        table.add_row(one.name, *row, f"{one.worst(170, 181):,.0f}", shown)
    console.print(table)
    for one in runs:
        for reason in one.plans:
            if "executors" in reason:
                console.print(f"{one.name}: {reason}")
    draw(runs, args.json.with_suffix(".png"))
    args.json.write_text(json.dumps([_plain(one) for one in runs], indent=1) + "\n")


def _plain(one: Run) -> dict[str, object]:
    return {
        "run": one.name,
        "exact": one.exact,
        "records": one.records,
        "at_s": one.at_s.round(1).tolist(),
        "executors": one.executors.tolist(),
        "backlog": one.backlog.round().tolist(),
        "plans": one.plans,
    }


if __name__ == "__main__":
    main()
