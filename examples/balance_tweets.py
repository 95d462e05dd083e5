"""Enrich tweets by the entity they mention: the application of the POSG paper, on Spark.

Tweets that mention media cost 25 ms (a look-up of their history in a database), politicians 5 ms,
all others 1 ms. `penstock.balance` learns the cost of each entity, and routes tweets accordingly.

    python examples/balance_tweets.py                   # makes tweets, runs for half a minute
    python examples/balance_tweets.py --source FOLDER   # JSON lines with fields entity and text
    python examples/balance_tweets.py --rate 200        # Spark's rate source instead of files
    python examples/balance_tweets.py --quick           # three batches of 50 tweets
"""

import argparse
import json
import tempfile
import time
import zlib
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
from penstock.sim import Application

CLASSES = {"media": 0.025, "politicians": 0.005, "others": 0.001}
INSTANCES = 4


def classify(entity: str) -> str:
    """Return the class of an entity; here by a checksum, in the paper by a list of names."""
    at = zlib.crc32(entity.encode()) % 1000
    return "media" if at < 307 else "politicians" if at < 640 else "others"


def enrich(tweet: dict) -> dict:
    """Do the expensive part: an ordinary function of one record."""
    kind = classify(tweet["entity"])
    time.sleep(CLASSES[kind])  # stands for the look-up
    return {"entity": tweet["entity"], "kind": kind, "length": len(tweet["text"])}


def make_tweets(folder: Path, files: int, tweets: int) -> None:
    """Write tweets whose entities are as frequent as in the paper."""
    keys = Application(records=files * tweets).stream(seed=1).keys.reshape(files, tweets)
    for number, entities in enumerate(keys):
        lines = (json.dumps({"entity": f"@user{e}", "text": f"about {e}"}) for e in entities)
        (folder / f"{number:04}.json").write_text("\n".join(lines))


def read(spark: SparkSession, args: argparse.Namespace, folder: Path) -> DataFrame:
    """Read a stream of tweets, one file a micro-batch."""
    if args.rate:
        ticks = spark.readStream.format("rate").option("rowsPerSecond", args.rate).load()
        entity = sf.concat(sf.lit("@user"), (sf.hash("value") % 1000).cast("string"))
        return ticks.select(entity.alias("entity"), sf.lit("hello").alias("text"))
    source = args.source or folder / "tweets"
    if not args.source:
        source.mkdir()
        files, tweets = (3, 50) if args.quick else (40, 500)
        make_tweets(source, files, tweets)
    stream = spark.readStream.schema("entity string, text string")
    return stream.option("maxFilesPerTrigger", 1).json(str(source))


def main() -> None:
    """Run the job for a while, and print the number of tweets of each class."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, help="folder of JSON lines")
    parser.add_argument("--rate", type=int, help="records a second of Spark's rate source")
    parser.add_argument("--seconds", type=float, default=30, help="length of the run")
    parser.add_argument("--quick", action="store_true", help="make few tweets, end after them")
    args = parser.parse_args()
    spark = (
        SparkSession.builder.master(f"local[{INSTANCES}]")
        .appName("tweets")
        .config("spark.sql.shuffle.partitions", str(INSTANCES))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as name:
        # Any streaming DataFrame will do, from Kafka as well as from files.
        tweets = read(spark, args, Path(name))
        # Penstock needs only the function, the key that drives its cost, and its result schema.
        operator = penstock.balance(
            enrich,
            key="entity",
            schema="entity string, kind string, length int",
            instances=INSTANCES,
        )
        # The result is an ordinary stream: aggregate it, join it, write it anywhere.
        kinds = tweets.transform(operator).groupBy("kind").count()
        query = (
            kinds.writeStream.outputMode("complete")
            .format("memory")
            .queryName("kinds")
            .option("checkpointLocation", f"{name}/checkpoint")
            .start()
        )
        # A live view: busy time of each task, and the expected cost of its records.
        if args.quick:
            query.processAllAvailable()
        operator.watch(0 if args.quick else args.seconds)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        spark.table("kinds").show()
        query.stop()
        operator.close()


if __name__ == "__main__":
    main()
