"""Kafka in, Kafka out, on a real broker: counts by key, lag, and partitions that stand out."""

import json
import threading
import time
from collections import Counter

import pytest
from flows import WAIT_S, until
from jobs_of import finished, started
from jobs_of import until as job_until
from pyspark.sql import functions as sf

import penstock
from penstock.spark.lab import KafkaBroker
from penstock.spark.lab.kafka import add_connector
from penstock.spark.lab.kafka_jars import KafkaUnavailableError
from penstock.spark.lab.kafka_topics import Outgoing
from penstock.spark.lab.streams import partition_id

pytestmark = pytest.mark.spark

# Records of each partition: one partition has more than half of them.
UNEVEN = 130, 40, 40, 30


@pytest.fixture(scope="module")
def kafka(spark):
    """One broker for all tests of the file."""
    try:
        broker = KafkaBroker().start()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    try:
        add_connector(spark)
        yield broker
    finally:
        broker.stop()


def uneven(counts=UNEVEN):
    """Records in a known partition each: the key says which, the value is a number."""
    return [
        Outgoing(f"p{partition}-k{n % 5}", str(n), partition)
        for partition, count in enumerate(counts)
        for n in range(count)
    ]


def enriching():
    def enrich(record):
        number = int(record["number"])
        if number % 10 == 7:
            raise ValueError("a number that ends in 7")
        time.sleep(0.002)
        more = {"double": 2 * number, "task": partition_id()}
        return {"key": record["key"], "value": json.dumps({**record, **more})}

    return enrich


def read(spark, kafka, topic, **options):
    frame = spark.readStream.format("kafka").options(**kafka.options(topic), **options).load()
    return frame.select(
        frame.key.cast("string").alias("key"),
        frame.value.cast("string").alias("number"),
        "partition",
        "offset",
    )


def written(frame, kafka, topic, checkpoint):
    """Write all there is to a topic."""
    query = (
        frame.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.address)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    return query


def test_every_record_comes_out_or_is_a_dead_letter_and_repeats_are_recognised(
    spark, kafka, tmp_path
):
    for topic, partitions in {"in": 4, "out": 3, "dead": 1}.items():
        kafka.topics.create(topic, partitions)
    sent = uneven()
    kafka.topics.send("in", sent)
    errors = str(tmp_path / "errors")

    def run():
        operator = penstock.balance(
            enriching(),
            key="key",
            schema="key string, value string",
            instances=4,
            on_error="keep",
            errors=errors,
        )
        frame = read(spark, kafka, "in", maxOffsetsPerTrigger="120")
        query = written(frame.transform(operator), kafka, "out", tmp_path / "checkpoint")
        stats = operator.all_stats()
        operator.close()
        return query, stats

    _, (stats,) = run()
    failed = [one for one in sent if int(one.value) % 10 == 7]
    assert (stats.received, stats.failed) == (len(sent), len(failed))
    # One task reads the hot partition, and several tasks execute its records.
    values = [json.loads(one.value) for one in kafka.topics.read("out")]
    assert len({one["task"] for one in values if one["partition"] == 0}) > 1
    assert sum(one.records > 0 for one in stats.instances) > 1

    # A driver that dies between the write and its commit: Spark writes that batch again.
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    for file in (commits / str(last), commits / f".{last}.crc"):
        file.unlink(missing_ok=True)
    repeating, _ = run()
    repeated = sum(one.numInputRows for one in repeating.recentProgress)
    assert 0 < repeated < len(sent)

    values = [json.loads(one.value) for one in kafka.topics.read("out")]
    assert len(values) > len(sent) - len(failed)
    once = {(one["partition"], one["offset"]): one for one in values}
    assert Counter((one["key"], one["number"]) for one in once.values()) == Counter(
        (one.key, one.value) for one in sent if one not in failed
    )
    assert all(one["double"] == 2 * int(one["number"]) for one in once.values())

    dead = penstock.replay(spark, errors).select("key", sf.col("number").alias("value"))
    written(dead, kafka, "dead", tmp_path / "dead-checkpoint")
    letters = [(one.key.decode(), one.value.decode()) for one in kafka.topics.read("dead")]
    assert Counter(letters) == Counter((one.key, one.value) for one in failed)


