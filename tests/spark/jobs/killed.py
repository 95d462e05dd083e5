"""Three queries of one driver: `balanced` records, `aggregated` ones and `shed` ones.

Each works in the folder of its name. There a record waits until there is a file `go`, so that a
test can kill the driver in the middle of a batch of each query.

Arguments: the folder to work in, the cost of a balanced record in milliseconds, the number of the
record that waits in each query.
"""

import sys
import time
from pathlib import Path

from shared import (
    NUMBERED,
    counts,
    held_up,
    keep_totals,
    sheds_moodily,
    source,
    start_to_parquet,
    totals,
    two_files_a_batch,
    write_json,
)

import penstock
from penstock.spark.lab import session

place, cost_ms = Path(sys.argv[1]), float(sys.argv[2])
stuck = dict(zip(("balanced", "aggregated", "shed"), map(int, sys.argv[3:]), strict=True))
hold = held_up(place / "balanced", stuck["balanced"], mark="stuck", until="go")


def work(record):
    hold(record)
    time.sleep(cost_ms / 1000 * (1 + 4 * (record["entity"] == "e0")))
    return record


# Three slots for the records that wait, and two for the others.
spark = session("local[5]", "penstock-test-killed", spark__sql__shuffle__partitions="2")
folder = place / "balanced"
balanced = penstock.balance(
    work, key="entity", schema=NUMBERED, instances=2, journal=folder / "journal"
)
queries = {
    balanced: start_to_parquet(source(spark, folder / "in").transform(balanced), folder),
}
folder = place / "aggregated"
aggregated = totals(held_up(folder, stuck["aggregated"], mark="stuck", until="go"), instances=2)
queries[aggregated] = (
    source(spark, folder / "in")
    .transform(aggregated)
    .writeStream.outputMode("update")
    .foreachBatch(keep_totals(folder / "totals"))
    .option("checkpointLocation", str(folder / "checkpoint"))
    .start()
)
folder = place / "shed"
shed = sheds_moodily(folder, stuck["shed"])
queries[shed] = start_to_parquet(two_files_a_batch(spark, folder).transform(shed), folder)
for operator, name in zip(queries, stuck, strict=True):
    queries[operator].processAllAvailable()
    found = counts(operator, "received", "shed", "processed", "fallbacks")
    write_json(place / name / "stats.json", found)
    queries[operator].stop()
spark.stop()
