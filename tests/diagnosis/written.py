"""Event logs in the form of Spark, written by tests."""

import json

import numpy as np

QUERY = "11111111-2222-3333-4444-555555555555"
# 2026-01-01T00:00:00Z in ms.
START_MS = 1_767_225_600_000


def task_end(stage, index, launch_ms, run_ms, **more):
    """Return the event of a task. `more` has its other metrics."""
    overhead_ms = more.get("overhead_ms", 4)
    metrics = {
        "Executor Deserialize Time": 2,
        "Executor Run Time": int(run_ms),
        "JVM GC Time": int(more.get("gc_ms", 0)),
        "Result Serialization Time": 0,
        "Memory Bytes Spilled": 0,
        "Disk Bytes Spilled": int(more.get("spilled", 0)),
        "Shuffle Read Metrics": {
            "Fetch Wait Time": int(more.get("fetch_ms", 0)),
            "Total Records Read": int(more.get("records", 100)),
        },
        "Input Metrics": {"Bytes Read": 0, "Records Read": 0},
    }
    name = "time to start Python workers"
    python = [{"ID": 1, "Name": name, "Update": str(more["python_ms"]), "Value": "9"}]
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Type": "ResultTask",
        "Task Info": {
            "Task ID": index,
            "Index": index,
            "Launch Time": int(launch_ms),
            "Executor ID": more.get("executor", "0"),
            "Locality": more.get("locality", "ANY"),
            "Getting Result Time": 0,
            "Finish Time": int(launch_ms + run_ms + overhead_ms),
            "Failed": bool(more.get("failed", False)),
            "Killed": False,
            "Accumulables": python if more["python_ms"] else [],
        },
        "Task Metrics": metrics,
    }


class Writer:
    """Writes the log of an application, batch by batch."""

    def __init__(self, executors=1, cores=4, steps=("MapInArrow",), version="4.3.0"):
        self.events = [
            {"Event": "SparkListenerLogStart", "Spark Version": version},
            {"Event": "SparkListenerApplicationStart", "App Name": "written", "Timestamp": 1},
            {
                "Event": "SparkListenerEnvironmentUpdate",
                "Spark Properties": {"spark.task.cpus": "1"},
            },
        ]
        self.cores, self.executors, self.steps = cores, executors, steps
        self.clock_ms = float(START_MS)
        self.batches = 0
        for number in range(executors):
            self.events.append(
                {
                    "Event": "SparkListenerExecutorAdded",
                    "Timestamp": START_MS - 1000,
                    "Executor ID": str(number),
                    "Executor Info": {"Host": "h", "Total Cores": cores},
                }
            )

    def batch(self, run_ms, *, wait_ms=0, rows=1000, streaming=True, **more):
        """Add a batch with one stage; arguments are values for all tasks, or one for each."""
        number, self.batches = self.batches, self.batches + 1
        start_ms = self.clock_ms
        if streaming:
            own = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(number)}
        else:
            own = {"spark.job.description": "nightly sums"}
        info = {
            "Stage ID": number,
            "Stage Attempt ID": 0,
            "Stage Name": "start at job.py:7",
            "Number of Tasks": len(run_ms),
            "RDD Info": [{"Name": "MapPartitionsRDD", "Scope": json.dumps({"name": step})}
                         for step in self.steps],
            "Parent IDs": [9],
            "Submission Time": int(start_ms + 60),
        }  # fmt: skip
        self.events += [
            {
                "Event": "SparkListenerJobStart",
                "Job ID": number,
                "Submission Time": int(start_ms + 50),
                "Stage Infos": [],
                "Stage IDs": [number],
                "Properties": own,
            },
            {"Event": "SparkListenerStageSubmitted", "Stage Info": info},
        ]
        end_ms = self._tasks(number, run_ms, start_ms + 70, more)
        self.events += [
            {"Event": "SparkListenerStageCompleted", "Stage Info": info},
            {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": int(end_ms + 5)},
        ]
        if streaming:
            self._progress(number, start_ms, end_ms + 20 - start_ms, rows, more.get("backlog"))
        self.clock_ms = end_ms + 20 + wait_ms

    def _tasks(self, number, run_ms, start_ms, more):
        """Start tasks in order, each on the slot that is free first, or on its own executor."""
        free_ms = np.full((self.executors, self.cores), start_ms)
        values = {name: np.broadcast_to(value, len(run_ms)) for name, value in more.items()}
        pinned = values.pop("executor", None)
        values.pop("backlog", None)
        slow = dict(more.get("slow", {})) if "slow" in more else {}
        values.pop("slow", None)
        # Spark offers the slots of executors in a random order.
        offers = np.random.default_rng(number).permutation(self.executors)
        done = []
        for index, one in enumerate(run_ms):
            allowed = offers if pinned is None else np.array([int(pinned[index])])
            place, core = np.unravel_index(np.argmin(free_ms[allowed]), (allowed.size, self.cores))
            executor = int(allowed[place])
            own = {name: value[index] for name, value in values.items()}
            spent_ms = one * slow.get(int(executor), 1.0)
            python_ms = int(own.pop("python_ms", 0))
            launch_ms = free_ms[executor, core]
            event = task_end(
                number, index, launch_ms, spent_ms,
                executor=str(executor), python_ms=python_ms, **own,
            )  # fmt: skip
            free_ms[executor, core] = event["Task Info"]["Finish Time"]
            done.append(event)
        done.sort(key=lambda event: event["Task Info"]["Finish Time"])
        self.events += done
        return float(free_ms.max())

    def _progress(self, number, start_ms, duration_ms, rows, backlog):
        moment = np.datetime64(int(start_ms), "ms")
        # A log has the numbers of records by source; only Spark's own interface has their sum.
        source = {"description": "files", "numInputRows": rows}
        if backlog is not None:
            source |= {
                "latestOffset": {"t": {"0": 10_000 + backlog}},
                "endOffset": {"t": {"0": 10_000}},
            }
        self.events.append(
            {
                "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
                "progress": {
                    "id": QUERY,
                    "runId": QUERY,
                    "name": "calls",
                    "timestamp": f"{moment}Z",
                    "batchId": number,
                    "durationMs": {
                        "triggerExecution": int(duration_ms),
                        "queryPlanning": 20,
                        "addBatch": int(duration_ms - 40),
                        "walCommit": 10,
                        "commitOffsets": 10,
                    },
                    "sources": [source],
                },
            }
        )

    def lines(self, ended=True):
        """Return the log as bytes."""
        end = [{"Event": "SparkListenerApplicationEnd", "Timestamp": 9}] if ended else []
        text = [json.dumps(event, separators=(",", ":")) for event in [*self.events, *end]]
        return ("\n".join(text) + "\n").encode()

    def write(self, folder, name="app-1"):
        """Write the log, and return its path."""
        path = folder / name
        path.write_bytes(self.lines())
        return path