def committed(folder):
    return [one.name for one in (folder / "commits").glob("*") if one.name.isdigit()]


@pytest.mark.long
def test_a_killed_driver_repeats_messages_and_the_reader_drops_them(spark, kafka, tmp_path):
    for topic in ("killed", "killed-out"):
        kafka.topics.create(topic, 2)
    sent = [Outgoing(f"k{n % 7}", str(n), n % 2) for n in range(200)]
    kafka.topics.send("killed", sent)
    arguments = tmp_path, kafka.address, "killed", "killed-out"
    with started("kafka", *arguments) as process:
        # The second batch waits for a record, while its other tasks have written theirs.
        job_until(
            lambda: sum(kafka.topics.ends("killed-out").values()) > 60,
            process,
            "kafka",
            tmp_path,
        )
        assert committed(tmp_path / "checkpoint") == ["0"]
    (tmp_path / "go").touch()
    finished("kafka", *arguments)
    assert sum(kafka.topics.ends("killed-out").values()) > len(sent)

    frame = spark.readStream.format("kafka").options(**kafka.options("killed-out")).load()
    answer = sf.from_json(
        frame.value.cast("string"), "key string, number string, partition int, offset long"
    )
    once = (
        frame.select("timestamp", answer.alias("answer"))
        .select("timestamp", "answer.*")
        .withWatermark("timestamp", "1 hour")
        .dropDuplicatesWithinWatermark(["partition", "offset"])
    )
    rows = []
    query = (
        once.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "reader"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    assert Counter((one.key, one.number) for one in rows) == Counter(
        (one.key, one.value) for one in sent
    )


class Gate:
    """A sink that lets batches pass one by one."""

    def __init__(self):
        self.rows = 0
        self._open = threading.Semaphore(0)

    def __call__(self, batch, number):
        self._open.acquire(timeout=WAIT_S)
        self.rows += batch.count()

    def open(self, batches=1):
        self._open.release(batches)


def test_lag_is_that_of_the_topic_while_it_grows(spark, kafka, tmp_path):
    kafka.topics.create("lag", 4)
    kafka.topics.send("lag", uneven())
    gate = Gate()
    query = (
        read(spark, kafka, "lag", maxOffsetsPerTrigger="60", minPartitions="6")
        .writeStream.foreachBatch(gate)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .queryName("lag")
        .start()
    )
    try:
        attached = penstock.attach(
            query, scale=penstock.scaling.Preventive(), dry_run=True, period="500 ms"
        )

        def unread():
            progress = query.lastProgress
            if progress is None or progress.sources[0].endOffset is None:
                return None
            end = json.loads(progress.json)["sources"][0]["endOffset"]["lag"]
            return sum(kafka.topics.ends("lag").values()) - sum(end.values())

        gate.open()
        until(lambda: gate.rows > 0 and unread() == attached.stats().behind)
        behind = attached.stats().behind
        assert behind == sum(UNEVEN) - gate.rows
        assert query.lastProgress.numInputRows == gate.rows <= 60

        def warned():
            return [one for one in attached.journal.entries() if one["kind"] == "warning"]

        until(warned)
        (named,) = warned()
        assert "partition 0 of topic lag gets 54% of the records" in named["reason"]

        # Two more partitions, which the query finds while it runs.
        kafka.topics.grow("lag", 6)
        kafka.topics.send("lag", [Outgoing("new", str(n), 4 + n % 2) for n in range(50)])
        gate.open(2)
        until(lambda: attached.stats().behind == unread() == sum(UNEVEN) + 50 - gate.rows)
        assert attached.stats().lag_s > 0
        gate.open(100)
        until(lambda: gate.rows == sum(UNEVEN) + 50 and attached.stats().behind == 0)
        assert attached.stats().lag_s == 0
        assert attached.stats().failures == 0
    finally:
        gate.open(100)
        query.stop()
