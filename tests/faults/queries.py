"""The queries that faults hit. They run in the driver process (`driver.py`).

Every record has a number of its own, so that results can be compared with the truth one by one.
"""

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
from pyspark import TaskContext
from pyspark.sql import functions as sf

import penstock

RECORD = "entity string, n long, at timestamp, ts timestamp"
PER_FILE = 30
INSTANCES = 3
KEPT_FOR_EVER = 13  # every 13th record is a bad one in the query with dead letters


class Moody(penstock.shedding.Shedder):
    """Sheds other records in every batch, and none in some of them."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        seed = int(np.max(now_ms, initial=0)) if now_ms is not None else 0
        share = (0.0, 0.3, 0.6)[seed // 7 % 3]
        admitted = np.random.default_rng(seed).random(len(keys)) >= share
        return admitted if protected is None else admitted | protected


class Requested(penstock.scaling.Scaler):
    """Wants the requested number of instances."""

    degree = 3

    def wanted(self, topology, history):
        return dict.fromkeys(topology.parents, (Requested.degree, "requested"))


class Rotated(penstock.placement.Placer):
    """Deals key groups to workers one by one, beginning with any of them."""

    offset = 0

    def place(self, cluster):
        staying = np.flatnonzero(cluster.live)
        groups = np.arange(cluster.key_groups) + Rotated.offset
        return staying[groups % staying.size], f"rotated by {Rotated.offset}"


def worker(place, bad_every=0):
    """The function of records: it fails, or takes long, while there is a file that asks for it."""
    failing, slow = str(place / "failing"), str(place / "slow")

    def work(record):
        n = record["n"]
        if bad_every and n % bad_every == 0:
            raise ValueError("a bad record")
        if n % 3 == 0 and os.path.exists(failing):  # noqa: PTH110 - called for every record
            raise ValueError("fails for a while")
        if n % 10 == 0 and TaskContext.get().attemptNumber() == 0 and os.path.exists(slow):  # noqa: PTH110
            time.sleep(1.5)
        time.sleep(0.001)
        return record

    return work


class Query:
    """A query with its operators; it can be started again and again from its checkpoint.

    Args:
        spark: session.
        name: name of the query, one of `schedules.QUERIES`.
        place: folder of the query: `in` has its source, `disk` everything that it writes.
    """

    def __init__(self, spark, name, place):
        self._spark, self.name, self._place = spark, name, place
        self.disk = place / "disk"
        self.operators = []
        self.attached = None
        self._frame = getattr(self, f"_{name}")(self._source())

    def start(self):
        """Start the query, or go on from its checkpoint."""
        writer = self._frame.writeStream.option(
            "checkpointLocation", str(self.disk / "checkpoint")
        ).queryName(self.name)
        if self.name in ("balance", "letters", "shed", "replay"):
            query = writer.format("parquet").start(str(self.disk / "out"))
        else:
            keep = self._keep_totals()
            sink = keep if self.name == "windows" else penstock.with_placement(keep)
            query = writer.outputMode("update").foreachBatch(sink).start()
        if self.name in ("attached", "all"):
            try:
                self.attached = self._attach(query)
            except penstock.PenstockError:
                # The journal's disk may be read-only; a query that nobody knows would run for ever.
                query.stop()
                raise
        return query

    def _attach(self, query):
        return penstock.attach(
            query,
            scale=Requested(min_executors=1, max_executors=INSTANCES),
            place=Rotated(max_migrations=8),
            period="1 s",
            journal=self._journal("attached"),
        )

    def close(self):
        for one in self.operators:
            one.close()

    def stats(self):
        """Counts of each operator; none if it has not run in this process."""
        fields = ("received", "processed", "shed", "failed", "fallbacks", "batches")
        found = {}
        for one in self.operators:
            stats = one.all_stats()
            found[one.name] = {name: getattr(stats[-1], name) for name in fields} if stats else None
        return found

    def _source(self):
        reader = self._spark.readStream.schema(RECORD).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._place / "in"))

    def _journal(self, name):
        return self.disk / "journals" / name

    def _made(self, operator):
        self.operators.append(operator)
        return operator

    def _balanced(self, *, bad_every=0, **more):
        return self._made(
            penstock.balance(
                worker(self._place, bad_every),
                key="entity",
                schema=RECORD,
                instances=INSTANCES,
                name="work",
                journal=self._journal("work"),
                **more,
            )
        )

    def _url(self, folder):
        """A folder that all hosts share; a plain path would be refused on several ones."""
        return f"file://{self.disk / folder}"

    def _shedding(self):
        return {"shed": Moody(), "arrival": "ts", "spill": self._url("spill")}

    def _keeping(self):
        return {
            "bad_every": KEPT_FOR_EVER,
            "on_error": "keep",
            "errors": self._url("errors"),
        }

    def _balance(self, frame):
        return frame.transform(self._balanced())

    def _letters(self, frame):
        return frame.transform(self._balanced(**self._keeping()))

    def _shed(self, frame):
        return frame.transform(self._balanced(**self._shedding()))

    def _replay(self, frame):
        op = self._balanced(**self._shedding())
        late = penstock.replay(
            self._spark,
            self._url("spill"),
            when=op,
            arrival="ts",
            schema=frame.schema,
            every="0.1 s",
        )
        return frame.unionByName(late).transform(op)

    def _windows(self, frame):
        work = worker(self._place)

        def add(state, record):
            work(record)
            return [*state, record["n"]]

        return frame.withWatermark("at", "1000 days").transform(
            self._made(
                penstock.aggregate(
                    key="entity",
                    zero=list,
                    update=add,
                    merge=lambda one, other: sorted([*one, *other]),
                    finish=lambda state: {"numbers": sorted(state)},
                    schema="numbers array<long>",
                    window=sf.window("at", "60 seconds"),
                    instances=INSTANCES,
                    name="numbers",
                    journal=self._journal("numbers"),
                )
            )
        )

    def _attached(self, frame):
        return self._windows(frame)

    def _all(self, frame):
        balanced = self._balanced(**self._shedding(), **self._keeping())
        return self._windows(frame.transform(balanced))

    def _keep_totals(self):
        folder = self.disk / "totals"

        def keep(rows, number):
            folder.mkdir(parents=True, exist_ok=True)
            found = [
                [row.entity, row.window.start.isoformat(), row.numbers] for row in rows.collect()
            ]
            hidden = folder / f".{number:06}"
            hidden.write_text(json.dumps(found))
            hidden.rename(folder / f"{number:06}")

        return keep


def record(n, start, jump: timedelta | None = timedelta()):
    """The record of a number; its clock may be ahead or behind, or missing."""
    when = start + timedelta(seconds=n)
    return {
        "entity": f"e{n * n % 7}",
        "n": n,
        "at": when.isoformat(),
        "ts": None if jump is None else (when + jump).isoformat(),
    }


def consumed_files(source_log: Path) -> set[str]:
    """Names of the files that a source of a checkpoint has handed out."""
    found = set()
    for log in source_log.glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            found.add(Path(json.loads(line)["path"]).name)
    return found
