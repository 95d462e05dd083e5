"""A spike of four times the rate from Kafka: does the waiting time stay near its target?

On a standalone cluster with room for four executors, records arrive at a rate that one executor can
process, then at four times this rate for a minute, then as before. Costs are heavy-tailed and vary
within a key; records sleep, so this is latency-bound. Two runs of the same records: a plain query
that has all four executors from the beginning, and Penstock with shedding, replay and
`attach(scale=)`, which begins with one. A record waits from Kafka's timestamp until its function
starts. Shed records are answered later, and every record must come out once.

JVMs start fast in both runs, and tasks that read Kafka wait neither for more records nor for
executors that are being removed, unless `--defaults` is given.

    python benchmarks/kafka_spike.py
    python benchmarks/kafka_spike.py --rate 20 --only penstock
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from rich.console import Console

import penstock
from common import Goal, Options, at_most, goal_columns, new_table, write_report
from kafka_spike_load import SPIKE, Outcome, Spike
from penstock.spark.lab import KafkaBroker, StandaloneCluster, session
from penstock.spark.lab.jvms import share_classes
from penstock.spark.lab.kafka_jars import connector_jars
from penstock.spark.lab.kafka_topics import Outgoing
from penstock.spark.lab.streams import DataFrame, SparkSession

EXECUTORS, PARTITIONS = 4, 8
TICK_S = 0.1
TRIGGER = "1 second"
# Half a second by default: a task that reads few records waits for more, and its slot with it.
FETCH_WAIT_MS = 20
# 3 s by default: tasks that read Kafka wait so long for executors which are being removed.
SHORT_WAIT = {"spark__locality__wait": "500ms"}
# Time after the beginning of the spike in which the target may be missed.
GRACE_S = 20
# Times in which shed records should be answered, and after which they count as lost.
ANSWERED_S, PATIENCE_S = 300, 1_200
SCHEMA = "key string, value string"
ARROW = pa.schema([("key", pa.string()), ("value", pa.string())])
PLAIN, PENSTOCK = "plain", "penstock"
GOALS: dict[str, Goal] = {
    "worst second after the first 20 s, of the target": at_most(1.5),
    "seconds until all are answered": at_most(ANSWERED_S),
    "records lost or doubled": at_most(0),
}


def execute(record: dict) -> dict:
    """Execute a record: sleep for its cost."""
    started_ms = 1000 * time.time()
    order = json.loads(record["value"])
    time.sleep(order["cost_ms"] / 1000)
    value = {
        "number": order["number"],
        "sent_ms": record["sent_ms"],
        "started_ms": started_ms,
        "replayed": record["replayed"],
    }
    return {"key": record["key"], "value": json.dumps(value)}


def execute_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Execute all records of a task."""
    for batch in batches:
        yield pa.RecordBatch.from_pylist([execute(one) for one in batch.to_pylist()], ARROW)


