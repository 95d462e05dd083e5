"""What queries have written, and what they should have written."""

import json

from flows import TIMED, bag
from pyspark.sql import Row

from penstock.spark.spill import ADDED


def committed(checkpoint):
    """The number of batches that a query has committed."""
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def stats_of(place):
    """The statistics that a job has written."""
    return json.loads((place / "stats.json").read_text())


def rows_of(files):
    """The rows of files in a bag."""
    return bag(Row(**record) for records in files for record in records)


def totals(place):
    """The newest totals of each key, in the order of batches."""
    newest = {}
    for file in sorted((place / "totals").glob("[0-9]*")):
        newest.update(json.loads(file.read_text()))
    return newest


def expected_totals(files):
    """The records and their sum of each key."""
    found = {}
    for one in (one for records in files for one in records):
        count, total = found.get(one["entity"], (0, 0))
        found[one["entity"]] = [count + 1, total + one["n"]]
    return found


def given(spark, place):
    """The records that a query has read."""
    return bag(spark.read.schema(TIMED).json(str(place / "in")).collect())


def spilled(spark, place):
    """What is in the spill folder, without what was added to it."""
    return bag(spark.read.parquet(str(place / "spill")).drop(*ADDED, "penstock_batch").collect())


def spilled_in(place, batch):
    """The files with what a batch has shed."""
    return sorted((place / "spill" / f"penstock_batch={batch}").glob("[!.]*.parquet"))


def stuck_in_the_second_batch(place):
    """Whether a batch has kept what it has shed, and is stuck with what it has not."""
    return (place / "stuck").exists() and spilled_in(place, 1)
