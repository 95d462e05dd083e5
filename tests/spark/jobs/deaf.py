"""A streaming job whose control channel is closed while the query runs.

Arguments: the folder to work in, with files that come first (`in`) and later (`later`).
"""

import json
import sys
from pathlib import Path

import penstock
from penstock.spark import session
from penstock.spark.driver import Driver

place = Path(sys.argv[1])
spark = session("local[2]", "penstock-test-deaf")
op = penstock.balance(
    lambda record: record, key="entity", schema="entity string, n int", instances=2, name="deaf"
)
stream = spark.readStream.schema("entity string, n int").option("maxFilesPerTrigger", 1)
query = (
    stream.json(str(place / "in"))
    .transform(op)
    .writeStream.format("parquet")
    .option("checkpointLocation", str(place / "checkpoint"))
    .start(str(place / "out"))
)


def counted():
    stats = op.stats()
    names = "received", "processed", "batches", "fallbacks", "fallback_reason"
    return {name: getattr(stats, name) for name in names}


query.processAllAvailable()
before = counted()
Driver.of(spark).server.close()
for file in sorted((place / "later").iterdir()):
    file.rename(place / "in" / file.name)
query.processAllAvailable()
(place / "stats.json").write_text(json.dumps({"before": before, "after": counted()}))
query.stop()
spark.stop()
