"""A query on a cluster; executors are added and removed while records arrive.

Executors are `killed` by the scaler, `decommissioned` by it, or removed by Spark's own `dynamic`
allocation.

Arguments: the folder to work in, the way. The query has a folder of this name there.
"""

import logging
import sys
import time
from pathlib import Path

from shared import NUMBERED, counts, drop, start_to_parquet, until, write_json

import penstock
from penstock.spark.internals.jvm import as_json, status_store
from penstock.spark.lab import StandaloneCluster, session

PER_FILE = 40


class Requested(penstock.scaling.Scaler):
    """Wants the requested number of instances."""

    degree = 3

    def wanted(self, topology, history):
        return dict.fromkeys(topology.parents, (Requested.degree, "requested"))


def work(record):
    time.sleep(0.002)
    return record


def application(cluster, way):
    """Start an application on the cluster, of up to three executors."""
    return session(
        cluster.url,
        f"penstock-test-scale-{way}",
        spark__executor__memory="512m",
        spark__executor__cores="1",
        spark__cores__max="3",
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__sql__shuffle__partitions="2",
        spark__dynamicAllocation__enabled=str(way == "dynamic").lower(),
        spark__dynamicAllocation__minExecutors="1",
        spark__decommission__enabled=str(way == "decommissioned").lower(),
    )


def sent(folder):
    """The number of records sent so far."""
    return PER_FILE * len(list(folder.glob("[0-9]*")))


def feed(folder):
    """Send some more records."""
    first = sent(folder)
    rows = [{"entity": f"e{n % 5}", "n": n} for n in range(first, first + PER_FILE)]
    drop(folder, rows, start=first // PER_FILE)


def reached(executors, attached, *, op, folder):
    """Request a number of executors, and send records until it is reached."""
    Requested.degree = executors

    def fed():
        """Send records, unless many wait: the query shall keep up on a slow machine."""
        if sent(folder) <= op.stats().received + 3 * PER_FILE:
            feed(folder)

    until(lambda: fed() or attached.stats().executors == executors, attached.stats)
    # The routers follow from the next batch on.
    until(lambda: fed() or op.stats().active == executors, attached.stats)
    return attached.stats().executors


def scaled(cluster, way, place):
    """Run a query whose executors change, and write down what was seen."""
    place.mkdir()
    folder = place / "in"
    feed(folder)
    spark = application(cluster, way)
    op = penstock.balance(work, key="entity", schema=NUMBERED)  # no executor has registered yet
    stream = spark.readStream.schema(NUMBERED).json(str(folder))
    # Batches without a pause would leave executors that start no core.
    query = start_to_parquet(stream.transform(op), place, trigger="1 second")
    attached = penstock.attach(
        query,
        scale=Requested(min_executors=1, max_executors=3),
        period="1 s",
        journal=place / "journal",
    )
    query.processAllAvailable()
    found = {"dry_run": attached.stats().dry_run}
    if way != "dynamic":
        degrees = (1, 3, 2)
        found["executors"] = [reached(one, attached, op=op, folder=folder) for one in degrees]
        # The time until an executor works was measured.
        until(lambda: attached.stats().lead_s > 0, attached.stats)
        penstock.detach(query)
        found["active"] = op.stats().active
        known = as_json(spark, status_store(spark).executorList(False))
        found["removed"] = [one["removeReason"] for one in known if "removeReason" in one]
    query.processAllAvailable()
    found |= {"sent": sent(folder), **counts(op, "received", "processed")}
    found["failures"] = attached.stats().failures
    query.stop()
    spark.stop()
    write_json(place / "stats.json", found)


if __name__ == "__main__":
    main, one_way = Path(sys.argv[1]), sys.argv[2]
    logging.basicConfig(filename=main / "warnings.log", level=logging.WARNING)
    with StandaloneCluster(workers=1, cores=3, memory_mb=2048) as one_cluster:
        scaled(one_cluster, one_way, main / one_way)
