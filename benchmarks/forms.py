"""What do functions that take batches cost more with `penstock.balance`, if costs are even?

The same function hashes the texts of each batch, once in `mapInPandas` or `mapInArrow` after
`repartition`, and once with `penstock.balance`. All records cost the same, so there is nothing to
gain. Both ways run in turn on the same frame.

    python benchmarks/forms.py
    python benchmarks/forms.py --quick
"""

import hashlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from rich.console import Console

import penstock
from common import Options, at_most, goal_columns, new_table, write_report
from penstock.spark.lab import session

INSTANCES, KEYS = 2, 1_000
SCHEMA = "key long, digest string"

Way = Callable[[], DataFrame]


def digest(text: str) -> str:
    """Hash a text again and again: about 0.1 ms."""
    found = text.encode()
    for _ in range(100):
        found = hashlib.sha256(found).digest()
    return found.hex()


def of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"key": frame["key"], "digest": frame["text"].map(digest)})


def of_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    texts = pa.array([digest(text) for text in batch.column("text").to_pylist()])
    return pa.RecordBatch.from_arrays([batch.column("key"), texts], names=["key", "digest"])


def each_pandas(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from map(of_pandas, frames)


def each_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from map(of_arrow, batches)


def pairs(frame: DataFrame) -> dict[str, tuple[Way, Way]]:
    """Return the plain and the balanced way of each form."""
    operators = {
        form: penstock.balance(func, key="key", schema=SCHEMA, instances=INSTANCES)
        for form, func in (("pandas", of_pandas), ("arrow", of_arrow))
    }
    spread = frame.repartition(INSTANCES)
    return {
        "pandas": (
            lambda: spread.mapInPandas(each_pandas, SCHEMA),
            lambda: frame.transform(operators["pandas"]),
        ),
        "arrow": (
            lambda: spread.mapInArrow(each_arrow, SCHEMA),
            lambda: frame.transform(operators["arrow"]),
        ),
    }


def seconds(make: Way) -> float:
    start = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main() -> None:
    options = Options("forms", __doc__)
    options.size("records", 200_000, 2_000, meaning="number of records")
    options.size("runs", 7, 1, meaning="number of runs of each way")
    args = options.parse()
    load_before = os.getloadavg()[0]
    spark = session(f"local[{INSTANCES}]", "penstock-forms")
    columns = (sf.col("id") % KEYS).alias("key"), sf.col("id").cast("string").alias("text")
    frame = spark.range(0, args.records, 1, INSTANCES).select(*columns).cache()
    frame.count()
    found = {}
    for form, (plain, balanced) in pairs(frame).items():
        times = [(seconds(plain), seconds(balanced)) for _ in range(args.runs + 1)][1:]
        # Both runs of a pair see the same load of the machine, so pairs are compared.
        found[form] = {
            "plain_s": [one for one, _ in times],
            "penstock_s": [one for _, one in times],
            "ratio": statistics.median(ours / theirs for theirs, ours in times),
        }
    show(found, load_before)
    write_report(args.json, {"records": args.records, "load_before": load_before, "forms": found})


def show(found: dict[str, dict[str, Any]], load_before: float) -> None:
    table = new_table(
        f"Functions of batches, even costs (load average before: {load_before:.1f})",
        labels=("form",),
        numbers=("plain (s)", "penstock (s)", "median ratio", "goal", "reached"),
    )
    for form, one in found.items():
        plain, ours = (statistics.median(one[way]) for way in ("plain_s", "penstock_s"))
        ratio = one["ratio"]
        goal = goal_columns(at_most(1.03), ratio)
        table.add_row(form, f"{plain:.2f}", f"{ours:.2f}", f"{ratio:.3f}", *goal)
    Console().print(table)


if __name__ == "__main__":
    main()
