"""A streaming job from topic to topic that carries partition and offset along.

Arguments: the folder to work in, the address of the broker, the topics to read and to write.
Until there is a file `go`, the record with the number 100 waits.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import functions as sf

import penstock
from penstock.spark.lab import session
from penstock.spark.lab.kafka_jars import connector_jars

place, address, source, sink = Path(sys.argv[1]), *sys.argv[2:5]


def work(record):
    while record["number"] == "100" and not (place / "go").exists():
        time.sleep(0.05)
    return {"key": record["key"], "value": json.dumps(record)}


spark = session("local[2]", "penstock-test-kafka", spark__jars=",".join(map(str, connector_jars())))
reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
records = reader.option("maxOffsetsPerTrigger", 60).load()
records = records.select(
    sf.col("key").cast("string").alias("key"),
    sf.col("value").cast("string").alias("number"),
    "partition",
    "offset",
)
operator = penstock.balance(work, key="key", schema="key string, value string", instances=2)
writer = records.transform(operator).writeStream.format("kafka")
query = (
    writer.option("kafka.bootstrap.servers", address)
    .option("topic", sink)
    .option("checkpointLocation", str(place / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
