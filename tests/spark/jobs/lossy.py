"""A balanced operator and an aggregation: two streams on several executor processes.

In each stream the record `stuck` waits until there is a file `killed`, so that a test can kill its
executor. The file `stuck-<operator>` has the process of the Python worker.

Arguments: the folder to work in, the number of the record.
"""

import sys
from pathlib import Path

from shared import (
    NUMBERED,
    counts,
    held_up,
    keep_totals,
    source,
    start_to_parquet,
    totals,
    write_json,
)

import penstock
from penstock.spark.lab import session

place, stuck = Path(sys.argv[1]), int(sys.argv[2])
hold = held_up(place, stuck, mark="stuck-balance", until="killed")


def work(record):
    hold(record)
    return record


spark = session(
    "local-cluster[3,1,1024]",
    "penstock-test-lossy",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions="2",
    spark__shuffle__io__retryWait="1s",
    spark__shuffle__io__maxRetries="1",
)
balanced = penstock.balance(work, key="entity", schema=NUMBERED, instances=3)
aggregated = totals(held_up(place, stuck, mark="stuck-aggregate", until="killed"), instances=3)
changes = source(spark, place / "in").transform(aggregated).writeStream.outputMode("update")
queries = [
    start_to_parquet(source(spark, place / "in").transform(balanced), place, "rows"),
    changes.option("checkpointLocation", str(place / "changes"))
    .foreachBatch(keep_totals(place / "totals"))
    .start(),
]
for query in queries:
    query.processAllAvailable()
stats = {
    op.name: list(counts(op, "received", "processed").values()) for op in (balanced, aggregated)
}
write_json(place / "stats.json", stats)
for query in queries:
    query.stop()
spark.stop()
