"""Keep a latency target through a burst: shed the most expensive records, and replay them later.

Spark's rate source sends one and a half times as many records as four tasks can enrich. After a
minute the job prints how many records were processed and shed, and how long records have waited.
Then it replays the shed records.

    python examples/shed_burst.py
    python examples/shed_burst.py --target "2 s" --rate 400
    python examples/shed_burst.py --quick       # a short burst, and a target of half a second
"""

import argparse
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import penstock

INSTANCES = 4


def enrich(order: dict) -> dict:
    """Do the expensive part: some customers need more look-ups than others."""
    time.sleep(0.001 * (1 + order["customer"] % 40))
    return {"customer": order["customer"], "vip": order["vip"]}


def main() -> None:
    """Run the burst, then the replay."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=300, help="records a second")
    parser.add_argument("--target", default="3 s", help="mean waiting time to hold")
    parser.add_argument("--seconds", type=float, default=60, help="length of the burst")
    parser.add_argument("--quick", action="store_true", help="8 seconds, target of 500 ms")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.target = 8, "500 ms"
    spark = SparkSession.builder.master(f"local[{INSTANCES}]").appName("burst").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ticks = spark.readStream.format("rate").option("rowsPerSecond", args.rate).load()
        # The rate source has a column with the arrival of each record; your source needs one, too.
        customer = (sf.hash("value") % 1000 + 1000) % 1000
        orders = ticks.select("timestamp", customer.alias("customer"))
        orders = orders.withColumn("vip", sf.col("customer") < 20)
        spill = str(Path(folder, "shed"))
        operator = penstock.balance(
            enrich,
            key="customer",
            schema="customer long, vip boolean",
            instances=INSTANCES,
            # Expensive records are shed first, so more records are kept.
            shed=penstock.shedding.LoadAware(
                penstock.shedding.sliding_average(args.target), keep="cheap"
            ),
            arrival="timestamp",
            protect="vip",
            spill=spill,
        )
        query = (
            orders.transform(operator)
            .writeStream.format("memory")
            .queryName("enriched")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start()
        )
        # The burst counts from the first batch: before it Spark starts Python workers.
        while query.isActive and not operator.all_stats():
            time.sleep(0.2)
        # A live view: busy time of each task, shed records, and waiting times.
        operator.watch(args.seconds)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        query.stop()
        stats = operator.stats()
        print(f"received {stats.received:,} = processed {stats.processed:,} + shed {stats.shed:,}")
        if stats.last is not None:
            print(f"mean waiting time in the last batch: {stats.last.waiting_ms:,.0f} ms")
        operator.close()
        if stats.shed:
            replay(spark, spill, folder)
    spark.stop()


def replay(spark: SparkSession, spill: str, folder: str) -> None:
    """Process the shed records, now that the burst is over."""
    late = penstock.replay(spark, spill)
    query = (
        late.writeStream.format("memory")
        .queryName("late")
        .option("checkpointLocation", f"{folder}/late")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"replayed {spark.table('late').count():,} records; VIPs among them: ", end="")
    print(spark.table("late").where("vip").count())


if __name__ == "__main__":
    main()
