"""A stream through Flink: records go to tasks by `rebalance`, each of which sleeps for its cost.

Runs in an environment of its own that has PyFlink, and nothing of Penstock. With `adaptive` Flink
sends a record to the task with the least backlog (its adaptive partitioner, from Flink 2.1 on).

    python flink_job.py INPUT OUTPUT WORKERS [adaptive]
"""

import json
import sys
import time
from pathlib import Path

from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment


def work(record: tuple[int, float]) -> tuple[int, float, float]:
    started_s = time.time()
    time.sleep(record[1] / 1000)
    return record[0], started_s, time.time()


def main(given: Path, target: Path, workers: int, *, adaptive: bool) -> None:
    costs_ms = json.loads(given.read_text())["costs_ms"]
    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    # Records must not wait for others in Python's bundles, nor in buffers of the network.
    settings.set_string("python.fn-execution.bundle.size", "1")
    settings.set_string("python.fn-execution.bundle.time", "1")
    settings.set_string("taskmanager.memory.network.min", "64mb")
    settings.set_string("taskmanager.network.adaptive-partitioner.enabled", str(adaptive).lower())
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(workers)
    environment.set_buffer_timeout(1)
    given_type = Types.TUPLE([Types.INT(), Types.DOUBLE()])
    returned = Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.DOUBLE()])
    records = environment.from_collection(list(enumerate(costs_ms)), given_type)
    called = records.rebalance().map(work, returned)
    with called.execute_and_collect("peers") as results:
        done = [(int(one[0]), one[1], one[2]) for one in results]
    target.write_text(json.dumps({"calls": done}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), adaptive="adaptive" in sys.argv)
