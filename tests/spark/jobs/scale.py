"""A query on a cluster of its own whose executors come and go while records flow.

Arguments: the folder to work in, and how executors go: `killed`, `decommissioned`, or by Spark's
own `dynamic` allocation.
"""

import json
import logging
import sys
import time
from pathlib import Path

import penstock
from penstock.spark.internals.jvm import as_json, status_store
from penstock.spark.lab import StandaloneCluster, session

place, way = Path(sys.argv[1]), sys.argv[2]
WAIT_S = 300
logging.basicConfig(filename=place / "warnings.log", level=logging.WARNING)


class Told(penstock.scaling.Scaler):
    """Wants as many instances as it is told to."""

    degree = 3

    def wanted(self, topology, history):
        return dict.fromkeys(topology.parents, (Told.degree, "told so"))


def work(record):
    time.sleep(0.002)
    return record


def until(condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, attached.stats()
        time.sleep(0.2)


def feed():
    """Let some more records flow."""
    first = 40 * len(files)
    rows = [{"entity": f"e{n % 5}", "n": n} for n in range(first, first + 40)]
    files.append(place / "in" / f"{first:06}.json")
    hidden = files[-1].with_name(f".{files[-1].name}")
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(files[-1])


def reached(executors):
    """Go on until there are so many executors, with records all the time."""
    Told.degree = executors
    until(lambda: feed() or attached.stats().executors == executors)
    # The routers follow from the next batch on.
    until(lambda: feed() or op.stats().active == executors)
    return attached.stats().executors


files = []
(place / "in").mkdir()
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
    op = penstock.balance(work, key="entity", schema="entity string, n int", instances=3)
    query = (
        spark.readStream.schema("entity string, n int")
        .json(str(place / "in"))
        .transform(op)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .start(str(place / "out"))
    )
    attached = penstock.attach(
        query,
        scale=Told(min_executors=1, max_executors=3),
        period="1 s",
        journal=place / "journal",
    )
    found = {"dry_run": attached.stats().dry_run}
    if way != "dynamic":
        found["executors"] = [reached(1), reached(3), reached(2)]
        penstock.detach(query)
        found["active"] = op.stats().active
        told = as_json(spark, status_store(spark).executorList(False))
        found["removed"] = [one["removeReason"] for one in told if "removeReason" in one]
    query.processAllAvailable()
    stats = op.stats()
    found |= {"sent": 40 * len(files), "received": stats.received, "processed": stats.processed}
    found["failures"] = attached.stats().failures
    query.stop()
    spark.stop()
(place / "stats.json").write_text(json.dumps(found))
