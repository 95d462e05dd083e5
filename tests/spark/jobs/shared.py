"""Helpers that the jobs share.

Executors cannot import this module. A function that runs there is therefore made inside of another
one, so that Spark ships the function itself.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from flows import NUMBERED, TIMED, drop, moody, source, unwanted

import penstock

__all__ = [
    "NUMBERED",
    "TIMED",
    "counts",
    "drop",
    "held_up",
    "keep_totals",
    "sheds_moodily",
    "source",
    "start_to_parquet",
    "totals",
    "two_files_a_batch",
    "until",
    "unwanted",
    "write_json",
    "write_text",
]

WAIT_S = 300


def start_to_parquet(frame, place, checkpoint="checkpoint", trigger="0 seconds"):
    """Start a query that writes Parquet files to the folder `out`."""
    return (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(place / checkpoint))
        .trigger(processingTime=trigger)
        .start(str(place / "out"))
    )


def totals(before_update, instances):
    """An aggregation of the records and their sum by entity.

    Args:
        before_update: function that is called with each record before it is added.
        instances: number of instances.
    """

    def add(state, record):
        before_update(record)
        return state[0] + 1, state[1] + record["n"]

    return penstock.aggregate(
        key="entity",
        zero=lambda: (0, 0),
        update=add,
        merge=lambda state, other: (state[0] + other[0], state[1] + other[1]),
        finish=lambda state: {"records": state[0], "total": state[1]},
        schema="records long, total long",
        instances=instances,
        name="totals",
    )


def keep_totals(folder):
    """A sink that writes the changed totals of each batch to a file, complete or not at all."""
    folder.mkdir(exist_ok=True)

    def keep(rows, number):
        write_json(
            folder / f"{number:03}",
            {row.entity: [row.records, row.total] for row in rows.collect()},
        )

    return keep


def held_up(place, number, *, mark, until):
    """A function that holds up the record with a number until there is a file.

    The file `mark` then has the process of the Python worker.
    """

    def hold(record):
        if record["n"] == number:
            hidden = place / f".stuck-{os.getpid()}"
            hidden.write_text(str(os.getpid()))
            hidden.rename(place / mark)
            while not (place / until).exists():
                time.sleep(0.02)

    return hold


def sheds_moodily(place, stuck):
    """An operator that sheds into a folder; the record `stuck` waits for the file `go`.

    The start of a batch decides which records are shed.
    """
    hold = held_up(place, stuck, mark="stuck", until="go")

    def work(record):
        hold(record)
        return record

    return penstock.balance(
        work,
        key="n",
        schema=TIMED,
        instances=3,
        name="careful",
        shed=moody(),
        arrival="ts",
        protect=f"n = {stuck}",
        spill=str(place / "spill"),
    )


def two_files_a_batch(spark, place):
    """A stream of the files in the folder `in`."""
    stream = spark.readStream.schema(TIMED).option("maxFilesPerTrigger", 2)
    return stream.json(str(place / "in"))


def counts(operator, *names):
    """The named fields of an operator's statistics."""
    stats = operator.stats()
    return {name: getattr(stats, name) for name in names}


def until(condition, state, wait_s=WAIT_S):
    """Wait for a condition; fail with the state if that takes too long."""
    end = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < end, state()
        time.sleep(0.1)


def write_json(path, found):
    """Write a value to a file that others see complete or not at all."""
    write_text(path, json.dumps(found))


def write_text(path, text):
    """Write a file that others see complete or not at all."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.rename(path)
