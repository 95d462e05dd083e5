"""Queries that take up Penstock and give it up again, and Spark's adaptive execution beside it."""

import pytest
from flows import NUMBERED, bag, drop, numbered, run, saved_files, some_files, source, sunk
from pyspark.sql import Row
from pyspark.sql import functions as sf

import penstock
from penstock.control import Controller

pytestmark = pytest.mark.spark

INSTANCES = 4


def balanced(name="same", **more):
    return penstock.balance(
        lambda record: record,
        key="entity",
        schema=NUMBERED,
        instances=INSTANCES,
        name=name,
        **more,
    )


def shedding(place):
    target = penstock.shedding.sliding_average("1 hour")
    return penstock.shed(target, arrival=sf.current_timestamp(), spill=str(place / "spill"))


@pytest.mark.parametrize("verb", [lambda _: balanced(), shedding], ids=["balance", "shed"])
def test_a_checkpoint_goes_on_with_an_operator_and_without(spark, tmp_path, verb):
    op = verb(tmp_path)
    for start, used in enumerate([False, True, False]):
        drop(tmp_path / "in", *some_files(files=2, start=2 * start), start=2 * start)
        rows = source(spark, tmp_path / "in")
        query = run(rows.transform(op) if used else rows, tmp_path)
    assert query.lastProgress.batchId >= 5
    wanted = [Row(entity=f"e{n % 4}", n=n) for n in range(6 * 20)]
    assert bag(sunk(spark, tmp_path)) == bag(wanted)
    assert op.stats().received == 40


def test_a_new_name_learns_again_and_the_old_one_goes_on(spark, tmp_path, monkeypatch):
    saved, loaded, load = {}, [], Controller.load

    def noted(controller, data):
        loaded.append((controller.name, data))
        load(controller, data)

    monkeypatch.setattr(Controller, "load", noted)
    for start, name in enumerate(["old", "new", "old"]):
        drop(tmp_path / "in", *some_files(files=1, start=start), start=start)
        op = balanced(name)
        run(source(spark, tmp_path / "in").transform(op), tmp_path)
        op.close()
        saved[start] = saved_files(tmp_path / "out-checkpoint", name)[-1].read_bytes()
    assert loaded == [("old", saved[0])]
    assert len(sunk(spark, tmp_path)) == 60


@pytest.fixture
def adaptive(spark):
    """Spark may join small partitions after a shuffle."""
    settings = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.streaming.stateless.enabled": "true",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def with_partition(frame):
    return frame.withColumn("partition", sf.spark_partition_id())


def test_adaptive_execution_leaves_the_tasks_of_a_batch_job_alone(spark, adaptive):
    op = balanced(grouping="round_robin")
    rows = with_partition(numbered(spark, 40).transform(op)).collect()
    assert {row.partition for row in rows} == set(range(INSTANCES))
    # The same records after a shuffle that Spark may change are in fewer partitions.
    plain = with_partition(numbered(spark, 40).repartition("entity")).collect()
    assert len({row.partition for row in plain}) == 1


def test_adaptive_execution_leaves_the_tasks_of_a_stream_alone(spark, adaptive, tmp_path):
    drop(tmp_path / "in", *some_files())
    op = balanced(grouping="round_robin")
    run(with_partition(source(spark, tmp_path / "in").transform(op)), tmp_path)
    rows = sunk(spark, tmp_path)
    assert len(rows) == 60
    assert {row.partition for row in rows} == set(range(INSTANCES))
    # Spark joins the partitions of the same stream after a shuffle that it may change.
    run(with_partition(source(spark, tmp_path / "in").repartition("entity")), tmp_path, "plain")
    assert {row.partition for row in sunk(spark, tmp_path, "plain")} == {0}
