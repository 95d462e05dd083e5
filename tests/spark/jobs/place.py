"""Two stateful operators on a local cluster; all of their key groups move to one executor.

A query in the folder `placed` uses `with_placement`, and its executor is killed at the end. A query
in the folder `plain` uses its sink alone.

Arguments: the folder to work in, the query; "endless" if it runs until the driver is killed.
"""

import sys
from itertools import repeat
from pathlib import Path

import numpy as np
from pyspark.sql import functions as sf
from shared import drop, source, until, write_json

import penstock
from penstock.spark.lab import session

PARTITIONS = 6
GROUPS = 2 * PARTITIONS


class Gather(penstock.placement.Placer):
    """Moves all key groups to the first worker."""

    def place(self, cluster):
        return np.zeros(cluster.key_groups, dtype=np.int64), "all to the first one"


class Query:
    """A query whose key groups are gathered on one executor."""

    def __init__(self, spark, place, wrapped):
        for folder in ("in", "out"):
            (place / folder).mkdir(exist_ok=True, parents=True)
        self._place = place
        records = source(spark, place / "in")
        for _ in range(2):
            # The number is computed, or Spark would not shuffle between the two operators.
            records = records.withColumn("n", sf.abs("n")).dropDuplicates(["entity", "n"])
        self.query = (
            records.writeStream.outputMode("append")
            .foreachBatch(wrapped(self._sink))
            .option("checkpointLocation", str(place / "checkpoint"))
            # Between batches there is time for hints.
            .trigger(processingTime="300 milliseconds")
            .start()
        )
        self.attached = penstock.attach(
            self.query, place=Gather(max_migrations=GROUPS), period="1 s", journal=place / "journal"
        )
        self.until(self._together)
        self.gathered = self.where()
        (place / "gathered").touch()

    def _sink(self, batch, number):
        rows = sorted((row["entity"], row["n"]) for row in batch.collect())
        # A batch that a killed driver did not complete is repeated: it has the same file.
        write_json(self._place / "out" / f"{number:06}.json", rows)

    def files(self):
        """The number of files so far, those of a killed driver included."""
        return len(list((self._place / "in").glob("[0-9]*")))

    def feed(self):
        """Run one more batch: every entity, and those of the previous batch again."""
        newest = self.files()
        numbers = range(max(0, newest - 1), newest + 1)
        rows = [{"entity": f"e{n}", "n": number} for number in numbers for n in range(30)]
        drop(self._place / "in", rows, start=newest)
        self.query.processAllAvailable()

    def where(self):
        return dict(self.attached._placement.groups.where)

    def _together(self):
        return len(self.where()) == GROUPS and len(set(self.where().values())) == 1

    def until(self, condition):
        """Feed until there is a condition."""
        until(lambda: self.feed() or condition(), lambda: (self.attached.stats(), self.where()))

    def end(self):
        """Run some more batches, and write down what was seen."""
        for _ in range(3):
            self.feed()
        stats = self.attached.stats()
        found = {"gathered": len(set(self.gathered.values())), "moved": stats.moved}
        found |= {"failures": stats.failures, "batches": self.files()}
        penstock.detach(self.query)
        self.query.stop()
        write_json(self._place / "stats.json", found)


main, name, endless = Path(sys.argv[1]), sys.argv[2], "endless" in sys.argv[3:]
spark = session(
    "local-cluster[3,1,1024]",
    "penstock-test-place",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions=str(PARTITIONS),
    spark__locality__wait="10s",
)
if endless:
    (main / name).mkdir(exist_ok=True)
    (main / name / "dashboard").write_text(penstock.dashboard().url)
query = Query(spark, main / name, penstock.with_placement if name == "placed" else lambda f: f)
for _ in repeat(None) if endless else ():
    query.feed()
if name == "placed":
    # The executor that has all key groups is killed: Spark loads the state elsewhere.
    (there,) = set(query.gathered.values())
    spark.sparkContext._jsc.sc().killAndReplaceExecutor(there)
    query.until(lambda: there not in query.where().values())
query.end()
spark.stop()
