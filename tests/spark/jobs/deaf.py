"""A streaming job whose control channel is closed while the query runs.

Arguments: the folder to work in, with files that come first (`in`) and later (`later`); "shed" if
records of e1 are to be shed.
"""

import sys
from pathlib import Path

from shared import NUMBERED, TIMED, counts, source, start_to_parquet, unwanted, write_json

import penstock
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.lab import session

COUNTED = "received", "shed", "processed", "batches", "fallbacks", "fallback_reason"

place, sheds = Path(sys.argv[1]), "shed" in sys.argv[2:]
spark = session("local[2]", "penstock-test-deaf")
schema, more = NUMBERED, {}
if sheds:
    more = {"shed": unwanted(spark, "e1"), "arrival": "ts", "spill": str(place / "spill")}
    schema = TIMED
op = penstock.balance(
    lambda record: record, key="entity", schema=schema, instances=2, name="deaf", **more
)
query = start_to_parquet(source(spark, place / "in", schema).transform(op), place)
query.processAllAvailable()
before = counts(op, *COUNTED)
ControlPlane.of(spark).server.close()
for file in sorted((place / "later").iterdir()):
    file.rename(place / "in" / file.name)
query.processAllAvailable()
write_json(place / "stats.json", {"before": before, "after": counts(op, *COUNTED)})
query.stop()
spark.stop()
