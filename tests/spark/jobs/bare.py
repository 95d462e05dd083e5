"""A batch job with `balance` and `aggregate`, for an environment without any extra.

The Python of the PATH is another one, and nothing names the Python of workers.

Argument: the file for the results. The job also writes which optional packages it has loaded.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from penstock.grouping import Proactive
from penstock.sim import Application, simulate

OPTIONAL = ("click", "highspy", "matplotlib", "prometheus_client", "pymetis", "rich")


def double(record):
    return {"n": 2 * record["n"]}


simulated = simulate(Proactive(2), Application(records=500).stream(seed=1).provisioned(2, 1.1))
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.range(100).selectExpr("id as n", "id % 5 as k")
op = penstock.balance(double, key="k", schema="n long", instances=2)
doubled = sorted(row["n"] for row in frame.transform(op).collect())
total = penstock.aggregate(
    zero=int,
    update=lambda state, record: state + record["n"],
    merge=lambda one, other: one + other,
    key="k",
    schema="total long",
    instances=2,
)
totals = {row["k"]: row["total"] for row in frame.transform(total).collect()}
try:
    op.watch(0.1)
    refused = ""
except penstock.PenstockError as error:
    refused = str(error)
found = {
    "doubled": doubled,
    "totals": totals,
    "simulated": len(simulated.completion_ms),
    "processed": op.stats().processed,
    "refused": refused,
    "loaded": [name for name in OPTIONAL if name in sys.modules],
}
Path(sys.argv[1]).write_text(json.dumps(found))
spark.stop()
