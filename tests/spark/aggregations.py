"""What the tests of aggregations share: records with keys of all kinds."""

from datetime import UTC, date, datetime
from decimal import Decimal

from flows import WAIT_S

COUNT = "count long"
KINDS = (
    "text string, number int, `dotted.name` string, day date, at timestamp, local timestamp_ntz, "
    "price decimal(20, 3), raw binary, real double, flag boolean, "
    "pair struct<inner: string, when: timestamp>, several array<struct<a: int, b: binary>>, "
    "span interval day to second"
)


def kinds(spark):
    """Records whose columns are keys of all kinds."""
    at = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    one = {
        "text": "x",
        "number": 1,
        "dotted.name": "dot",
        "day": date(2024, 2, 29),
        "at": at,
        "local": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "price": Decimal("12345678901234567.125"),
        "raw": b"\x00\xff",
        "real": 0.1,
        "flag": True,
        "pair": {"inner": "x", "when": at},
        "several": [{"a": 1, "b": b"\x00"}, {"a": None, "b": None}],
        "span": at - datetime(2024, 1, 1, tzinfo=UTC),
    }
    other = {
        **one,
        "text": "",
        "number": -1,
        "dotted.name": "",
        "day": date(1582, 10, 15),
        "at": datetime(2261, 12, 31, tzinfo=UTC),
        "local": datetime(1678, 1, 1),
        "price": Decimal("-0.001"),
        "raw": b"",
        "real": float("nan"),
        "flag": False,
        "pair": {"inner": None, "when": None},
        "several": [],
        "span": -one["span"],
    }
    nothing = dict.fromkeys(one)
    names = list(one)
    rows = [tuple(record[name] for name in names) for record in [one, other, nothing] * 8 + [one]]
    return spark.createDataFrame(rows, KINDS).repartition(3)


def stream(frame, place, name="c"):
    """Run an aggregation until nothing is left; return the query and each batch's rows."""
    batches = {}
    query = (
        frame.writeStream.outputMode("update")
        .foreachBatch(lambda rows, number: batches.update({number: rows.collect()}))
        .option("checkpointLocation", str(place / name))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(WAIT_S)
    finally:
        query.stop()
    return query, [batches[number] for number in sorted(batches)]
