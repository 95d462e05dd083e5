"""A stream whose operator sheds into a folder; a record can hold it up in the middle of a batch.

The record `stuck` waits until there is a file `go`; the file `stuck` has the process of its Python
worker. The start of a batch decides which records are shed.

Arguments: the folder to work in, the number of the record, the master.
"""

import sys
from pathlib import Path

from shared import counts, sheds_moodily, start_to_parquet, two_files_a_batch, write_json

from penstock.spark.lab import session

place, stuck, master = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
spark = session(
    master,
    "penstock-test-shed",
    spark__executor__memory="512m",
    spark__shuffle__io__retryWait="1s",
    spark__shuffle__io__maxRetries="1",
)
op = sheds_moodily(place, stuck)
query = start_to_parquet(two_files_a_batch(spark, place).transform(op), place)
query.processAllAvailable()
write_json(place / "stats.json", counts(op, "received", "shed", "processed", "fallbacks"))
query.stop()
spark.stop()
