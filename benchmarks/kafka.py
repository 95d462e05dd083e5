"""How much does one hot partition of a Kafka topic cost, and what does `balance` give back?

One partition of eight holds half of the records, and there are eight slots. Costs are heavy-tailed
(`penstock.sim.HeavyTailed`); records sleep, so this is latency-bound. Spark reads a partition by
one task. Spark, Spark with `repartition`, and Penstock process the same records, into a topic.
Throughput is that of a full topic. Latency is from Kafka's timestamp of the input to that of the
output, for records that arrive at a share of plain Spark's throughput.

A second part has narrow records and two slots: Spark and Penstock process batches of 100,000
records with the same function of Arrow batches, which does nothing, from topic to topic.

    python benchmarks/kafka.py
    python benchmarks/kafka.py --records 16000 --seconds 60
    python benchmarks/kafka.py --only narrow
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from rich.console import Console

import penstock
from common import Goal, Options, at_least, at_most, goal_columns, new_table, write_report
from penstock.sim import HeavyTailed
from penstock.spark.lab import KafkaBroker, session
from penstock.spark.lab.kafka_jars import connector_jars
from penstock.spark.lab.kafka_topics import Outgoing
from penstock.spark.lab.streams import DataFrame, SparkSession
from penstock.spark.routed import RoutedOperator

PARTITIONS = 8
PLAIN, PENSTOCK = "Spark", "Penstock"
SCHEMA = "key string, value string"
ARROW = pa.schema([("key", pa.string()), ("value", pa.string())])
GOALS: dict[str, Goal] = {
    "throughput, Penstock / Spark": at_least(2.0),
    "p99 latency, Penstock / Spark": at_most(0.5),
}
NARROW_GOALS: dict[str, Goal] = {
    "narrow records/s, Penstock": at_least(100_000),
    "time of a narrow batch, Penstock / Spark": at_most(1.1),
}
NARROW_SLOTS = 2
# Share of plain Spark's throughput at which records arrive, so that it keeps up.
SHARE = 0.8
TICK_S = 0.1
WAIT_S = 600.0

Way = Callable[[DataFrame], DataFrame]


def execute(record: dict) -> dict:
    """Execute a record: sleep for its cost."""
    order = json.loads(record["value"])
    time.sleep(order["cost_ms"] / 1000)
    value = {"number": order["number"], "arrived_ms": record["arrived_ms"]}
    return {"key": record["key"], "value": json.dumps(value)}


def plain(frame: DataFrame) -> DataFrame:
    """Execute records where they are."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([execute(one) for one in batch.to_pylist()], ARROW)

    return frame.mapInArrow(run, SCHEMA)


def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Pass narrow records on."""
    return batch


def plain_narrow(frame: DataFrame) -> DataFrame:
    """Pass narrow records on where they are."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield narrow(batch)

    return frame.select("key", "value").mapInArrow(run, SCHEMA)


def repartitioned(slots: int) -> Way:
    return lambda frame: plain(frame.repartition(slots))


def balanced(slots: int) -> Way:
    return penstock.balance(execute, key="key", schema=SCHEMA, instances=slots)


@contextmanager
def used(way: Way) -> Iterator[Way]:
    """Close an operator after its use, while its checkpoint is still there."""
    yield way
    if isinstance(way, RoutedOperator):
        way.close()


