"""Run the query for many batches, and show that nothing which it uses grows."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pyspark import cloudpickle
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import penstock
from endurance import work
from endurance.pictures import draw
from endurance.probes import heap_mb, size_mb, used, why_not
from endurance.slopes import slope
from faults.queries import Requested, Rotated
from penstock.control.newest import trim
from penstock.spark.lab import StandaloneCluster, session
from penstock.spark.lab.clusters import executors_under, python_workers_under
from penstock.spark.lab.jvms import run_long
from penstock.spark.lab.sessions import LOCAL_CHECKPOINTS
from quick_sessions import interpreted

# Growth from the first tenth to the end that counts as flat.
SHARE = 0.05
SAMPLES = 100
# Code with which the command ends if something grows.
GROWS = 2
RECENT = 100  # batches whose median duration is sampled
_HANG_S = 120.0
# The number of executors changes this often in a run.
_CHANGES = 10


class Soak:
    """One query on a cluster of its own, and samples of what it uses.

    Args:
        query: name of the query, one of `work.QUERIES`.
        folder: folder for everything that is written.
        cluster: cluster that is started.
    """

    def __init__(self, query: str, folder: Path, cluster: StandaloneCluster) -> None:
        cloudpickle.register_pickle_by_value(work)  # executors do not have this package
        self._cluster, self._folder = cluster, folder
        self._spark = session(
            cluster.url,
            "penstock-endurance",
            spark__executor__memory="512m",
            spark__executor__cores="1",
            spark__cores__max=str(work.INSTANCES),
            spark__driver__memory="768m",
            spark__driver__host="127.0.0.1",
            spark__driver__bindAddress="127.0.0.1",
            spark__sql__shuffle__partitions="2",
            spark__locality__wait="10s",
            # By default Spark keeps files for ten minutes, and cleans its stores of states every
            # minute: the number of files would follow the rate of batches.
            spark__sql__streaming__fileSource__log__cleanupDelay="10s",
            spark__sql__streaming__stateStore__maintenanceInterval="5s",
            # What Spark itself remembers of batches is full before the first tenth has passed.
            spark__sql__ui__retainedExecutions="50",
            spark__ui__retainedJobs="200",
            spark__ui__retainedStages="200",
            spark__ui__retainedTasks="2000",
            **LOCAL_CHECKPOINTS,
            **interpreted(),
        )
        self._query = work.QUERIES[query](folder)
        self.samples: list[dict[str, float]] = []
        self._times_ms: OrderedDict[int, float] = OrderedDict()

    def run(self, batches: int, shown: Callable[[int], None]) -> dict[str, object]:
        """Run the query for some batches, and return its account."""
        query = (
            self._query.applied(self._spark)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .foreachBatch(penstock.with_placement(lambda rows, _: rows.collect()))
            .start()
        )
        attached = penstock.attach(
            query,
            scale=Requested(min_executors=1, max_executors=work.INSTANCES),
            place=Rotated(max_migrations=4),
            period="5 s",
            journal=self._folder / "journals" / "attached",
        )
        every = max(1, batches // SAMPLES)
        done, next_one, moved = 0, every, time.monotonic()
        while done < batches:
            time.sleep(0.2)
            if not query.isActive:
                raise SystemExit(f"the query has failed: {query.exception()}")
            before, done = done, self._read(query)
            moved = moved if done == before else time.monotonic()
            if time.monotonic() - moved > _HANG_S:
                raise SystemExit(f"no batch in {_HANG_S:g} s after {done} batches")
            phase = done * _CHANGES // batches
            Requested.degree, Rotated.offset = 1 + (phase + 1) % work.INSTANCES, phase
            if done >= next_one:
                self.samples.append(self._sample(done))
                next_one = done + every
            shown(done)
        self._spark.sparkContext.setLogLevel("OFF")  # it is stopped in the middle of a batch
        query.stop()
        counts, loop = self._query.op.stats(), attached.stats()
        self._query.op.close()
        return {
            "batches": done,
            "received": counts.received,
            "processed": counts.processed,
            "shed": counts.shed,
            "failed": counts.failed,
            "fallbacks": counts.fallbacks,
            "loop_failures": loop.failures,
        }

    def _read(self, query) -> int:
        """Keep the durations of new batches; return the number of batches."""
        for one in query.recentProgress:
            self._times_ms[one.batchId] = float(one.durationMs.get("triggerExecution", 0))
        trim(self._times_ms, RECENT)
        return max(self._times_ms, default=-1) + 1

    def _sample(self, done: int) -> dict[str, float]:
        """Return what everything uses now."""
        python, jvm = used(os.getpid()), used(self._jvm())
        executors = [pid for one in self._cluster._processes for pid in executors_under(one.pid)]
        workers = python_workers_under(executors)
        found = {
            "batches": done,
            "batch ms": statistics.median(self._times_ms.values()),
            "driver: Python MB": python.mb,
            "driver: JVM heap MB": heap_mb(self._jvm()),
            "driver: threads": python.threads + jvm.threads,
            "driver: open files": python.files + jvm.files,
            "executor: JVM heap MB": max(map(heap_mb, executors), default=np.nan),
            **_largest("executor", "threads", map(used, executors)),
            **_largest("executor", "files", map(used, executors), named="open files"),
            **_largest("Python worker", "mb", map(used, workers), named="MB"),
            **_largest("Python worker", "threads", map(used, workers)),
            **_largest("Python worker", "files", map(used, workers), named="open files"),
            "Python workers": len(workers),
        }
        for name, folder, pattern in (
            ("learnt costs", "checkpoint/penstock", "*"),
            ("checkpoint", "checkpoint", "*"),
            ("journals", "journals", "*"),
            ("spill folder", "spill", "*"),
        ):
            mb, files = size_mb(self._folder / folder, pattern)
            found |= {f"{name}: KB": 1024 * mb, f"{name}: files": files}
        # Spark's own list of all files that a source has ever read grows, with Penstock or without.
        read_kb = 1024 * size_mb(self._folder / "checkpoint" / "sources")[0]
        return found | {"checkpoint: KB": found["checkpoint: KB"] - read_kb}

    def _jvm(self) -> int:
        return int(self._spark._jvm.java.lang.ProcessHandle.current().pid())

    def stop(self) -> None:
        self._spark.stop()


def _largest(whose: str, what: str, many, named: str = "") -> dict[str, float]:
    values = [getattr(one, what) for one in many if one is not None]
    return {f"{whose}: {named or what}": float(max(values, default=np.nan))}


def judged(samples: list[dict[str, float]]) -> list[dict[str, object]]:
    """Return the slope of each series, and whether it is flat.

    Journals grow by intent, until they are rotated.
    """
    at = np.array([one["batches"] for one in samples], dtype=np.float64)
    found = []
    for name in (one for one in samples[0] if one not in ("batches", "journals: KB")):
        fitted = slope(at, np.array([one[name] for one in samples], dtype=np.float64))
        found.append({"series": name, **vars(fitted), "flat": fitted.flat(SHARE)})
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m endurance", description=__doc__)
    parser.add_argument("--query", choices=work.QUERIES, default="balance", help="the query")
    parser.add_argument("--batches", type=int, default=10_000, help="number of batches")
    parser.add_argument("--out", type=Path, default=Path("penstock-out"), help="folder of results")
    return parser.parse_args()


def main() -> int:
    options = _options()
    if reason := why_not():
        raise SystemExit(reason)
    run_long()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-endurance-") as folder,
        StandaloneCluster(work.INSTANCES) as cluster,
        Progress() as progress,
    ):
        bar = progress.add_task("batches", total=options.batches)
        soak = Soak(options.query, Path(folder), cluster)
        told = soak.run(options.batches, lambda done: progress.update(bar, completed=done))
        soak.stop()
    found = judged(soak.samples)
    counted = told["received"] == told["processed"] + told["shed"] + told["failed"]
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": round((time.monotonic() - began) / 60, 1),
        **told,
        "series": found,
        "samples": soak.samples,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"endurance-{options.query}.json").write_text(json.dumps(result) + "\n")
    (options.out / f"endurance-{options.query}.png").write_bytes(
        draw(soak.samples, told["batches"])
    )
    table = Table("series", "after a tenth", "growth", "flat", title=f"{told['batches']:,} batches")
    for one in found:
        growth = f"{one['growth']:+.2f} +- {one['error']:.2f}"
        table.add_row(one["series"], f"{one['start']:.1f}", growth, "yes" if one["flat"] else "NO")
    Console().print(table)
    growing = [one["series"] for one in found if not one["flat"]]
    counts = " ".join(f"{name} {told[name]:,}" for name in ("received", "processed", "shed"))
    print(f"{counts} failed {told['failed']:,}; {len(growing)} series grow: {growing}")
    if not counted:
        return 1
    return GROWS if growing else 0


if __name__ == "__main__":
    sys.exit(main())
