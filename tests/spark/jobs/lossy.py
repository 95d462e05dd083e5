"""A balanced operator and an aggregation, two streams on several executor processes.

In each of them the record `stuck` waits until there is a file `killed`, so that a test can kill
the executor that has it; the file `stuck-<operator>` names the Python worker.

Arguments: the folder to work in, the number of the record.
"""

import json
import os
import sys
import time
from pathlib import Path

import penstock
from penstock.spark.lab import session

place, stuck = Path(sys.argv[1]), int(sys.argv[2])
totals = place / "totals"
totals.mkdir()


def wait(operator, record):
    if record["n"] == stuck:
        hidden = place / f".stuck-{os.getpid()}"
        hidden.write_text(str(os.getpid()))
        hidden.rename(place / f"stuck-{operator}")
        while not (place / "killed").exists():
            time.sleep(0.02)


def work(record):
    wait("balance", record)
    return record


def add(state, record):
    wait("aggregate", record)
    return state[0] + 1, state[1] + record["n"]


def keep(rows, number):
    found = {row.entity: [row.records, row.total] for row in rows.collect()}
    (totals / f"{number:03}").write_text(json.dumps(found))


spark = session(
    "local-cluster[3,1,1024]",
    "penstock-test-lossy",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions="2",
    spark__shuffle__io__retryWait="1s",
    spark__shuffle__io__maxRetries="1",
)
balanced = penstock.balance(work, key="entity", schema="entity string, n int", instances=3)
aggregated = penstock.aggregate(
    key="entity",
    zero=lambda: (0, 0),
    update=add,
    merge=lambda state, other: (state[0] + other[0], state[1] + other[1]),
    finish=lambda state: {"records": state[0], "total": state[1]},
    schema="records long, total long",
    instances=3,
    name="totals",
)
stream = spark.readStream.schema("entity string, n int").option("maxFilesPerTrigger", 1)
rows = stream.json(str(place / "in")).transform(balanced).writeStream.format("parquet")
changes = stream.json(str(place / "in")).transform(aggregated).writeStream.outputMode("update")
queries = [
    rows.option("checkpointLocation", str(place / "rows")).start(str(place / "out")),
    changes.option("checkpointLocation", str(place / "changes")).foreachBatch(keep).start(),
]
for query in queries:
    query.processAllAvailable()
stats = {op.name: [op.stats().received, op.stats().processed] for op in (balanced, aggregated)}
(place / "stats.json").write_text(json.dumps(stats))
for query in queries:
    query.stop()
spark.stop()
