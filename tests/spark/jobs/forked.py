"""Tasks in workers that the daemon of Penstock forks, while an import of the daemon prints.

Arguments: the folder to work in.
"""

import os
import sys
from pathlib import Path

NOISY = '''
import sys


class Noisy:
    """Prints when a module is imported for the first time."""

    def find_spec(self, name, path=None, target=None):
        if name == "penstock.spark.executor.merging":
            print("noise of an import")


sys.meta_path.insert(0, Noisy())
'''

place = Path(sys.argv[1])
(place / "sitecustomize.py").write_text(NOISY)
os.environ["PYTHONPATH"] = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])

import pandas as pd  # noqa: E402 - the environment of workers comes first
from pyspark.sql import functions as sf  # noqa: E402
from shared import write_json  # noqa: E402

from penstock.spark.lab import session  # noqa: E402


class Loaded:
    """Becomes the names of loaded modules when a worker unpickles it."""

    def __reduce__(self):
        return eval, ("[*__import__('sys').modules]",)


loaded = Loaded()


def first_task(numbers):
    print("output of a task", flush=True)
    yield os.getpid(), "numba" in loaded, "penstock.spark.executor.work" in loaded, sum(numbers)


spark = session("local[2]", "penstock-test-forked")
context = spark.sparkContext
found = {
    "daemon": context.getConf().get("spark.python.daemon.module"),
    "tasks": context.parallelize(range(10), 2).mapPartitions(first_task).collect(),
}


@sf.udf("long")
def plus_one(number):
    return number + 1


@sf.pandas_udf("long")
def doubled(numbers: pd.Series) -> pd.Series:
    return 2 * numbers


frame = spark.range(4).select(plus_one("id").alias("next"), doubled("id").alias("double"))
found["rows"] = [list(row) for row in frame.collect()]
write_json(place / "found.json", found)
spark.stop()
