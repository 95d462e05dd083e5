"""Records that operators have shed or kept: what the tests of shedding share."""

from flows import TIMED, bag

import penstock
from penstock.spark.spill import ADDED

SLACK = penstock.shedding.average("1 h")


def counts(stats):
    return stats.received, stats.shed, stats.processed


def numbers(rows):
    return sorted(row.n for row in rows)


def spilled(spark, folder):
    """What is in a spill folder, without what was added to it."""
    return spark.read.parquet(str(folder)).drop(*ADDED, "penstock_batch")


def given(spark, folder, schema=TIMED):
    return bag(spark.read.schema(schema).json(str(folder)).collect())