class Run:
    """One run of the stream.

    Args:
        kafka: broker that runs.
        cluster: cluster for the application.
        load: load of the stream.
        target_s: mean waiting time to hold.
        defaults: whether Kafka and Spark wait as long as they do by default.
    """

    def __init__(
        self,
        kafka: KafkaBroker,
        cluster: StandaloneCluster,
        *,
        load: Spike,
        target_s: float,
        defaults: bool,
    ) -> None:
        self._kafka, self._cluster, self._load = kafka, cluster, load
        self._target_s, self._defaults = target_s, defaults
        self._records = load.records()
        self.began_ms = 0.0
        self.most_executors = EXECUTORS

    def of(self, name: str) -> Outcome:
        """Run the stream in one of both ways."""
        source, sink = f"{name}-in", f"{name}-out"
        for topic in (source, sink):
            self._kafka.topics.create(topic, PARTITIONS)
        spark = session(
            self._cluster.url,
            f"penstock-spike-{name}",
            spark__jars=",".join(map(str, connector_jars())),
            spark__executor__memory="512m",
            spark__executor__cores="1",
            spark__cores__max=str(EXECUTORS),
            spark__driver__host="127.0.0.1",
            spark__driver__bindAddress="127.0.0.1",
            spark__sql__shuffle__partitions=str(EXECUTORS),
            **({} if self._defaults else SHORT_WAIT),
        )
        start = {PLAIN: self._plain, PENSTOCK: self._penstock}[name]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            end = start(spark, source, sink=sink, folder=Path(folder))
            self._send(source, sink)
            end()
        spark.stop()
        return self._outcome(sink)

    def _stream(self, spark: SparkSession, source: str) -> DataFrame:
        reader = spark.readStream.format("kafka").options(**self._kafka.options(source))
        if not self._defaults:
            reader = reader.option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        frame = reader.load()
        return frame.select(
            sf.col("key").cast("string").alias("key"),
            sf.col("value").cast("string").alias("value"),
            sf.unix_millis("timestamp").alias("sent_ms"),
            sf.col("timestamp").alias("arrived"),
            sf.lit(False).alias("replayed"),
        )

    def _start(self, frame: DataFrame, sink: str, folder: Path) -> object:
        writer = frame.writeStream.format("kafka").option("topic", sink).queryName("answers")
        writer = writer.option("kafka.bootstrap.servers", self._kafka.address)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        return writer.trigger(processingTime=TRIGGER).start()

    def _plain(self, spark: SparkSession, source: str, *, sink: str, folder: Path) -> Callable:
        frame = self._stream(spark, source).repartition(EXECUTORS)
        query = self._start(frame.mapInArrow(execute_all, SCHEMA), sink, folder)
        return query.stop

    def _penstock(self, spark: SparkSession, source: str, *, sink: str, folder: Path) -> Callable:
        spill = (folder / "shed").as_uri()
        target = penstock.shedding.sliding_average(1000 * self._target_s)
        operator = penstock.balance(
            execute,
            key="key",
            schema=SCHEMA,
            instances=EXECUTORS,
            shed=penstock.shedding.LoadAware(target=target, keep="cheap"),
            arrival="arrived",
            protect="replayed",  # a record is shed once at most
            spill=spill,
        )
        live = self._stream(spark, source)
        late = penstock.replay(spark, spill, when=operator, arrival="arrived", schema=live.schema)
        both = live.unionByName(late.withColumn("replayed", sf.lit(True)))
        query = self._start(both.transform(operator), sink, folder)
        scaler = penstock.scaling.Preventive(
            min_executors=1, max_executors=EXECUTORS, utilization=0.9
        )
        attached = penstock.attach(query, scale=scaler, period="3 s")
        over = threading.Event()
        self.most_executors = 1

        def watch() -> None:
            while not over.wait(1.0):
                self.most_executors = max(self.most_executors, attached.stats().executors)

        threading.Thread(target=watch, daemon=True).start()

        def end() -> None:
            over.set()
            penstock.detach(query)
            query.stop()
            operator.close()

        return end

    def _send(self, source: str, sink: str) -> None:
        """Send all records, and wait until they are answered; the first one warms up."""
        self._kafka.topics.send(source, [Outgoing("warm", '{"number": -1, "cost_ms": 1}')])
        self._wait_for(sink, 1)
        began_s, sent = time.monotonic(), 0
        self.began_ms = 1000 * time.time()
        while sent < len(self._records):
            due = self._load.due(time.monotonic() - began_s)
            self._kafka.topics.send(source, self._records[sent:due])
            sent = due
            time.sleep(TICK_S)
        self._wait_for(sink, len(self._records) + 1)

    def _wait_for(self, sink: str, records: int) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while sum(self._kafka.topics.ends(sink).values()) < records:
            if time.monotonic() > end_s:
                return
            time.sleep(0.2)

    def _outcome(self, sink: str) -> Outcome:
        found = [(one.timestamp_ms, json.loads(one.value)) for one in self._kafka.topics.read(sink)]
        found = [(ended_ms, one) for ended_ms, one in found if one["number"] >= 0]
        numbers = np.array([one["number"] for _, one in found])
        once = np.bincount(numbers, minlength=len(self._records))
        return Outcome(
            sent_s=np.array([one["sent_ms"] - self.began_ms for _, one in found]) / 1000,
            waited_s=np.array([one["started_ms"] - one["sent_ms"] for _, one in found]) / 1000,
            ended_s=np.array([ended_ms - self.began_ms for ended_ms, _ in found]) / 1000,
            replayed=np.array([one["replayed"] for _, one in found], dtype=bool),
            wrong=int((once == 0).sum() + np.maximum(0, once - 1).sum()),
            most_executors=self.most_executors,
        )


