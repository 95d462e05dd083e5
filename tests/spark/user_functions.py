"""Functions of a user in several forms."""

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.spark.executor.function import UserFunction

NUMBERED = StructType().add("entity", "string").add("n", "integer")


def function(call, form="dict", schema=NUMBERED, **more):
    return UserFunction("op", call, form, ("entity",), schema, schema, **more)


def doubled(kind):
    """Functions that double numbers, for each kind of batch."""
    return {
        "pandas": lambda frame: frame.assign(n=2 * frame["n"])[["n", "entity"]],
        "arrow": lambda batch: batch.set_column(
            1, "n", pa.array([2 * n for n in batch.column("n").to_pylist()])
        ),
        "table": lambda table: table.set_column(
            1, "n", pa.array([2 * n for n in table.column("n").to_pylist()])
        ),
    }[kind]


async def fetched(record):
    return {"entity": record["entity"], "n": 10 // record["n"]}
