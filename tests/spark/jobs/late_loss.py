"""An executor dies when one task of the result has finished: the job goes on, and is exact.

Two jobs, one after the other: a mean of floats by key, and two balanced operators in a row after a
shuffle. In each of them the first task of the result ends, and all others wait until there is a
file `killed-<job>`; the job then has written `ended-<job>`. Task outputs that get lost are made
again, from records in another order. Spark compares the bytes.

Arguments: the folder to work in.
"""

import os
import sys
import threading
import time
from pathlib import Path

from shared import counts, until, write_json

import penstock
from penstock.aggregators import Mean
from penstock.spark.lab import session

RECORDS, KEYS = 3_000, 40
place = Path(sys.argv[1])

spark = session(
    "local-cluster[3,1,1024]",
    "penstock-test-late-loss",
    spark__executor__memory="512m",
    spark__sql__shuffle__partitions="8",
    spark__sql__adaptive__enabled="false",
    spark__shuffle__io__retryWait="1s",
    spark__shuffle__io__maxRetries="1",
)
records = spark.range(0, RECORDS, 1, 6).selectExpr(
    f"id % {KEYS} AS key", "double(id) / 7 AS value", "id AS n"
)


def after_the_first(job):
    """A stage that lets the first of its tasks pass; the others wait for the file `killed`."""

    def wait(batches):
        batches = list(batches)
        try:
            os.close(os.open(place / f"first-{job}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            while not (place / f"killed-{job}").exists():
                time.sleep(0.02)
        yield from batches

    return wait


def tell_of_the_end(job):
    """Write a file when a task of the result has ended."""
    tracker = spark.sparkContext.statusTracker()

    def one_has_ended():
        stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
        return (place / f"first-{job}").exists() and any(
            one is not None and one.numCompletedTasks == 1 for one in stages
        )

    until(one_has_ended, lambda: job)
    (place / f"ended-{job}").touch()


def run(job, frame):
    """Collect a frame while an executor dies."""
    threading.Thread(target=tell_of_the_end, args=(job,), daemon=True).start()
    return frame.mapInArrow(after_the_first(job), frame.schema).collect()


mean = penstock.aggregate(Mean("value"), key="key", schema="mean double, count long", instances=3)
means = run("mean", records.transform(mean))

one = penstock.balance(lambda r: r, key="key", schema=records.schema, instances=4, name="one")
two = penstock.balance(lambda r: r, key="n", schema=records.schema, instances=8, name="two")
shuffled = records.repartition(5)
both = run("chain", shuffled.transform(one).transform(two))

write_json(
    place / "result.json",
    {
        "counts": {row.key: row["count"] for row in means},
        "means": {row.key: row.mean for row in means},
        "numbers": sorted(row.n for row in both),
        "stats": [counts(op, "received", "processed") for op in (mean, one, two)],
    },
)
spark.stop()
