"""Does the size of records balance a CPU-bound function whose cost follows it?

The function compresses texts (zlib, level 9) and hashes the result (SHA-256). Sizes of texts are
heavy-tailed: 16 KB times Pareto(1.2), at most 8 MB. Keys, the sources of texts, show nothing about
them. Two instances on two cores; nothing sleeps, so an idle machine is needed. All ways run the
same batches. Busy times are those inside of the function. The ideal is half of the busy time, or
the longest record, without reading, shuffling and committing.

    python benchmarks/size.py
    python benchmarks/size.py --quick
"""

import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import penstock
from common import Goal, Options, at_least, at_most, goal_columns, new_table, write_report
from penstock.control.occupancy import Occupancy
from penstock.spark.lab import session
from penstock.spark.lab.streams import DataFrame, partition_id, run_stream

INSTANCES, SOURCES = 2, 20
LEAST_BYTES, MOST_BYTES, SHAPE = 16_000, 8_000_000, 1.2
SCHEMA = "source long, task int, started_s double, cost_ms double, digest string"
ARROW = pa.schema(
    [
        ("source", pa.int64()),
        ("task", pa.int32()),
        ("started_s", pa.float64()),
        ("cost_ms", pa.float64()),
        ("digest", pa.string()),
    ]
)
SIZED, UNSIZED = "penstock, size", "penstock, no size"
SPARK = [2, 16]

Way = Callable[[DataFrame], DataFrame]


def digested(record: dict[str, Any]) -> dict[str, Any]:
    """Compress a text, and hash the result."""
    began_s, start = time.time(), time.perf_counter()
    digest = hashlib.sha256(zlib.compress(record["text"].encode(), 9)).hexdigest()
    spent_ms = 1000 * (time.perf_counter() - start)
    return {
        "source": record["source"],
        "task": partition_id(),
        "started_s": began_s,
        "cost_ms": spent_ms,
        "digest": digest,
    }


def plain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([digested(one) for one in batch.to_pylist()], ARROW)


def by_repartition(partitions: int) -> Way:
    return lambda frame: frame.repartition(partitions).mapInArrow(plain, SCHEMA)


def by_penstock(size: str | None) -> Way:
    def share(frame: DataFrame) -> DataFrame:
        operator = penstock.balance(
            digested, key="source", schema=SCHEMA, instances=INSTANCES, size=size
        )
        return frame.transform(operator)

    return share


def write_batches(folder: Path, batches: int, records: int) -> None:
    """Write texts of random words, one file for each batch."""
    rng = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(2_000)]
    pool = " ".join(rng.choice(words, 1_500_000))
    for number in range(batches):
        sizes = np.minimum(LEAST_BYTES * (1 + rng.pareto(SHAPE, records)), MOST_BYTES).astype(int)
        starts = rng.integers(0, len(pool) - MOST_BYTES, records)
        texts = [pool[at : at + size] for at, size in zip(starts, sizes, strict=True)]
        table = pa.table({"source": rng.integers(0, SOURCES, records), "text": texts})
        pq.write_table(table, folder / f"{number:06}.parquet")


def busiest_over_mean(rows: pa.Table) -> float:
    """Return the busy time of the busier slot over the mean one, in one batch."""
    ended = pa.array(rows["started_s"].to_numpy() + rows["cost_ms"].to_numpy() / 1000)
    wanted = [("started_s", "min"), ("ended_s", "max"), ("cost_ms", "sum")]
    tasks = rows.append_column("ended_s", ended).group_by("task").aggregate(wanted)
    busy_ms, occupancy = np.zeros(INSTANCES), Occupancy(INSTANCES)
    for task in tasks.sort_by("ended_s_max").to_pylist():
        slot, _ = occupancy.add("", task["started_s_min"], task["ended_s_max"])
        busy_ms[slot] += task["cost_ms_sum"]
    return float(busy_ms.max() / busy_ms.mean())


def ideal_ms(costs_ms: np.ndarray) -> float:
    """Return the shortest possible duration of a batch, whatever divides it."""
    return float(max(costs_ms.sum() / INSTANCES, costs_ms.max()))


def main() -> None:
    options = Options("size", __doc__)
    options.size("records", 400, 40, meaning="number of records of a batch")
    options.size("learn", 10, 2, meaning="number of batches to learn from")
    options.size("measure", 8, 2, meaning="number of batches to measure after these")
    args = options.parse()
    load_before = os.getloadavg()[0]
    spark = session(f"local[{INSTANCES}]", "penstock-size")
    ways: dict[str, Way] = {
        **{f"repartition({n})": by_repartition(n) for n in SPARK},
        UNSIZED: by_penstock(None),
        SIZED: by_penstock("octet_length(text)"),
    }
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory(prefix="penstock-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        write_batches(source, args.learn + args.measure, args.records)
        for name, way in ways.items():
            seen: list[pa.Table] = []
            times = run_stream(
                spark,
                source,
                "source long, text string",
                operator=way,
                checkpoint=Path(folder, name.replace(" ", "-")),
                sink=seen.append,
            )
            assert sum(map(len, seen)) == args.records * (args.learn + args.measure), name
            found[name] = {
                "batch_ms": times.duration_ms[args.learn :].tolist(),
                "busiest": [busiest_over_mean(rows) for rows in seen[args.learn :]],
                "busy_ms": [float(rows["cost_ms"].to_numpy().sum()) for rows in seen[args.learn :]],
                "ideal_ms": [ideal_ms(rows["cost_ms"].to_numpy()) for rows in seen[args.learn :]],
            }
    show(found, load_before)
    write_report(args.json, {"records": args.records, "load_before": load_before, "ways": found})


def show(found: dict[str, dict[str, Any]], load_before: float) -> None:
    means = {
        name: {key: float(np.mean(values)) for key, values in one.items()}
        for name, one in found.items()
    }
    table = new_table(
        f"Texts by size (CPU-bound, load average before: {load_before:.1f})",
        labels=("way",),
        numbers=("batch (ms)", "ideal (ms)", "busy time (ms)", "busiest over mean"),
    )
    for name, one in means.items():
        times = (f"{one[key]:,.0f}" for key in ("batch_ms", "ideal_ms", "busy_ms"))
        table.add_row(name, *times, f"{one['busiest']:.3f}")
    console = Console()
    console.print(table)
    ours = means[SIZED]
    best = min(means[f"repartition({n})"]["batch_ms"] for n in SPARK)
    goals: list[tuple[str, float, Goal | None]] = [
        ("best repartition / penstock, size", best / ours["batch_ms"], at_least(1.2)),
        ("busiest over mean, penstock, size", ours["busiest"], at_most(1.05)),
        ("best repartition / ideal", best / ours["ideal_ms"], None),
        ("without size / with size", means[UNSIZED]["batch_ms"] / ours["batch_ms"], None),
    ]
    against = new_table("Goals", ["number"], ["measured", "goal", "reached"])
    for name, number, goal in goals:
        against.add_row(name, f"{number:.2f}", *goal_columns(goal, number))
    console.print(against)


if __name__ == "__main__":
    main()
