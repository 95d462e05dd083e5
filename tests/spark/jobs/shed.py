"""A stream whose operator sheds into a folder; a record can hold it up in the middle of a batch.

The record `stuck` waits until there is a file `go`; the file `stuck` has the process of its Python
worker. The start of a batch decides which records are shed.

Arguments: the folder to work in, the number of the record, the master.
"""

import sys
from pathlib import Path

from shared import TIMED, counts, held_up, moody, start_to_parquet, write_json

import penstock
from penstock.spark.lab import session

place, stuck, master = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
hold = held_up(place, stuck, mark="stuck", until="go")


def work(record):
    hold(record)
    return record


spark = session(
    master,
    "penstock-test-shed",
    spark__executor__memory="512m",
    spark__shuffle__io__retryWait="1s",
    spark__shuffle__io__maxRetries="1",
)
op = penstock.balance(
    work,
    key="n",
    schema=TIMED,
    instances=3,
    shed=moody(),
    arrival="ts",
    protect=f"n = {stuck}",
    spill=str(place / "spill"),
)
stream = spark.readStream.schema(TIMED).option("maxFilesPerTrigger", 2)
query = start_to_parquet(stream.json(str(place / "in")).transform(op), place)
query.processAllAvailable()
write_json(place / "stats.json", counts(op, "received", "shed", "processed", "fallbacks"))
query.stop()
spark.stop()
