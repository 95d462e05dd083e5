"""What the tests of balanced operators share."""

import json
import os
from collections import Counter

WAIT_S = 120
NUMBERED = "entity string, n int"


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


def sunk(spark, place, name="out"):
    """What a stream has written."""
    return spark.read.parquet(str(place / name)).collect()
