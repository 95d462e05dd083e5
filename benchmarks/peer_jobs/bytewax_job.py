"""A stream through bytewax: records go to workers in turn, each of which sleeps for its cost.

Runs in an environment of its own that has bytewax, and nothing of Penstock.

    python bytewax_job.py INPUT OUTPUT WORKERS
"""

import json
import sys
import time
from pathlib import Path

import bytewax.operators as op
from bytewax._bytewax import cluster_main
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def main(given: Path, target: Path, workers: int) -> None:
    costs_ms: list[float] = json.loads(given.read_text())["costs_ms"]
    done: list[tuple[int, float, float]] = []

    def work(number: int) -> int:
        started_s = time.time()
        time.sleep(costs_ms[number] / 1000)
        done.append((number, started_s, time.time()))
        return number

    flow = Dataflow("peers")
    numbers = op.input("records", flow, TestingSource(list(range(len(costs_ms))), batch_size=1))
    called = op.map("call", op.redistribute("share", numbers), work)
    op.output("out", called, TestingSink([]))
    # All workers are threads of this process: calls sleep, so that they need no core.
    cluster_main(flow, [], 0, worker_count_per_proc=workers)
    target.write_text(json.dumps({"calls": done}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
