"""Let the number of executors follow the load: more before they are needed, fewer when idle.

The work comes in waves of two minutes: of a steady stream of orders, a changing share calls a slow
service. `penstock.attach` watches the query, and adds and removes executors. It works for any
query, also for one without a balanced operator.

    python examples/scale_waves.py               # starts its own cluster
    python examples/scale_waves.py --master spark://host:7077 --executors 1 8
    python examples/scale_waves.py --dry-run     # prints the plans, and changes nothing
    python examples/scale_waves.py --quick       # two executors at most, a few seconds
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from rich.console import Console

import penstock
from penstock.spark.lab import StandaloneCluster


def call_service(order: dict) -> dict:
    """Call a slow service; here a sleep stands for it."""
    time.sleep(0.04)
    return {"order": order["value"]}


def main() -> None:
    """Run the query for a while, and print the state every ten seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--master", help="master of a cluster; by default the job starts one")
    parser.add_argument(
        "--executors",
        type=int,
        nargs=2,
        default=(1, 4),
        metavar=("MIN", "MAX"),
        help="least and largest number of executors",
    )
    parser.add_argument("--seconds", type=float, default=240, help="length of the run")
    parser.add_argument("--dry-run", action="store_true", help="print plans, change nothing")
    parser.add_argument("--quick", action="store_true", help="10 seconds, at most two executors")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.executors = 10, (1, 2)
    # Workers on this machine use the Python of this job.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with contextlib.ExitStack() as stack:
        master = args.master
        if master is None:
            print("starting a cluster ...")
            master = stack.enter_context(StandaloneCluster(workers=args.executors[1])).url
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        spark = (
            SparkSession.builder.master(master)
            .appName("scale-waves")
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
    """Start the query, attach to it, and print its state until the time is over."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 64).load()
    # The rate source is steady, so here the mean cost of a record rises and falls. With your own
    # source the scaler also forecasts the rate of records.
    share = 0.6 - 0.4 * sf.cos(sf.unix_timestamp("timestamp") * 2 * sf.pi() / 120)
    orders = ticks.filter((sf.abs(sf.hash("value")) % 1000) / 1000 < share)
    operator = penstock.balance(
        call_service, key="value", schema="order long", instances=args.executors[1]
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
        time.sleep(min(10, args.seconds / 2))
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
