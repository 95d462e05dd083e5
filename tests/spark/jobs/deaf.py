"""A streaming job whose control channel is closed while the query runs.

Arguments: the folder to work in, with files that come first (`in`) and later (`later`); "shed" if
records of e1 are to be shed.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from flows import TIMED, unwanted

import penstock
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.lab import session

place, sheds = Path(sys.argv[1]), "shed" in sys.argv[2:]
spark = session("local[2]", "penstock-test-deaf")
schema, more = "entity string, n int", {}
if sheds:
    more = {"shed": unwanted(spark, "e1"), "arrival": "ts", "spill": str(place / "spill")}
    schema = TIMED
op = penstock.balance(
    lambda record: record, key="entity", schema=schema, instances=2, name="deaf", **more
)
stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
query = (
    stream.json(str(place / "in"))
    .transform(op)
    .writeStream.format("parquet")
    .option("checkpointLocation", str(place / "checkpoint"))
    .start(str(place / "out"))
)


def counted():
    stats = op.stats()
    names = "received", "shed", "processed", "batches", "fallbacks", "fallback_reason"
    return {name: getattr(stats, name) for name in names}


query.processAllAvailable()
before = counted()
ControlPlane.of(spark).server.close()
for file in sorted((place / "later").iterdir()):
    file.rename(place / "in" / file.name)
query.processAllAvailable()
(place / "stats.json").write_text(json.dumps({"before": before, "after": counted()}))
query.stop()
spark.stop()
