"""Two queries whose control channel is closed while they run; the second one sheds records of e1.

Each works in the folder of its name, `balanced` or `shed`, with files that come first (`in`) and
later (`later`).

Arguments: the folder to work in.
"""

import sys
from pathlib import Path

from shared import NUMBERED, TIMED, counts, source, start_to_parquet, unwanted, write_json

import penstock
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.lab import session

COUNTED = "received", "shed", "processed", "batches", "fallbacks", "fallback_reason"

place = Path(sys.argv[1])
spark = session("local[2]", "penstock-test-deaf")
sheds = {"shed": unwanted(spark, "e1"), "arrival": "ts", "spill": str(place / "shed" / "spill")}
queries = {}
for name, schema, more in (("balanced", NUMBERED, {}), ("shed", TIMED, sheds)):
    op = penstock.balance(
        lambda record: record, key="entity", schema=schema, instances=2, name=name, **more
    )
    stream = source(spark, place / name / "in", schema).transform(op)
    queries[op] = start_to_parquet(stream, place / name)
for query in queries.values():
    query.processAllAvailable()
before = {op.name: counts(op, *COUNTED) for op in queries}
ControlPlane.of(spark).server.close()
for op in queries:
    for file in sorted((place / op.name / "later").iterdir()):
        file.rename(place / op.name / "in" / file.name)
for op, query in queries.items():
    query.processAllAvailable()
    found = {"before": before[op.name], "after": counts(op, *COUNTED)}
    write_json(place / op.name / "stats.json", found)
    query.stop()
spark.stop()
