"""The query: functions, keys and rates change for ever. Executors get this module by value."""

import time

import numpy as np
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Sum

ROWS = 120  # of a batch, before the rate is applied
INSTANCES = 2
SOURCE = "entity string, n long, at timestamp"


class Moody(penstock.shedding.Shedder):
    """Sheds a fifth of the records of every tenth second, so that there is time to replay them."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        second = int(np.max(now_ms, initial=0)) // 1_000 if now_ms is not None else 0
        generator = np.random.default_rng(second)
        admitted = generator.random(len(keys)) >= (0.0 if second % 10 else 0.2)
        return admitted if protected is None else admitted | protected


def work(record):
    """Take another time in another phase, and fail for some records."""
    n = record["n"]
    if n % 997 == 0:
        raise ValueError("a bad record")
    if n // (40 * ROWS) % 3 == n % 50:
        time.sleep(0.002)
    return record


def records(spark):
    """Records of some keys that stay and of others that are new for ever; the rate changes."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    batch = sf.floor(sf.col("value") / ROWS)
    share = sf.when(batch % 400 < 200, 0.3).otherwise(1.0)
    entity = sf.when(sf.col("value") % 3 == 0, sf.col("value") % 7).otherwise(
        sf.floor(sf.col("value") / 20)
    )
    kept = rows.where(sf.col("value") % ROWS < ROWS * share)
    return kept.select(
        entity.cast("string").alias("entity"),
        sf.col("value").alias("n"),
        sf.current_timestamp().alias("at"),
    )


class Balanced:
    """A balanced operator with all its folders, and Spark's own count of each key.

    Args:
        folder: folder for everything that the query writes.
    """

    def __init__(self, folder):
        self.folder = folder
        self.op = penstock.balance(
            work,
            key="entity",
            schema=SOURCE,
            instances=INSTANCES,
            name="work",
            shed=Moody(),
            arrival="at",
            spill=f"file://{folder}/spill",
            on_error="skip",
            journal=folder / "journals" / "work",
        )

    def applied(self, spark):
        """The query with its replay."""
        source = records(spark)
        late = penstock.replay(
            spark,
            f"file://{self.folder}/spill",
            when=self.op,
            arrival="at",
            schema=source.schema,
            every="1 s",
        )
        done = source.unionByName(late).transform(self.op).withWatermark("at", "5 seconds")
        return done.groupBy(sf.window("at", "10 seconds"), "entity").count()


class Aggregated:
    """The total of each key, which is forgotten after some seconds.

    Args:
        folder: folder for everything that the query writes.
    """

    def __init__(self, folder):
        self.op = penstock.aggregate(
            Sum("n"),
            key="entity",
            schema="sum long",
            instances=INSTANCES,
            name="totals",
            ttl="20 s",
            journal=folder / "journals" / "totals",
        )

    def applied(self, spark):
        """The query."""
        return records(spark).transform(self.op)


QUERIES = {"balance": Balanced, "aggregate": Aggregated}