def measured(one: Outcome, load: Spike, target_s: float) -> tuple[float, float, float]:
    """Return the numbers of the goals."""
    spike_end_s = load.calm_s + load.spike_s
    means_s = one.mean_by_second(load.calm_s + GRACE_S, load.length_s)
    worst = float(means_s.max()) / target_s
    spiked = one.sent_s < spike_end_s
    return worst, float(one.ended_s[spiked].max()) - spike_end_s, one.wrong


def show(found: dict[str, Outcome], load: Spike, target_s: float) -> None:
    """Print both runs, and the goals."""
    table = new_table(
        f"{load.rate:g} records/s, {SPIKE} times as many for {load.spike_s:g} s; target "
        f"{target_s:g} s (latency-bound)",
        labels=("run",),
        numbers=("records", "shed", "mean wait s", "p99 wait s", "worst second s", "executors"),
    )
    for name, one in found.items():
        live = one.waited_s[~one.replayed & (one.sent_s > load.calm_s)]
        table.add_row(
            name,
            f"{one.sent_s.size:,}",
            f"{int(one.replayed.sum()):,}",
            f"{live.mean():.2f}" if live.size else "all shed",
            f"{np.percentile(live, 99):.2f}" if live.size else "",
            f"{one.mean_by_second(load.calm_s, load.length_s).max():.2f}",
            str(one.most_executors),
        )
    Console().print(table)
    if PENSTOCK in found:
        goals = new_table("Goals", ["number"], ["measured", "goal", "reached"])
        numbers = measured(found[PENSTOCK], load, target_s)
        for (name, goal), number in zip(GOALS.items(), numbers, strict=True):
            goals.add_row(name, f"{number:.2f}", *goal_columns(goal, number))
        Console().print(goals)


def main() -> None:
    options = Options("kafka-spike", __doc__)
    options.parser.add_argument("--only", choices=(PLAIN, PENSTOCK), help="the only run to make")
    options.parser.add_argument(
        "--defaults", action="store_true", help="let Kafka and Spark wait as they do by default"
    )
    options.size("rate", 25.0, 10.0, meaning="records in a second, but in the spike")
    options.size("calm", 60.0, 3.0, meaning="seconds before the spike, and after it")
    options.size("spike", 60.0, 3.0, meaning="seconds of the spike")
    options.size("target", 3.0, 3.0, meaning="mean waiting time to hold, in seconds")
    args = options.parse()
    share_classes()
    # Workers of the cluster use the Python of this script.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    load = Spike(args.rate, args.calm, args.spike)
    found = {}
    with (
        KafkaBroker() as kafka,
        StandaloneCluster(workers=1, cores=EXECUTORS, memory_mb=3_072) as cluster,
    ):
        for name in [args.only] if args.only else [PLAIN, PENSTOCK]:
            Console().print(f"{name}: {load.length_s:g} s, and the time until all are answered")
            run = Run(
                kafka,
                cluster,
                load=load,
                target_s=args.target,
                defaults=args.defaults,
            )
            found[name] = run.of(name)
    Console().print("with the defaults of Kafka and Spark" if args.defaults else "with short waits")
    show(found, load, args.target)
    runs = {name: _report(one, load, args) for name, one in found.items()}
    write_report(
        args.json,
        {
            "latency_bound": True,
            "rate_per_s": args.rate,
            "defaults": args.defaults,
            "runs": runs,
        },
    )


def _report(one: Outcome, load: Spike, args: argparse.Namespace) -> dict[str, object]:
    return {
        "goals": measured(one, load, args.target),
        "shed": int(one.replayed.sum()),
        "mean_by_second_s": one.mean_by_second(0, load.length_s).tolist(),
        "executors": one.most_executors,
    }


if __name__ == "__main__":
    main()
