"""A query on its own cluster; executors are added and removed while records arrive.

Arguments: the folder to work in, and how executors are removed: `killed`, `decommissioned`, or by
Spark's own `dynamic` allocation.
"""

import logging
import sys
import time
from pathlib import Path

from shared import NUMBERED, counts, drop, start_to_parquet, until, write_json

import penstock
from penstock.spark.internals.jvm import as_json, status_store
from penstock.spark.lab import StandaloneCluster, session

place, way = Path(sys.argv[1]), sys.argv[2]
PER_FILE = 40
logging.basicConfig(filename=place / "warnings.log", level=logging.WARNING)


class Requested(penstock.scaling.Scaler):
    """Wants the requested number of instances."""

    degree = 3

    def wanted(self, topology, history):
        return dict.fromkeys(topology.parents, (Requested.degree, "requested"))


def work(record):
    time.sleep(0.002)
    return record


def sent():
    """The number of records sent so far."""
    return PER_FILE * len(list((place / "in").glob("[0-9]*")))


def feed():
    """Send some more records."""
    first = sent()
    rows = [{"entity": f"e{n % 5}", "n": n} for n in range(first, first + PER_FILE)]
    drop(place / "in", rows, start=first // PER_FILE)


def reached(executors):
    """Request a number of executors, and send records until it is reached."""
    Requested.degree = executors
    until(lambda: feed() or attached.stats().executors == executors, attached.stats)
    # The routers follow from the next batch on.
    until(lambda: feed() or op.stats().active == executors, attached.stats)
    return attached.stats().executors


feed()
with StandaloneCluster(workers=3) as cluster:
    spark = session(
        cluster.url,
        "penstock-test-scale",
        spark__executor__memory="512m",
        spark__executor__cores="1",
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__sql__shuffle__partitions="2",
        spark__dynamicAllocation__enabled=str(way == "dynamic").lower(),
        spark__dynamicAllocation__minExecutors="1",
        spark__decommission__enabled=str(way == "decommissioned").lower(),
    )
    op = penstock.balance(work, key="entity", schema=NUMBERED, instances=3)
    stream = spark.readStream.schema(NUMBERED).json(str(place / "in"))
    query = start_to_parquet(stream.transform(op), place)
    attached = penstock.attach(
        query,
        scale=Requested(min_executors=1, max_executors=3),
        period="1 s",
        journal=place / "journal",
    )
    found = {"dry_run": attached.stats().dry_run}
    if way != "dynamic":
        found["executors"] = [reached(1), reached(3), reached(2)]
        penstock.detach(query)
        found["active"] = op.stats().active
        known = as_json(spark, status_store(spark).executorList(False))
        found["removed"] = [one["removeReason"] for one in known if "removeReason" in one]
    query.processAllAvailable()
    found |= {"sent": sent(), **counts(op, "received", "processed")}
    found["failures"] = attached.stats().failures
    query.stop()
    spark.stop()
write_json(place / "stats.json", found)
