"""All verbs on a small local cluster, with whichever PySpark is on the path.

Arguments: the folder to work in.
"""

import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import functions as sf
from shared import TIMED, counts, drop, source, until, unwanted, write_json

import penstock
from penstock.aggregators import Mean
from penstock.spark.lab import session

place = Path(sys.argv[1])
RECORDS = 60

spark = session(
    "local-cluster[2,1,1024]",
    "penstock-test-smoke",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions="4",
    spark__locality__wait="10s",
)
records = [
    {"entity": f"e{n % 6}", "n": n, "ts": "2020-01-01T00:00:00Z", "priority": "low"}
    for n in range(RECORDS)
]
drop(place / "in", records[:30], records[30:])
found = {"version": pyspark.__version__}


def numbers(frame):
    return sorted(row.n for row in frame.collect())


def ended(frame, name):
    """Run a stream to its end, and return what it has written."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(place / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / name))
    )
    query.awaitTermination()
    return spark.read.parquet(str(place / name))


# balance and shed, with a spill folder; the batch form; a shedder in front.
op = penstock.balance(
    lambda record: record,
    key="entity",
    schema=TIMED,
    instances=3,
    name="work",
    shed=unwanted(spark, "e1"),
    arrival="ts",
    spill=str(place / "spill"),
)
found["balanced"] = numbers(ended(source(spark, place / "in", TIMED).transform(op), "balanced"))
found["work"] = counts(op, "received", "processed", "shed", "fallbacks")
batches = penstock.balance(
    lambda batch: batch, key="entity", schema=TIMED, instances=2, form="arrow", name="batches"
)
found["arrow"] = numbers(spark.read.schema(TIMED).json(str(place / "in")).transform(batches))
gate = penstock.shed(
    unwanted(spark, "e2"), arrival="ts", key="entity", spill=str(place / "gate"), name="gate"
)
found["gated"] = numbers(ended(source(spark, place / "in", TIMED).transform(gate), "gated"))

# replay.
late = penstock.replay(spark, str(place / "spill"))
found["replayed"] = numbers(ended(late, "late"))

# aggregate, and a window.
mean = penstock.aggregate(Mean("n"), key="entity", schema="mean double, count long", instances=3)
means = spark.read.schema(TIMED).json(str(place / "in")).transform(mean)
found["means"] = {row.entity: [row.mean, row["count"]] for row in means.collect()}
total = penstock.aggregate(
    key="entity",
    zero=lambda: 0,
    update=lambda state, record: state + record["n"],
    merge=lambda state, other: state + other,
    schema="total long",
    instances=2,
    name="total",
)
totals = {}
query = (
    source(spark, place / "in", TIMED)
    .transform(total)
    .writeStream.outputMode("update")
    .option("checkpointLocation", str(place / "total-checkpoint"))
    .foreachBatch(lambda rows, number: totals.update({r.entity: r.total for r in rows.collect()}))
    .start()
)
query.processAllAvailable()
found["totals"] = totals

# attach with scale and place, to a plain stateful query.
query.stop()
plain = source(spark, place / "in", TIMED).groupBy("entity").agg(sf.sum("n").alias("n"))
query = (
    plain.writeStream.outputMode("complete")
    .option("checkpointLocation", str(place / "plain-checkpoint"))
    .format("memory")
    .queryName("plain")
    .start()
)
query.processAllAvailable()
attached = penstock.attach(
    query,
    scale=penstock.scaling.Fixed(min_executors=2, max_executors=2),
    place=penstock.placement.LocalSearch(max_migrations=2),
    period="1 s",
)
for number in range(2, 8):
    drop(place / "in", [dict(one, n=0) for one in records[:6]], start=number)
    query.processAllAvailable()
    time.sleep(0.5)
until(lambda: "no plan yet" not in attached.stats().reason, attached.stats)
stats = attached.stats()
found["attached"] = {"failures": stats.failures, "failure": stats.failure, "wanted": stats.wanted}
found["distance"] = stats.distance
penstock.detach(query)
found["sum"] = sum(row.n for row in spark.table("plain").collect())
query.stop()
write_json(place / "found.json", found)
spark.stop()
