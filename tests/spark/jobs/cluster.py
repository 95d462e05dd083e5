"""A batch job on several executor processes; every task leaves a mark when it starts.

Arguments: the folder to work in, the number of records.
"""

import sys
import time
from pathlib import Path

from pyspark import TaskContext
from shared import NUMBERED, counts, write_json

import penstock
from penstock.spark.lab import session

place, records = Path(sys.argv[1]), int(sys.argv[2])
marks = place / "marks"
marks.mkdir()


def work(record):
    context = TaskContext.get()
    (marks / f"{context.partitionId()}-{context.taskAttemptId()}").touch()
    time.sleep(0.02)
    return record


spark = session("local-cluster[3,1,1024]", "penstock-test-cluster", spark__executor__memory="512m")
op = penstock.balance(work, key="entity", schema=NUMBERED, instances=3)
frame = spark.range(0, records, 1, 3).selectExpr("concat('e', id % 5) AS entity", "int(id) AS n")
found = [row.n for row in frame.transform(op).collect()]
executors = {e["executor"] for e in op.journal.entries() if e["kind"] == "observation"}
result = {"found": found, "executors": sorted(executors)}
result |= counts(op, "received", "processed", "emitted")
write_json(place / "result.json", result)
spark.stop()
