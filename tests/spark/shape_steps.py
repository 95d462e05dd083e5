"""Steps of random queries, each with a model in plain Python.

A record is a tuple of an entity, a number and a copy of the number. Every step takes and returns
such records, so that steps can stand in any order. The model of a step is a function on a list.
"""

from collections.abc import Callable
from dataclasses import dataclass

from flows import OLD
from pyspark.sql import functions as sf

GIVEN = "entity string, n int, copy int"
COLUMNS = ("entity", "n", "copy")
ENTITIES = 6


@dataclass(frozen=True)
class Step:
    """A step of a query, and its model.

    Attributes:
        name: name of the step.
        apply: function of the query and a frame.
        model: function on a list of records; it returns None if the source is added.
        streams: whether Spark allows the step in a stream.
        stateful: whether Spark allows the step once in a stream only.
    """

    name: str
    apply: Callable
    model: Callable
    streams: bool = True
    stateful: bool = False


def _bonus(query):
    rows = [(f"e{i}", 100 * i) for i in range(0, ENTITIES, 2)]
    return query.spark.createDataFrame(rows, "entity string, bonus int")


def _joined(query, frame):
    table = _bonus(query)
    return frame.join(table, "entity").withColumn("n", sf.expr("n + bonus")).drop("bonus")


def _left_joined(query, frame):
    table = sf.broadcast(_bonus(query)) if query.random.random() < 0.5 else _bonus(query)
    joined = frame.join(table, "entity", "left")
    return joined.withColumn("n", sf.expr("n + coalesce(bonus, 0)")).drop("bonus")


def _marked(frame):
    dated = frame.withColumn("ts", sf.lit(OLD).cast("timestamp"))
    return dated.withWatermark("ts", "1 hour").drop("ts")


def _even(entity):
    return int(entity[1:]) % 2 == 0


def _plus(records):
    return [(e, n + 100 * int(e[1:]), c) if _even(e) else (e, n, c) for e, n, c in records]


def _once(records):
    found = {}
    for entity, n, copy in records:
        found.setdefault((entity, n, copy), (entity, n, copy))
    return list(found.values())


def _split(condition, other):
    return lambda query, frame: frame.filter(condition).union(frame.filter(other))


STEPS = [
    Step(
        "filter",
        lambda query, frame: frame.filter("n % 4 != 1"),
        lambda records: [one for one in records if one[1] % 4 != 1],
    ),
    Step(
        "change a column",
        lambda query, frame: frame.withColumn("n", sf.expr("n + 1000")),
        lambda records: [(e, n + 1000, c) for e, n, c in records],
    ),
    Step("alias", lambda query, frame: frame.alias("x").select("x.*"), list),
    Step("coalesce to 1", lambda query, frame: frame.coalesce(1), list),
    Step("coalesce to 2", lambda query, frame: frame.coalesce(2), list),
    Step("repartition", lambda query, frame: frame.repartition(3), list),
    Step("repartition by key", lambda query, frame: frame.repartition(3, "entity"), list),
    Step("split and unite", _split("n % 2 = 0", "n % 2 != 0"), list),
    Step(
        "unite with itself",
        lambda query, frame: frame.union(frame),
        lambda records: records + records,
    ),
    Step(
        "nothing on the left",
        lambda query, frame: frame.filter("n is null").union(frame),
        list,
    ),
    Step(
        "source on the left",
        lambda query, frame: query.read().union(frame),
        lambda records: None,
    ),
    Step(
        "source on the right",
        lambda query, frame: frame.unionByName(query.read()),
        lambda records: None,
    ),
    Step(
        "explode",
        lambda query, frame: frame.withColumn(
            "copy", sf.explode(sf.array("copy", sf.expr("copy + 5000")))
        ),
        lambda records: [(e, n, c + more) for e, n, c in records for more in (0, 5000)],
    ),
    Step("join with a table", _joined, lambda records: _plus([r for r in records if _even(r[0])])),
    Step("left join with a table", _left_joined, _plus),
    Step(
        "drop duplicates",
        lambda query, frame: frame.dropDuplicates(list(COLUMNS)),
        _once,
        stateful=True,
    ),
    Step("mapInArrow", lambda query, frame: frame.mapInArrow(lambda x: x, GIVEN), list),
    Step("mapInPandas", lambda query, frame: frame.mapInPandas(lambda x: x, GIVEN), list),
    Step(
        "Python UDF",
        lambda query, frame: frame.withColumn("n", sf.udf(lambda n: n + 7, "int")("n")),
        lambda records: [(e, n + 7, c) for e, n, c in records],
    ),
    Step("watermark", lambda query, frame: _marked(frame), list),
    Step("cache", lambda query, frame: frame.cache(), list, streams=False),
    Step("sort", lambda query, frame: frame.sort("n", "copy"), list, streams=False),
    Step("checkpoint", lambda query, frame: frame.localCheckpoint(), list, streams=False),
    Step(
        "self-join",
        lambda query, frame: (
            frame.dropDuplicates(["copy"]).select("copy").join(frame, "copy").select(*COLUMNS)
        ),
        list,
        streams=False,
    ),
]