class Trials:
    """Runs of the same records in several ways.

    Args:
        spark: session with Kafka's connector.
        kafka: broker that runs.
        slots: number of slots.
        folder: folder for checkpoints.
    """

    def __init__(
        self, spark: SparkSession, kafka: KafkaBroker, *, slots: int, folder: Path
    ) -> None:
        self._spark, self._kafka, self._folder = spark, kafka, folder
        self.ways: dict[str, Callable[[], Way]] = {
            PLAIN: lambda: plain,
            f"Spark, repartition({slots})": lambda: repartitioned(slots),
            PENSTOCK: lambda: balanced(slots),
        }
        self._numbers = count()

    def topic(self, kind: str) -> str:
        """Make a topic."""
        name = f"{kind}-{next(self._numbers)}"
        self._kafka.topics.create(name, PARTITIONS)
        return name

    def start(self, way: Way, source: str, sink: str, *, per_batch: int | None) -> object:
        """Start a query that reads all there is in batches of a size; for ever without a size."""
        reader = self._spark.readStream.format("kafka").options(**self._kafka.options(source))
        if per_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", per_batch)
        frame = reader.load().select(
            sf.col("key").cast("string").alias("key"),
            sf.col("value").cast("string").alias("value"),
            sf.unix_millis("timestamp").alias("arrived_ms"),
        )
        writer = (
            way(frame)
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self._kafka.address)
            .option("topic", sink)
            .option("checkpointLocation", str(self._folder / sink))
        )
        return (writer.trigger(availableNow=True) if per_batch is not None else writer).start()

    def throughput(self, name: str, records: list[Outgoing], *, batches: int) -> float:
        """Return records a second of a full topic, after the batches in which costs are learnt."""
        source, sink = self.topic("full"), self.topic("full-out")
        self._kafka.topics.send(source, records)
        with used(self.ways[name]()) as way:
            query = self.start(way, source, sink, per_batch=-(-len(records) // batches))
            assert query.awaitTermination(WAIT_S), name
        self._check(sink, len(records))
        settled = [one for one in query.recentProgress if one.numInputRows][batches // 3 :]
        rows = sum(one.numInputRows for one in settled)
        return 1000 * rows / sum(one.durationMs["triggerExecution"] for one in settled)

    def latencies_ms(self, name: str, records: list[Outgoing], *, rate: float) -> np.ndarray:
        """Return the latencies of records that arrive at a rate, but of the first third."""
        source, sink = self.topic("paced"), self.topic("paced-out")
        sender = threading.Thread(target=self._send, args=(source, records, rate))
        with used(self.ways[name]()) as way:
            query = self.start(way, source, sink, per_batch=None)
            sender.start()
            end_s = time.monotonic() + WAIT_S
            while sum(self._kafka.topics.ends(sink).values()) < len(records):
                assert query.isActive and time.monotonic() < end_s, name
                time.sleep(0.2)
            sender.join()
            query.stop()
        found = self._check(sink, len(records))
        late = [ms for number, ms in found.items() if number >= len(records) // 3]
        return np.array(late)

    def _send(self, topic: str, records: list[Outgoing], rate: float) -> None:
        began_s, sent = time.monotonic(), 0
        while sent < len(records):
            due = min(len(records), int((time.monotonic() - began_s) * rate))
            self._kafka.topics.send(topic, records[sent:due])
            sent = due
            time.sleep(TICK_S)

    def _check(self, sink: str, records: int) -> dict[int, float]:
        """Return the latency of each record; every record has come out once."""
        found = {}
        messages = self._kafka.topics.read(sink)
        for one in messages:
            value = json.loads(one.value or b"")
            found[value["number"]] = one.timestamp_ms - value["arrived_ms"]
        assert len(messages) == len(found) == records
        return found


def uneven(records: int, seed: int) -> list[Outgoing]:
    """Return records of which one partition gets half."""
    stream = HeavyTailed(records=records, distinct=500).stream(seed)
    random = np.random.default_rng(seed)
    hot = random.random(records) < 0.5
    partitions = np.where(hot, 0, random.integers(1, PARTITIONS, records))
    rows = zip(stream.keys.tolist(), stream.costs_ms.tolist(), partitions.tolist(), strict=True)
    return [
        Outgoing(f"k{key}", json.dumps({"number": number, "cost_ms": cost_ms}), partition)
        for number, (key, cost_ms, partition) in enumerate(rows)
    ]


def fill(spark: SparkSession, kafka: KafkaBroker, topic: str, *, records: int) -> None:
    """Fill a topic with narrow records, by Spark."""
    frame = spark.range(records).selectExpr("string(id % 1000) AS key", "string(id) AS value")
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    writer.option("topic", topic).save()


def narrow_batches(kafka: KafkaBroker, folder: Path, *, batch: int, batches: int) -> dict:
    """Return records a second of narrow records, by way; the first half warms up."""
    spark = session(f"local[{NARROW_SLOTS}]", "penstock-kafka-narrow", spark__jars=jars())
    trials = Trials(spark, kafka, slots=NARROW_SLOTS, folder=folder)
    source = trials.topic("narrow")
    fill(spark, kafka, source, records=batch * batches)
    found = {}
    operator = penstock.balance(narrow, key="key", schema=SCHEMA, instances=NARROW_SLOTS)
    ways: dict[str, Way] = {
        PLAIN: plain_narrow,
        PENSTOCK: lambda frame: frame.select("key", "value").transform(operator),
    }
    for name, way in ways.items():
        sink = trials.topic("narrow-out")
        query = trials.start(way, source, sink, per_batch=batch)
        assert query.awaitTermination(WAIT_S), name
        assert sum(kafka.topics.ends(sink).values()) == batch * batches
        settled = [one for one in query.recentProgress if one.numInputRows][batches // 2 :]
        taken_s = [one.durationMs["triggerExecution"] / 1000 for one in settled]
        found[name] = float(settled[0].numInputRows / np.median(taken_s))
    operator.close()
    spark.stop()
    return found


def hot_partition(kafka: KafkaBroker, folder: Path, args: argparse.Namespace) -> tuple:
    """Return throughput and latencies of all ways, and the rate of the latencies."""
    spark = session(f"local[{args.slots}]", "penstock-kafka", spark__jars=jars())
    trials = Trials(spark, kafka, slots=args.slots, folder=folder)
    full = uneven(args.records, seed=0)
    per_s = {one: trials.throughput(one, full, batches=args.batches) for one in trials.ways}
    rate = SHARE * per_s[PLAIN]
    paced = uneven(max(30, int(rate * args.seconds)), seed=1)
    late_ms = {one: trials.latencies_ms(one, paced, rate=rate) for one in trials.ways}
    spark.stop()
    return per_s, late_ms, rate


def jars() -> str:
    return ",".join(map(str, connector_jars()))


def main() -> None:
    options = Options("kafka", __doc__)
    options.parser.add_argument("--only", choices=("hot", "narrow"), help="the only part to run")
    options.size("slots", 8, 2, meaning="number of slots")
    options.size("records", 8_000, 120, meaning="number of records of the full topic")
    options.size("batches", 12, 3, meaning="number of batches of the full topic")
    options.size("seconds", 45.0, 2.0, meaning="time for which records arrive")
    options.size("narrow", 100_000, 1_000, meaning="number of narrow records of a batch")
    args = options.parse()
    report: dict[str, object] = {}
    with KafkaBroker() as kafka, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if args.only != "narrow":
            per_s, late_ms, rate = hot_partition(kafka, Path(folder), args)
            show(per_s, late_ms, rate)
            ways = {name: {"per_s": per_s[name], "p99_ms": p99(late_ms[name])} for name in per_s}
            report = {"latency_bound": True, "rate_per_s": rate, "ways": ways}
        if args.only != "hot":
            report["narrow_per_s"] = found = narrow_batches(
                kafka, Path(folder), batch=args.narrow, batches=args.batches
            )
            show_narrow(found)
    write_report(args.json, report)


def show_narrow(per_s: dict[str, float]) -> None:
    """Print the goals of narrow records."""
    goals = new_table(
        f"Narrow records, {NARROW_SLOTS} slots (CPU-bound); Spark {per_s[PLAIN]:,.0f} records/s",
        ["number"],
        ["measured", "goal", "reached"],
    )
    measured = per_s[PENSTOCK], per_s[PLAIN] / per_s[PENSTOCK]
    for (name, goal), number in zip(NARROW_GOALS.items(), measured, strict=True):
        goals.add_row(name, f"{number:,.2f}", *goal_columns(goal, number))
    Console().print(goals)


def p99(late_ms: np.ndarray) -> float:
    return float(np.percentile(late_ms, 99))


def show(per_s: dict[str, float], late_ms: dict[str, np.ndarray], rate: float) -> None:
    """Print all ways, and the goals."""
    table = new_table(
        f"One partition of {PARTITIONS} has half of the records; latency at {rate:.0f} records/s",
        labels=("way",),
        numbers=("records/s", "median s", "p99 s"),
    )
    for name, found in late_ms.items():
        median, worst = np.percentile(found, [50, 99]) / 1000
        table.add_row(name, f"{per_s[name]:.0f}", f"{median:.2f}", f"{worst:.2f}")
    console = Console()
    console.print(table)
    measured = (
        per_s[PENSTOCK] / per_s[PLAIN],
        p99(late_ms[PENSTOCK]) / p99(late_ms[PLAIN]),
    )
    goals = new_table("Goals", ["number"], ["measured", "goal", "reached"])
    for (name, goal), number in zip(GOALS.items(), measured, strict=True):
        goals.add_row(name, f"{number:.2f}", *goal_columns(goal, number))
    console.print(goals)


if __name__ == "__main__":
    main()
