"""A streaming job of its own: files in, Parquet out, with what the operator has done as JSON.

Arguments: the folder to work in, how long a record takes in milliseconds.
"""

import json
import sys
import time
from pathlib import Path

import penstock
from penstock.spark.lab import session

place, cost_ms = Path(sys.argv[1]), float(sys.argv[2])


def work(record):
    time.sleep(cost_ms / 1000 * (1 + 4 * (record["entity"] == "e0")))
    return record


spark = session("local[2]", "penstock-test-stream")
op = penstock.balance(
    work, key="entity", schema="entity string, n int", instances=2, journal=place / "journal"
)
stream = spark.readStream.schema("entity string, n int").option("maxFilesPerTrigger", 1)
query = (
    stream.json(str(place / "in"))
    .transform(op)
    .writeStream.format("parquet")
    .option("checkpointLocation", str(place / "checkpoint"))
    .start(str(place / "out"))
)
query.processAllAvailable()
stats = op.stats()
found = {"received": stats.received, "processed": stats.processed, "state": stats.state}
(place / "stats.json").write_text(json.dumps(found))
query.stop()
spark.stop()
