"""A streaming job with a balanced operator: files in, Parquet and the operator's counts out.

Arguments: the folder to work in, the cost of a record in milliseconds.
"""

import sys
import time
from pathlib import Path

from shared import NUMBERED, counts, source, start_to_parquet, write_json

import penstock
from penstock.spark.lab import session

place, cost_ms = Path(sys.argv[1]), float(sys.argv[2])


def work(record):
    time.sleep(cost_ms / 1000 * (1 + 4 * (record["entity"] == "e0")))
    return record


spark = session("local[2]", "penstock-test-stream")
op = penstock.balance(work, key="entity", schema=NUMBERED, instances=2, journal=place / "journal")
query = start_to_parquet(source(spark, place / "in").transform(op), place)
query.processAllAvailable()
write_json(place / "stats.json", counts(op, "received", "processed", "state"))
query.stop()
spark.stop()
