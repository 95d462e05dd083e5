"""A stream through Ray Data: actors take blocks of records, and sleep for the cost of each.

Runs in an environment of its own that has Ray Data, and nothing of Penstock.

    python ray_job.py INPUT OUTPUT WORKERS
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import ray
import ray.data

RECORDS_OF_A_BLOCK = 50
STORE_BYTES = 200_000_000
# No record runs before all actors have started, on a busy machine, too.
START_S = 300

Columns = dict[str, np.ndarray]


class Work:
    """The function of an actor."""

    def __call__(self, batch: Columns) -> Columns:
        moments = []
        for cost_ms in batch["cost_ms"]:
            started_s = time.time()
            time.sleep(cost_ms / 1000)
            moments.append((started_s, time.time()))
        started, ended = np.array(moments).T
        return {"number": batch["number"], "started_s": started, "ended_s": ended}


def main(given: Path, target: Path, workers: int) -> None:
    costs_ms = json.loads(given.read_text())["costs_ms"]
    ray.init(
        num_cpus=workers + 2,
        object_store_memory=STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    ray.data.DataContext.get_current().wait_for_min_actors_s = START_S
    rows = [{"number": number, "cost_ms": cost} for number, cost in enumerate(costs_ms)]
    blocks = max(1, len(rows) // RECORDS_OF_A_BLOCK)
    done = (
        ray.data.from_items(rows, override_num_blocks=blocks)
        .map_batches(Work, batch_size=None, compute=ray.data.ActorPoolStrategy(size=workers))
        .take_all()
    )
    calls = [(int(row["number"]), row["started_s"], row["ended_s"]) for row in done]
    target.write_text(json.dumps({"calls": calls}))
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
