"""A streaming aggregation of its own: files in, the changed totals of each batch as JSON out.

Arguments: the folder to work in, how long a record takes in milliseconds.
"""

import json
import sys
import time
from pathlib import Path

import penstock
from penstock.spark.lab import session

place, cost_ms = Path(sys.argv[1]), float(sys.argv[2])
totals = place / "totals"
totals.mkdir(exist_ok=True)


def add(state, record):
    time.sleep(cost_ms / 1000)
    return state[0] + 1, state[1] + record["n"]


def keep(rows, number):
    found = {row.entity: [row.records, row.total] for row in rows.collect()}
    hidden = totals / f".{number:03}"
    hidden.write_text(json.dumps(found))
    hidden.rename(totals / f"{number:03}")


spark = session("local[2]", "penstock-test-aggregate", spark__sql__shuffle__partitions="2")
op = penstock.aggregate(
    key="entity",
    zero=lambda: (0, 0),
    update=add,
    merge=lambda state, other: (state[0] + other[0], state[1] + other[1]),
    finish=lambda state: {"records": state[0], "total": state[1]},
    schema="records long, total long",
    instances=2,
    name="totals",
)
stream = spark.readStream.schema("entity string, n int").option("maxFilesPerTrigger", 1)
query = (
    stream.json(str(place / "in"))
    .transform(op)
    .writeStream.outputMode("update")
    .foreachBatch(keep)
    .option("checkpointLocation", str(place / "checkpoint"))
    .start()
)
query.processAllAvailable()
stats = op.stats()
found = {"received": stats.received, "processed": stats.processed}
(place / "stats.json").write_text(json.dumps(found))
query.stop()
spark.stop()
