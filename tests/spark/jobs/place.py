"""Two stateful operators on a local cluster; all of their key groups move to one executor.

Arguments: the folder to work in, and the way. `placed` uses `with_placement`, and then kills the
executor; `plain` uses the sink alone; `endless` is placed, and runs until the driver is killed.
"""

import sys
from pathlib import Path

import numpy as np
from pyspark.sql import functions as sf
from shared import drop, source, until, write_json

import penstock
from penstock.spark.lab import session

place, way = Path(sys.argv[1]), sys.argv[2]
PARTITIONS = 6
GROUPS = 2 * PARTITIONS


class Gather(penstock.placement.Placer):
    """Moves all key groups to the first worker."""

    def place(self, cluster):
        return np.zeros(cluster.key_groups, dtype=np.int64), "all to the first one"


def files():
    """The number of files so far, those of a killed driver included."""
    return len(list((place / "in").glob("[0-9]*")))


def feed():
    """Run one more batch: every entity, and those of the previous batch again."""
    newest = files()
    numbers = range(max(0, newest - 1), newest + 1)
    rows = [{"entity": f"e{n}", "n": number} for number in numbers for n in range(30)]
    drop(place / "in", rows, start=newest)
    query.processAllAvailable()


def sink(batch, number):
    rows = sorted((row["entity"], row["n"]) for row in batch.collect())
    # A batch that a killed driver did not complete is repeated: it has the same file.
    write_json(place / "out" / f"{number:06}.json", rows)


def where():
    return dict(attached._placement.groups.where)


def together():
    feed()
    return len(where()) == GROUPS and len(set(where().values())) == 1


for folder in ("in", "out"):
    (place / folder).mkdir(exist_ok=True)
spark = session(
    "local-cluster[3,1,1024]",
    "penstock-test-place",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions=str(PARTITIONS),
    spark__locality__wait="10s",
)
records = source(spark, place / "in")
for _ in range(2):
    # The number is computed, or Spark would not shuffle between the two operators.
    records = records.withColumn("n", sf.abs("n")).dropDuplicates(["entity", "n"])
query = (
    records.writeStream.outputMode("append")
    .foreachBatch(sink if way == "plain" else penstock.with_placement(sink))
    .option("checkpointLocation", str(place / "checkpoint"))
    # Between batches there is time for hints.
    .trigger(processingTime="300 milliseconds")
    .start()
)
attached = penstock.attach(
    query, place=Gather(max_migrations=GROUPS), period="1 s", journal=place / "journal"
)
until(together, lambda: (attached.stats(), where()))
gathered = where()
(place / "gathered").touch()
while way == "endless":
    feed()
found = {"gathered": len(set(gathered.values())), "moved": attached.stats().moved}
if way == "placed":
    # The executor that has all key groups is killed: Spark loads the state elsewhere.
    (there,) = set(gathered.values())
    spark.sparkContext._jsc.sc().killAndReplaceExecutor(there)
    until(lambda: feed() or there not in where().values(), lambda: (attached.stats(), where()))
    found["escaped"] = True
for _ in range(3):
    feed()
found["failures"] = attached.stats().failures
penstock.detach(query)
query.stop()
spark.stop()
found["batches"] = files()
write_json(place / "stats.json", found)
