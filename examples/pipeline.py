"""From Kafka to Kafka in one command: broker, generator, cluster, query, and an exact account.

A generator sends orders with a changing rate, hot customers and heavy-tailed costs to a topic; in
the middle third of the run it sends four times as many. The query keeps a waiting time with
`penstock.shed` and `penstock.replay`, by Kafka's timestamps. It looks up each order with
`penstock.balance` (async, dead letters), and sums up orders by customer and window with
`penstock.aggregate`. The sums go to a second topic. `penstock.attach` scales the executors and
places the state. In the middle of the run an executor is killed. At the end the topics are compared
by customer and window.

    python examples/pipeline.py --seconds 60            # starts a broker and a cluster
    python examples/pipeline.py --watch                 # with a live page
    python examples/pipeline.py --master 'local[4]'     # one process; plans are only printed
    python examples/pipeline.py --quick                 # 6 seconds, in one process

It needs Java, Maven (which fetches Kafka once) and `pip install '.[kafka]'`.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from pipeline_data import DEAD, ORDERS, SUMS, WINDOW_S, Account, Generator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
from penstock.errors import PenstockError
from penstock.spark.lab import KafkaBroker, StandaloneCluster
from penstock.spark.lab.kafka_jars import connector_jars
from penstock.spark.routed import RoutedOperator

PARTITIONS = 8
EXECUTORS = 4
KEY_GROUPS = 8
# Time in which everything that was shed must have been answered after the last order.
PATIENCE_S = 300


async def look_up(order: dict) -> dict:
    """Ask a slow service about an order; here a sleep stands for it."""
    if order["cost_ms"] is None:
        raise ValueError("an order without a cost")
    await asyncio.sleep(order["cost_ms"] / 1000)
    return {name: order[name] for name in ("customer", "number", "ordered")}


def orders_of(spark: SparkSession, kafka: KafkaBroker) -> DataFrame:
    """Return the stream of orders, with Kafka's timestamps as their times.

    A shed order arrives again when it is replayed, but it was ordered once.
    """
    reader = spark.readStream.format("kafka").options(**kafka.options(ORDERS))
    frame = reader.option("maxOffsetsPerTrigger", 5_000).load()
    order = sf.from_json(frame.value.cast("string"), "customer string, number long, cost_ms double")
    return frame.select(
        frame.timestamp.alias("arrived"), frame.timestamp.alias("ordered"), order.alias("order")
    ).select("arrived", "ordered", "order.*")


def shedding(folder: Path, target: str) -> RoutedOperator:
    """Return the operator that keeps the waiting time: orders that would wait too long go aside."""
    return penstock.shed(
        penstock.shedding.sliding_average(target),
        arrival="arrived",
        protect="replayed",  # an order is shed once at most
        # As a URL: all executors of this job see the folder.
        spill=(folder / "shed").as_uri(),
    )


def looking_up(folder: Path) -> RoutedOperator:
    """Return the operator that looks up orders, two at a time in each task."""
    return penstock.balance(
        look_up,
        key="customer",
        schema="customer string, number long, ordered timestamp",
        instances=EXECUTORS,
        concurrency=2,
        timeout="10 s",
        on_error="keep",
        errors=(folder / "errors").as_uri(),
    )


def summed() -> RoutedOperator:
    """Return the operator that counts orders and adds up their numbers, by customer and window."""
    return penstock.aggregate(
        key="customer",
        window=sf.window("ordered", f"{WINDOW_S} seconds"),
        schema="orders long, numbers long",
        zero=lambda: [0, 0],
        update=lambda state, order: [state[0] + 1, state[1] + order["number"]],
        merge=lambda one, other: [one[0] + other[0], one[1] + other[1]],
        finish=lambda state: {"orders": state[0], "numbers": state[1]},
        name="sums",
        instances=EXECUTORS,
    )


def to_topic(frame: DataFrame, kafka: KafkaBroker, topic: str, *, checkpoint: Path) -> object:
    """Return a writer of key and value to a topic."""
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    return writer.option("topic", topic).option("checkpointLocation", str(checkpoint))


class Run:
    """One run of the pipeline.

    Args:
        spark: session with Kafka's connector.
        kafka: broker that runs.
        args: command line.
        folder: folder for checkpoints, shed and failed records.
        cluster: cluster of which an executor is killed; None for another master.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaBroker,
        *,
        args: argparse.Namespace,
        folder: Path,
        cluster: StandaloneCluster | None,
    ) -> None:
        self.spark, self.kafka, self.folder, self.cluster = spark, kafka, folder, cluster
        self.kill_s = args.seconds / 2
        self.killed = self.moved = 0
        self.watched = args.watch
        self.generator = Generator(kafka, args.seconds, args.rate)
        self.shedder = shedding(folder, args.target)
        self.operator = looking_up(folder)
        self.lags: list[tuple[float, float, int]] = []
        self._dry_run = str(spark.sparkContext.master).startswith("local")

    def go(self) -> None:
        """Run the query until every order is answered, then write the dead letters."""
        live = orders_of(self.spark, self.kafka).withColumn("replayed", sf.lit(False))
        # Shed orders come back when the shedder has slack, as if they had just arrived.
        late = penstock.replay(
            self.spark,
            (self.folder / "shed").as_uri(),
            when=self.shedder,
            arrival="arrived",
            schema=live.schema,
        )
        late = late.withColumn("replayed", sf.lit(True))
        admitted = live.unionByName(late).transform(self.shedder)
        looked_up = admitted.transform(self.operator).withWatermark("ordered", "1 hour")
        sums = looked_up.transform(summed())
        start = sf.unix_millis("window.start").alias("start_ms")
        value = sf.to_json(sf.struct("orders", "numbers", start)).alias("value")
        # The sink is at least once. The newest sum of a window counts, so repeats change nothing.
        writer = to_topic(
            sums.select(sf.col("customer").alias("key"), value),
            self.kafka,
            SUMS,
            checkpoint=self.folder / "checkpoint",
        )
        query = (
            writer.queryName("sums").outputMode("update").trigger(processingTime="1 second").start()
        )
        attached = penstock.attach(
            query,
            scale=penstock.scaling.Preventive(min_executors=1, max_executors=EXECUTORS),
            place=penstock.placement.Albic(max_migrations=2),
            period="5 s",
            dry_run=self._dry_run,
            journal=self.folder / "journal.jsonl",
            dashboard=self.watched,
        )
        if attached.dashboard is not None:
            print(f"live page: {attached.dashboard.url}", flush=True)
        try:
            self.generator.start()
            self._watch(query, attached)
        finally:
            query.stop()
        dead = penstock.replay(self.spark, (self.folder / "errors").as_uri(), schema=live.schema)
        letters = dead.select(
            sf.col("customer").alias("key"), sf.col("number").cast("string").alias("value")
        )
        writer = to_topic(letters, self.kafka, DEAD, checkpoint=self.folder / "dead")
        writer.trigger(availableNow=True).start().awaitTermination()

    def answered(self) -> int:
        """Return the number of orders that were looked up, or that are dead letters."""
        return sum(one.processed + one.failed for one in self.operator.all_stats())

    def _watch(self, query: object, attached: object) -> None:
        """Print the state until every order is answered; kill an executor in the middle."""
        end_s, began_s = None, time.monotonic()
        while query.isActive:
            time.sleep(1.0)
            now = attached.stats()
            self.moved = now.moved
            if self.cluster and not self.killed and time.monotonic() > began_s + self.kill_s:
                os.kill(self.cluster.executor_processes()[0], signal.SIGKILL)
                self.killed = 1
                print("an executor is killed", flush=True)
            # Lag is unknown until the first batch has ended.
            self.lags.append((np.nan_to_num(now.behind), np.nan_to_num(now.lag_s), now.executors))
            sent = len(self.generator.sent)
            shed = sum(one.shed for one in self.shedder.all_stats())
            print(
                f"sent {sent:6,}  answered {self.answered():6,}  shed so far {shed:5,}  "
                f"behind {now.behind:5,.0f} ({now.lag_s:.1f} s)  executors {now.executors}",
                flush=True,
            )
            if not self.generator.is_alive():
                end_s = end_s or time.monotonic() + PATIENCE_S
                if self.answered() >= sent or time.monotonic() > end_s:
                    # A batch without records commits the sums of the last one.
                    query.processAllAvailable()
                    return
        raise SystemExit(str(query.exception()))

    def page(self) -> bool:
        """Print what arrived and what came out; return whether the account is exact."""
        account = Account(self.kafka, self.generator.sent)
        differences = account.differences()
        self._print_numbers(account)
        print("\n".join(differences[:20]))
        print("account: exact" if not differences else f"account: {len(differences)} differences")
        return not differences

    def _print_numbers(self, account: Account) -> None:
        shed = sum(one.shed for one in self.shedder.all_stats())
        summed_up = sum(one["orders"] for one in account.newest.values())
        customers = Counter()
        for (customer, _), orders in account.expected["orders"].items():
            customers[customer] += orders
        hot, most = customers.most_common(1)[0]
        behind, lag_s, executors = (max(column) for column in zip(*self.lags, strict=True))
        ends = self.kafka.topics.ends(ORDERS)
        print(
            f"\norders sent                {len(self.generator.sent):8,}"
            f"\nsummed up                  {summed_up:8,}"
            f"\ndead letters               {len(account.letters):8,}"
            f"\nshed, and replayed later   {shed:8,}"
            f"\ncustomers                  {len(customers):8,}   ({hot} has {most:,} orders)"
            f"\nsums of windows            {len(account.newest):8,}"
            f"\nfullest partition          {max(ends.values()):8,}   (mean "
            f"{sum(ends.values()) / len(ends):,.0f})"
            f"\nlargest lag                {behind:8,.0f}   ({lag_s:.1f} s)"
            f"\nmost executors             {executors:8,}   ({self.killed} killed)"
            f"\nkey groups moved           {self.moved:8,}"
        )


