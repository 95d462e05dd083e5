"""Let executors follow a stream: more of them before it is too late, fewer when they are idle.

Orders come in waves of two minutes: a steady stream, of which more and then fewer have to ask a
slow service. `penstock.attach` watches the query and adds and removes executors; it
would do so for any query, also for one that has no balanced operator.

    python examples/scale.py                     # starts a cluster of its own
    python examples/scale.py --master spark://host:7077 --executors 1 8
    python examples/scale.py --dry-run           # only tells what it would do
"""

import argparse
import contextlib
import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from rich.console import Console

import penstock
from penstock.spark.lab import StandaloneCluster


def ask_service(order: dict) -> dict:
    """Stand for a call that takes a while."""
    time.sleep(0.04)
    return {"order": order["value"]}


def main() -> None:
    """Run the query for a while, and tell every ten seconds what is going on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", help="a cluster that can scale; one of its own by default")
    parser.add_argument("--executors", type=int, nargs=2, default=(1, 4), metavar=("MIN", "MAX"))
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--dry-run", action="store_true", help="watch only")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        master = args.master
        if master is None:
            print("starting a cluster ...")
            master = stack.enter_context(StandaloneCluster(workers=args.executors[1])).url
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        spark = (
            SparkSession.builder.master(master)
            .appName("scale")
            .config("spark.executor.memory", "512m")
            .config("spark.executor.cores", "1")
            .config("spark.cores.max", str(args.executors[1]))
            .config("spark.sql.shuffle.partitions", str(args.executors[1]))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        run(spark, args, folder)
        spark.stop()


def run(spark: SparkSession, args: argparse.Namespace, folder: str) -> None:
    """Start the query, attach to it, and show what follows."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 64).load()
    # The rate source is steady, so what a record costs on average comes and goes. With a source of
    # your own the scaler also forecasts how many come.
    share = 0.6 - 0.4 * sf.cos(sf.unix_timestamp("timestamp") * 2 * sf.pi() / 120)
    orders = ticks.filter((sf.abs(sf.hash("value")) % 1000) / 1000 < share)
    operator = penstock.balance(
        ask_service, key="value", schema="order long", instances=args.executors[1]
    )
    query = (
        orders.transform(operator)
        .writeStream.format("memory")
        .queryName("answers")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="2 seconds")
        .start()
    )
    attached = penstock.attach(
        query,
        scale=penstock.scaling.Preventive(
            min_executors=args.executors[0], max_executors=args.executors[1]
        ),
        dry_run=args.dry_run,
    )
    console = Console()
    end = time.monotonic() + args.seconds
    while query.isActive and time.monotonic() < end:
        time.sleep(10)
        now = attached.stats()
        console.print(
            f"{now.executors} executors ({now.wanted} wanted), {now.rate_per_s:.0f} records/s, "
            f"{now.pending:.0f} pending: {now.reason}"
        )
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    penstock.detach(query)
    query.stop()


if __name__ == "__main__":
    main()
