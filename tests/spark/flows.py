"""What the tests of balanced operators share."""

import contextlib
import json
import os
import time
from collections import Counter

import numpy as np
from pyspark.sql import functions as sf

from penstock.shedding import Shedder

WAIT_S = 400
NUMBERED = "entity string, n int"
TIMED = "entity string, n int, ts timestamp, priority string"
OLD = "2020-01-01T00:00:00Z"


def until(condition):
    """Wait until a condition holds, and return what it has returned."""
    end_s = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def configured(spark, settings):
    """Other settings of a session for some time."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def bag(rows):
    """Records as a multiset, whatever their types."""
    return Counter(repr(row) for row in rows)


def numbered(spark, records, entities=7, partitions=3):
    """Records 0, 1, 2, ... of some entities."""
    frame = spark.range(0, records, 1, partitions)
    return frame.selectExpr(f"concat('e', id % {entities}) AS entity", "int(id) AS n")


def drop(folder, *files, start=0):
    """Write lists of records as JSON files, each newer than the one before."""
    folder.mkdir(exist_ok=True)
    for number, records in enumerate(files, start):
        path = folder / f"{number:03}.json"
        hidden = folder / f".{number:03}.json"
        hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(path)


def some_files(files=3, records=20, entities=4, start=0):
    """Lists of records: the same entities in each, every number once."""
    return [
        [{"entity": f"e{n % entities}", "n": n} for n in range(i * records, (i + 1) * records)]
        for i in range(start, start + files)
    ]


def timed_files(files=3, records=20, entities=4, start=0, ts=OLD):
    """As `some_files`, with times of arrival long ago and priorities high, low and none."""
    priorities = ("high", "low", None)
    return [
        [{**one, "ts": ts, "priority": priorities[one["n"] % 3]} for one in records_of_file]
        for records_of_file in some_files(files, records, entities, start)
    ]


def hash_of(spark, *values, kind="string"):
    """The hashes by which policies know keys."""
    frame = spark.createDataFrame([(value,) for value in values], f"value {kind}")
    return np.array([row[0] for row in frame.select(sf.xxhash64("value")).collect()])


def unwanted(spark, *keys, kind="string"):
    """A shedder that sheds some keys, whatever the load is."""

    # Inside of a function, so that executors get the class itself.
    class Unwanted(Shedder):
        def __init__(self, hashes, instances=1):
            super().__init__(instances)
            self.hashes = hashes

        def admit(self, keys, arrival_ms, now_ms=None, protected=None):
            admitted = ~np.isin(keys, self.hashes)
            return admitted if protected is None else admitted | protected

    return Unwanted(hash_of(spark, *keys, kind=kind))


def moody():
    """A shedder that sheds other records at any other time."""

    class Moody(Shedder):
        def admit(self, keys, arrival_ms, now_ms=None, protected=None):
            seed = int(np.max(now_ms, initial=0)) if now_ms is not None else 0
            drawn = np.random.default_rng(seed).random(len(keys)) < 0.5
            return drawn if protected is None else drawn | protected

    return Moody()


def source(spark, folder, schema=NUMBERED):
    """A stream of the folder's files, one in each batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def run(frame, place, name="out"):
    """Stream into Parquet until nothing is left; return the query."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(place / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / name))
    )
    try:
        assert query.awaitTermination(WAIT_S)
    finally:
        query.stop()
    return query


def saved_files(checkpoint, name, kind="snapshot"):
    """The files that an operator has saved next to a checkpoint, the newest last."""
    found = (checkpoint / "penstock").glob(f"{name}.{kind}.*")
    return sorted(found, key=lambda file: int(file.suffix[1:]))


def sunk(spark, place, name="out"):
    """What a stream has written."""
    return spark.read.parquet(str(place / name)).collect()
