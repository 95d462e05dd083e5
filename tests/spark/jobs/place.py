"""Two stateful operators on a local cluster whose key groups all move to one executor.

Arguments: the folder to work in, and how: with a sink that is `placed`, and the executor dies; with
one that is `plain`; or `endless`, placed and with batches until the driver is killed.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from pyspark.sql import functions as sf

import penstock
from penstock.spark.lab import session

place, way = Path(sys.argv[1]), sys.argv[2]
WAIT_S = 300
PARTITIONS = 6
GROUPS = 2 * PARTITIONS


class Gather(penstock.placement.Placer):
    """Brings all key groups to the first worker."""

    def place(self, cluster):
        return np.zeros(cluster.key_groups, dtype=np.int64), "all to the first one"


def until(condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, (attached.stats(), where())
        time.sleep(0.1)


def feed():
    """One more batch: every entity, and those of the batch before once more."""
    numbers = range(max(0, len(files) - 1), len(files) + 1)
    rows = [{"entity": f"e{n}", "n": number} for number in numbers for n in range(30)]
    files.append(place / "in" / f"{len(files):06}.json")
    hidden = files[-1].with_name(f".{files[-1].name}")
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(files[-1])
    query.processAllAvailable()


def sink(batch, number):
    rows = sorted((row["entity"], row["n"]) for row in batch.collect())
    # A batch that a killed driver did not end comes again: the same file.
    (place / "out" / f"{number:06}.json").write_text(json.dumps(rows))


def where():
    return dict(attached._placing.groups.where)


def together():
    feed()
    return len(where()) == GROUPS and len(set(where().values())) == 1


for folder in ("in", "out"):
    (place / folder).mkdir(exist_ok=True)
files = sorted((place / "in").glob("[0-9]*"))
spark = session(
    "local-cluster[3,1,1024]",
    "penstock-test-place",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions=str(PARTITIONS),
    spark__locality__wait="10s",
)
records = (
    spark.readStream.schema("entity string, n int")
    .option("maxFilesPerTrigger", 1)
    .json(str(place / "in"))
)
for _ in range(2):
    # Computed, or Spark would not shuffle between the two.
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
until(together)
gathered = where()
(place / "gathered").touch()
while way == "endless":
    feed()
found = {"gathered": len(set(gathered.values())), "moved": attached.stats().moved}
if way == "placed":
    # The executor that has everything dies: Spark brings the state back elsewhere.
    (there,) = set(gathered.values())
    spark.sparkContext._jsc.sc().killAndReplaceExecutor(there)
    until(lambda: feed() or there not in where().values())
    found["escaped"] = True
for _ in range(3):
    feed()
found["failures"] = attached.stats().failures
penstock.detach(query)
query.stop()
spark.stop()
found["batches"] = len(files)
(place / "stats.json").write_text(json.dumps(found))
