"""Random queries around Penstock's verbs, each with a model of its result in plain Python."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from flows import OLD, WAIT_S, drop, source, unwanted
from pyspark.sql import functions as sf
from shape_steps import COLUMNS, ENTITIES, GIVEN, STEPS

import penstock


@dataclass
class Verb:
    """A verb of Penstock in a query, and what must be true of it at the end.

    Attributes:
        op: the operator.
        received: model of the records that it gets.
        shed: model of the records that it sheds.
        spill: folder of shed records; None if they are not kept.
    """

    op: object
    received: list
    shed: list = field(default_factory=list)
    spill: Path | None = None


class Query:
    """A random query, its model, and its result.

    Args:
        spark: session.
        place: folder to work in.
        seed: seed of all choices.
    """

    def __init__(self, spark, place, seed):
        self.spark = spark
        self.place = place
        self.random = random.Random(seed)  # noqa: S311 - a test
        self.streams = self.random.random() < 0.5
        self.names = ["stream" if self.streams else "batch"]
        self.verbs = []
        self.stateful = False
        files = [self._file(number) for number in range(self.random.choice([1, 2, 3]))]
        self.given = [tuple(one[name] for name in COLUMNS) for file in files for one in file]
        drop(place / "in", *files)

    def _file(self, number):
        return [
            {
                "entity": f"e{self.random.randrange(ENTITIES)}",
                "n": self.random.randrange(40),
                "copy": 100 * number + i,
            }
            for i in range(self.random.choice([0, 1, 7, 30]))
        ]

    def __str__(self):
        return ", ".join(self.names)

    def read(self):
        """The source; each call reads it once more."""
        if self.streams:
            return source(self.spark, self.place / "in", GIVEN)
        return self.spark.read.schema(GIVEN).json(str(self.place / "in"))

    def steps(self, most):
        """Some steps that Spark allows in this query."""
        allowed = [one for one in STEPS if one.streams or not self.streams]
        found = []
        for one in self.random.choices(allowed, k=self.random.randint(0, most)):
            if not (one.stateful and self.streams and self.stateful):
                found.append(one)
                self.stateful |= one.stateful
        return found

    def after(self, steps, frame, records):
        """A frame and its model after some steps."""
        for step in steps:
            self.names.append(step.name)
            frame = step.apply(self, frame)
            found = step.model(records)
            records = records + self.given if found is None else found
        return frame, records

    def verb(self, records):
        """A verb of Penstock, and the model of its result."""
        kinds = [self._balance, self._balance, self._balance_and_shed, self._shed]
        verb, kept = self.random.choice(kinds)(records)
        self.names.append(verb.op.name.upper())
        self.verbs.append(verb)
        return verb.op, kept

    def _balance(self, records):
        op = penstock.balance(
            lambda record: record,
            key=self.random.choice(["entity", ["entity", "n"], sf.expr("n % 3")]),
            schema=GIVEN,
            instances=self.random.choice([1, 2, 3, 5]),
            grouping=self.random.choice(["posg", "posg", "key_hash", "round_robin", "porc"]),
            name=f"balance{len(self.verbs)}",
        )
        return Verb(op, records), records

    def _shedding(self, records):
        """Arguments for shedding, and the model: records that are kept, that are shed, a folder."""
        entities = [f"e{i}" for i in self.random.sample(range(ENTITIES), 2)]
        kept = [one for one in records if one[0] not in entities]
        shed = [one for one in records if one[0] in entities]
        spill = self.place / f"spill{len(self.verbs)}" if self.random.random() < 0.8 else None
        arguments = {
            "arrival": sf.lit(OLD).cast("timestamp"),
            "key": "entity",
            "spill": None if spill is None else str(spill),
        }
        return unwanted(self.spark, *entities), arguments, (kept, shed, spill)

    def _balance_and_shed(self, records):
        shedder, arguments, (kept, shed, spill) = self._shedding(records)
        op = penstock.balance(
            lambda record: record,
            schema=GIVEN,
            instances=self.random.choice([1, 2, 3, 9]),
            name=f"balance_and_shed{len(self.verbs)}",
            shed=shedder,
            **arguments,
        )
        return Verb(op, records, shed, spill), kept

    def _shed(self, records):
        shedder, arguments, (kept, shed, spill) = self._shedding(records)
        op = penstock.shed(shedder, name=f"shed{len(self.verbs)}", **arguments)
        return Verb(op, records, shed, spill), kept

    def _aggregate(self, records):
        op = penstock.aggregate(
            key="entity",
            zero=lambda: (0, 0),
            update=lambda state, record: (state[0] + 1, state[1] + record["n"]),
            merge=lambda state, other: (state[0] + other[0], state[1] + other[1]),
            finish=lambda state: {"n": state[0], "copy": state[1]},
            schema="n int, copy int",
            instances=self.random.choice([1, 2, 3, 5]),
            grouping=self.random.choice(["cg", "cg", "pkg", "key_hash", "posg"]),
            name=f"aggregate{len(self.verbs)}",
        )
        self.names.append("AGGREGATE")
        self.verbs.append(Verb(op, records))
        found = {}
        for entity, n, _ in records:
            count, total = found.get(entity, (0, 0))
            found[entity] = count + 1, total + n
        return op, [(entity, *values) for entity, values in found.items()]

    def run(self):
        """Build the query, run it, and check everything that must be true of it."""
        frame, records = self.after(self.steps(3), self.read(), self.given)
        op = None
        if self.random.random() < 0.15 and not self.stateful:
            op, records = self._aggregate(records)
            found = self._totals(frame.transform(op))
        else:
            inside = self.streams and self.random.random() < 0.25
            op, records = self.verb(records)
            if not inside:
                frame, records = self.after(self.steps(3), frame.transform(op), records)
                op = None
                if self.random.random() < 0.3:
                    second, records = self.verb(records)
                    frame, records = self.after(self.steps(1), frame.transform(second), records)
            found = self._written(frame, op) if self.streams else [frame.collect()]
        self._check(found, records)

    def _totals(self, frame):
        """The last total of each entity, in a list of one."""
        if not self.streams:
            return [frame.collect()]
        newest = {}
        self._stream(
            frame.writeStream.outputMode("update").foreachBatch(
                lambda batch, number: newest.update({row.entity: row for row in batch.collect()})
            )
        )
        return [list(newest.values())]

    def _written(self, frame, op):
        """The records in each sink of a stream.

        Args:
            frame: stream.
            op: operator that `foreachBatch` applies; None if the stream has it already.
        """
        sinks = self.random.choice([["one"], ["one", "two"]])
        threads = self.random.random() < 0.5
        if op is None and self.random.random() < 0.5:
            self.names.append("file sink")
            sinks = ["one"]
            writer = frame.writeStream.format("parquet").option("path", str(self.place / "one"))
        else:
            self.names.append(
                f"foreachBatch{' in threads' * threads}{' with the verb' * (op is not None)} to "
                f"{len(sinks)} sinks"
            )
            writer = frame.writeStream.foreachBatch(self._writer(sinks, threads, op))
        self._stream(writer)
        return [self._read_back(self.place / sink) for sink in sinks]

    def _stream(self, writer):
        query = (
            writer.option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(WAIT_S)
        finally:
            query.stop()

    def _writer(self, sinks, threads, op):
        def write(batch, number):
            decided = batch if op is None else batch.transform(op)

            def to(sink):
                decided.write.mode("append").parquet(str(self.place / sink / str(number)))

            with ThreadPoolExecutor(len(sinks)) as pool:
                list((pool.map if threads else map)(to, sinks))

        return write

    def _read_back(self, folder):
        files = [str(one) for one in folder.glob("**/*.parquet")]
        return self.spark.read.schema(GIVEN).parquet(*files).collect() if files else []

    def _check(self, found, records):
        """Compare results, spilled records and stats with the model."""
        expected = Counter(records)
        for rows in found:
            assert Counter(tuple(row[name] for name in COLUMNS) for row in rows) == expected, self
        for verb in self.verbs:
            stats = verb.op.all_stats()
            counts = [sum(getattr(one, name) for one in stats) for name in _COUNTED]
            shed = len(verb.shed)
            assert counts == [len(verb.received), len(verb.received) - shed, shed], self
            assert not any(one.fallbacks for one in stats), self
            if verb.spill is not None:
                rows = self._read_back(verb.spill)
                spilled = Counter(tuple(row[name] for name in COLUMNS) for row in rows)
                assert spilled == Counter(verb.shed), self


_COUNTED = ("received", "processed", "shed")
