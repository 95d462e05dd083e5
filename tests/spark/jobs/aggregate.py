"""A streaming aggregation: files in, the changed totals of each batch as JSON out.

Arguments: the folder to work in, the duration of an update in milliseconds.
"""

import sys
import time
from pathlib import Path

from shared import counts, keep_totals, source, totals, write_json

from penstock.spark.lab import session

place, cost_ms = Path(sys.argv[1]), float(sys.argv[2])
spark = session("local[2]", "penstock-test-aggregate", spark__sql__shuffle__partitions="2")
op = totals(lambda record: time.sleep(cost_ms / 1000), instances=2)
query = (
    source(spark, place / "in")
    .transform(op)
    .writeStream.outputMode("update")
    .foreachBatch(keep_totals(place / "totals"))
    .option("checkpointLocation", str(place / "checkpoint"))
    .start()
)
query.processAllAvailable()
write_json(place / "stats.json", counts(op, "received", "processed"))
query.stop()
spark.stop()
