"""A batch aggregation by time while clocks are set back: two instants have one local time.

Arguments: the folder to work in. The time zone is that of the environment.
"""

import sys
from pathlib import Path

from pyspark.sql import functions as sf
from shared import write_json

import penstock
from penstock.aggregators import Count
from penstock.spark.lab import session

place = Path(sys.argv[1])
spark = session("local[2]", "penstock-test-clocks", spark__sql__shuffle__partitions="2")
# From 01:00 in summer time; 01:00 in winter time is an hour later.
seconds = "1699160400 + id * 900"
frame = spark.range(0, 16, 1, 2).selectExpr(f"timestamp_seconds({seconds}) AS at", "1 AS one")
found = {}
for name, given in {
    "times": {"key": "at"},
    "windows": {"key": "one", "window": sf.window("at", "30 minutes")},
}.items():
    op = penstock.aggregate(Count(), schema="count long", instances=1, **given)
    rows = frame.transform(op)
    start = sf.unix_seconds("at" if name == "times" else "window.start")
    found[name] = sorted(list(row) for row in rows.select(start, "count").collect())
write_json(place / "result.json", found)
spark.stop()
