"""Sessions and executors that cannot do it, and routing that is the simulator's."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import py4j
import pyspark
import pytest
from flows import numbered
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.spark.executor.shipping import shipped
from processes import ran

pytestmark = pytest.mark.spark


def same():
    def same(record):
        return record

    return same


def operators():
    yield penstock.balance(same(), key="entity", schema="entity string, n int", instances=2)
    yield penstock.aggregate(Count(), key="entity", schema="count long", instances=2)


@pytest.mark.parametrize("op", list(operators()), ids=["balance", "aggregate"])
def test_spark_connect_is_refused(op):
    # The real class needs packages (grpc) that are not installed for these tests.
    kind = type("DataFrame", (DataFrame,), {"__module__": "pyspark.sql.connect.dataframe"})
    remote = object.__new__(kind)
    with pytest.raises(PenstockError, match="Spark Connect sessions cannot be balanced") as caught:
        op(remote)
    assert "Use a classic session" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def bare(tmp_path):
    """A folder with PySpark and without Penstock."""
    for package in (pyspark, py4j):
        found = Path(package.__file__).parent
        (tmp_path / found.name).symlink_to(found)
    return tmp_path


RUN = """
import sys
sys.path.append(sys.argv[1])
import pickle
function = pickle.load(open(sys.argv[2], "rb"))
print("unpickled", flush=True)
print(list(function(iter([1, 2]))))
"""


def run_bare(bare, function, *flags):
    """Run a function in a Python that has what is in a folder, and nothing else."""
    (bare / "function").write_bytes(cloudpickle.dumps(function))
    return ran([sys.executable, "-I", "-S", *flags, "-c", RUN, bare, bare / "function"])


def doubled():
    def doubled(batches):
        return (2 * batch for batch in batches)

    return doubled


def plain(function):
    """As the router is sent: Spark reads what it needs of annotations."""
    function.__annotations__ = {}
    return function


def test_an_executor_without_penstock_says_so(bare):
    done = run_bare(bare, plain(shipped(doubled())))
    assert done.stdout == "unpickled\n", done.stderr
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("RuntimeError")]
    assert "penstock is not installed in the Python of this executor" in line
    assert sys.executable in line
    assert "docs/guide/deploy.md" in line


def test_an_executor_with_another_penstock_says_so(bare):
    (bare / "penstock").mkdir()
    (bare / "penstock" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    done = run_bare(bare, plain(shipped(doubled())))
    [line] = [line for line in done.stderr.splitlines() if line.startswith("RuntimeError")]
    assert "penstock 0.0.1 is installed in the Python of this executor" in line
    assert f"the driver has {penstock.__version__}" in line


def test_what_is_shipped_needs_nothing_of_penstock_to_be_unpickled(bare):
    done = run_bare(bare, shipped(doubled()))
    assert done.stdout == "unpickled\n", done.stderr


@pytest.mark.parametrize(
    "name", ["pkg", "porc", "cg", "bounded_hash", "potc", "key_hash", "round_robin"]
)
def test_spark_routes_as_the_simulator(spark, name):
    def placed(record):
        return {**record, "instance": TaskContext.get().partitionId()}

    grouping = Grouping.named(name, instances=3)
    op = penstock.balance(
        placed,
        key="entity",
        schema="entity string, n int, hash long, instance int",
        grouping=grouping,
    )
    frame = numbered(spark, 600, entities=40, partitions=1).selectExpr(
        "CASE WHEN n % 2 = 0 THEN 'hot' ELSE entity END AS entity", "n"
    )
    frame = frame.withColumn("hash", sf.xxhash64("entity"))
    for _ in range(2):  # the second batch begins as the first
        rows = sorted(frame.transform(op).collect(), key=lambda row: row.n)
        assert [row.n for row in rows] == list(range(600))
        policy = grouping.clone()
        policy.begin(0)
        told = policy.route_together(np.array([row.hash for row in rows]))
        assert told.tolist() == [row.instance for row in rows]
        assert set(Counter(told.tolist())) == {0, 1, 2}
