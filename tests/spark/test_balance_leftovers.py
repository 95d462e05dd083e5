"""Sessions and executors that cannot do it, examples, and routing that is the simulator's."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import py4j
import pyspark
import pytest
from flows import WAIT_S, numbered
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import penstock
from penstock.aggregators import Count
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.spark.executor.shipping import shipped

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"


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
    return subprocess.run(  # noqa: S603 - this test's own script
        [sys.executable, "-I", "-S", *flags, "-c", RUN, str(bare), str(bare / "function")],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


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


def run_example(name, *arguments):
    done = subprocess.run(  # noqa: S603 - an example of this repository
        [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
    return done.stdout


def test_the_example_of_flights_counts_exactly():
    printed = run_example("aggregate_naive_bayes", "--flights", 20_000, "--files", 2)
    assert "15,000 flights, 90,000 features counted" in printed
    assert "every feature counted exactly once: yes" in printed
    assert "AUC on the last 5,000 flights: 0." in printed


def test_the_example_of_jobs_in_sequence_counts_exactly():
    # The longest one: five stateful operators, one of which is a join.
    options = "--job 4 --weeks 1 --days 5 --key-groups 2 --master local[2] --left-alone"
    printed = run_example("place_airline", *options.split())
    assert "by_courier: 102 rows" in printed
    assert "every flight counted exactly once: yes" in printed


def test_the_example_of_tweets_runs(tmp_path):
    tweets = [{"entity": f"@user{n % 9}", "text": "hello"} for n in range(60)]
    (tmp_path / "0.json").write_text("\n".join(map(json.dumps, tweets)))
    printed = run_example("balance_tweets", "--source", tmp_path, "--seconds", 8)
    rows = [line.strip("| ").split("|") for line in printed.splitlines() if line.startswith("|")]
    found = {row[0].strip(): row[1].strip() for row in rows}
    assert found.pop("kind") == "count"
    assert set(found) <= {"media", "politicians", "others"}
    # The batch is in the table, or the machine has not got so far.
    assert sum(map(int, found.values())) in (0, 60)


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