def session(master: str) -> SparkSession:
    """Start a session with Kafka's connector; a job of yours has `spark.jars.packages`."""
    spark = (
        SparkSession.builder.master(master)
        .appName("pipeline")
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", str(EXECUTORS))
        .config("spark.sql.shuffle.partitions", str(KEY_GROUPS))
        .config("spark.python.daemon.module", "penstock.spark.executor.daemon")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> int:
    """Run the pipeline, and print the account."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--master", help="master of the job; by default it starts a cluster")
    parser.add_argument("--seconds", type=float, default=180, help="length of the run")
    parser.add_argument("--rate", type=float, default=100, help="orders a second, but in the spike")
    parser.add_argument("--target", default="3 s", help="mean waiting time to hold")
    parser.add_argument("--watch", action="store_true", help="serve a live page")
    parser.add_argument("--quick", action="store_true", help="6 seconds, in one process")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.master, args.rate = 6, args.master or "local[4]", 60
    # Workers on this machine use the Python of this job.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        try:
            kafka = stack.enter_context(KafkaBroker())
        except PenstockError as error:
            raise SystemExit(str(error)) from None
        for topic, partitions in {ORDERS: PARTITIONS, SUMS: PARTITIONS, DEAD: 1}.items():
            kafka.topics.create(topic, partitions)
        master, cluster = args.master, None
        if master is None:
            cluster = stack.enter_context(StandaloneCluster(workers=EXECUTORS))
            master = cluster.url
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        spark = session(master)
        stack.callback(spark.stop)
        run = Run(spark, kafka, args=args, folder=Path(folder), cluster=cluster)
        run.go()
        return 0 if run.page() else 1


if __name__ == "__main__":
    sys.exit(main())
