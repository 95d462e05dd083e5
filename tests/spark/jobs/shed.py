"""A stream whose operator sheds into a folder; a record can hold it up in the middle of a batch.

The record `stuck` waits until there is a file `go`; the file `stuck` names its Python worker. What
is shed depends on when a batch begins.

Arguments: the folder to work in, the number of the record, the master.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from flows import TIMED, moody

import penstock
from penstock.spark.lab import session

place, stuck, master = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def work(record):
    if record["n"] == stuck:
        hidden = place / f".stuck-{os.getpid()}"
        hidden.write_text(str(os.getpid()))
        hidden.rename(place / "stuck")
        while not (place / "go").exists():
            time.sleep(0.02)
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
query = (
    stream.json(str(place / "in"))
    .transform(op)
    .writeStream.format("parquet")
    .option("checkpointLocation", str(place / "checkpoint"))
    .start(str(place / "out"))
)
query.processAllAvailable()
stats = op.stats()
found = {name: getattr(stats, name) for name in ("received", "shed", "processed", "fallbacks")}
(place / "stats.json").write_text(json.dumps(found))
query.stop()
spark.stop()
