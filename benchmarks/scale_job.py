"""The query of `scale.py`: it runs in a process of its own, so that its driver can be killed."""

import argparse
import json
import time
from pathlib import Path

import penstock
from penstock.spark import internals
from penstock.spark.lab import session
from penstock.spark.lab.sessions import LOCAL_CHECKPOINTS

COST_S = 0.04
# Interval of the query's trigger.
INTERVAL_S = 2.0
# Number of executors that the cluster has room for.
MOST_EXECUTORS = 4


def slow(record: dict) -> dict:
    time.sleep(COST_S)
    return {"id": record["id"]}


def run(url: str, folder: Path, *, executors: int, period_s: float) -> None:
    """Run the query until there is a file `stop`, and log its state every second.

    Args:
        url: master of the cluster.
        folder: folder with the stream in `in`; checkpoint, journal and results are written here.
        executors: largest number of executors that the query may use.
        period_s: time between two plans.
    """
    spark = session(
        url,
        "penstock-scale",
        spark__executor__memory="512m",
        spark__executor__cores="1",
        spark__cores__max=str(MOST_EXECUTORS),
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__sql__shuffle__partitions=str(MOST_EXECUTORS),
        **LOCAL_CHECKPOINTS,
    )
    operator = penstock.balance(slow, key="entity", schema="id long", instances=MOST_EXECUTORS)
    records = spark.readStream.schema("id long, entity long").parquet(str(folder / "in"))
    query = (
        records.transform(operator)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .queryName("answers")
        .trigger(processingTime=f"{INTERVAL_S:g} seconds")
        .start()
    )
    attached = penstock.attach(
        query,
        scale=penstock.scaling.Preventive(
            min_executors=1, max_executors=executors, hold=2, utilization=0.85
        ),
        period=1000 * period_s,
        journal=folder / "journal.jsonl",
    )
    batches: dict[int, tuple[int, float, int]] = {}
    with (folder / "states.jsonl").open("a", buffering=1) as states:
        while query.isActive and not (folder / "stop").exists():
            executors_now = attached.stats().executors
            new = [one for one in query.recentProgress if one.batchId not in batches]
            for one in new:
                taken_s = one.durationMs["triggerExecution"] / 1000
                batches[one.batchId] = one.numInputRows, taken_s, executors_now
            state = {
                "at_s": time.time(),
                "executors": executors_now,
                "processed": sum(rows for rows, _, _ in batches.values()),
                "batches": [batches[one.batchId] for one in new if one.numInputRows],
            }
            states.write(json.dumps(state) + "\n")
            time.sleep(1)
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    # The rest is not measured, so all executors process it.
    penstock.detach(query)
    internals.request_executors(spark, MOST_EXECUTORS)
    query.processAllAvailable()
    query.stop()
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="master of the cluster")
    parser.add_argument("folder", type=Path, help="folder to work in")
    parser.add_argument("--executors", type=int, required=True, help="largest number of executors")
    parser.add_argument("--period-s", type=float, required=True, help="time between two plans")
    args = parser.parse_args()
    run(args.url, args.folder, executors=args.executors, period_s=args.period_s)


if __name__ == "__main__":
    main()
