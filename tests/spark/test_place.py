"""Key groups move on a real cluster: every record counts exactly once."""

import json

import pytest
from accounts import stats_of
from flows import drop, some_files, source
from jobs_of import finished, kill, started, until
from pyspark.sql import functions as sf

import penstock
from penstock.errors import PenstockError
from penstock.spark import internals

pytestmark = pytest.mark.spark


@pytest.mark.apart
@pytest.mark.parametrize("sink", ["placed", pytest.param("plain", marks=pytest.mark.long)])
def test_key_groups_go_where_the_placer_says(tmp_path, sink):
    place = tmp_path / sink
    if sink == "placed":
        # The driver dies after the moves; the next one has to make them again.
        with started("place", tmp_path, sink, "endless") as process:
            until((place / "gathered").exists, process, "place", tmp_path)
            kill(process)
        (place / "journal").unlink()
    finished("place", tmp_path, sink, wait_s=1_200)
    stats = stats_of(place)
    assert stats["gathered"] == 1
    assert stats["moved"] >= 1
    assert stats["failures"] == 0
    # Every batch brings every entity, and those of the batch before once more.
    rows = [json.loads(one.read_text()) for one in sorted((place / "out").iterdir())]
    entities = sorted(f"e{n}" for n in range(30))
    assert rows == [[[one, number] for one in entities] for number in range(stats["batches"])]
    entries = [json.loads(line) for line in (place / "journal").read_text().splitlines()]
    plans = [entry for entry in entries if entry["kind"] == "plan" and entry["moves"]]
    assert plans
    for one in plans:
        assert "migrations of at most 12" in one["reason"]
        assert one["reason"].endswith("all to the first one")


def running(frame, tmp_path, name, mode="update"):
    return (
        frame.writeStream.format("memory")
        .outputMode(mode)
        .queryName(name)
        .option("checkpointLocation", str(tmp_path / name))
        .start()
    )


def test_a_query_without_state_is_refused(spark, tmp_path):
    drop(tmp_path / "in", *some_files(1))
    query = running(source(spark, tmp_path / "in"), tmp_path, "stateless", "append")
    try:
        query.processAllAvailable()
        with pytest.raises(
            PenstockError, match=r"stateless has no stateful operator.*scale= alone"
        ):
            penstock.attach(query, place=penstock.placement.Albic(max_migrations=5), dry_run=True)
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give a scaler as scale=, a placer as place=, or both; got none"),
        (
            {"place": "albic"},
            r"place must be a placer, such as penstock.placement.Albic\(.*'albic'",
        ),
        (
            {"place": penstock.placement.Albic},
            r"place must be a placer, such as penstock.placement.Albic\(",
        ),
        ({"place": penstock.scaling.Preventive()}, r"place must be a placer"),
        ({"scale": penstock.placement.Albic()}, r"scale must be a scaler"),
    ],
)
def test_mistakes_about_placers_are_told(spark, tmp_path, given, message):
    drop(tmp_path / "in", *some_files(1))
    counted = source(spark, tmp_path / "in").groupBy("entity").count()
    query = running(counted, tmp_path, "mistakes")
    try:
        with pytest.raises(PenstockError, match=message):
            penstock.attach(query, **given)
        assert query.isActive
    finally:
        query.stop()


def test_a_dry_run_watches_key_groups_of_a_local_query(spark, tmp_path):
    drop(tmp_path / "in", *some_files(3))
    counted = source(spark, tmp_path / "in").groupBy("entity").count()
    query = running(counted, tmp_path, "watched_state")
    try:
        attached = penstock.attach(
            query, place=penstock.placement.Albic(max_migrations=5), dry_run=True, period="300 ms"
        )
        number = 3
        while attached.stats().reason == "no plan yet":
            drop(tmp_path / "in", *some_files(1, start=number), start=number)
            number += 1
            query.processAllAvailable()
        stats = attached.stats()
        assert (stats.moved, stats.failures) == (0, 0)
        attached.detach()
    finally:
        query.stop()


def test_operators_that_share_a_stage_live_together(spark, tmp_path):
    drop(tmp_path / "in", *some_files(1))
    once = source(spark, tmp_path / "in").dropDuplicates(["entity"])
    query = running(once.dropDuplicates(["entity"]).dropDuplicates(["n"]), tmp_path, "t", "append")
    try:
        query.processAllAvailable()
        found = internals.state_operators(spark, str(query.id))
    finally:
        query.stop()
    assert [(one.number, one.receiver) for one in found] == [(0, None), (1, 0)]
    assert [[other.number for other in one.before] for one in found] == [[], [2]]


def test_operators_on_both_sides_of_a_join_are_found_in_its_jobs(spark, tmp_path):
    """Stages are those that have read as many records as the operators get."""
    drop(tmp_path / "left", [{"entity": f"e{n % 30}", "n": n % 30} for n in range(60)])
    drop(tmp_path / "right", [{"entity": f"e{n % 10}", "n": n % 10} for n in range(20)])
    left = source(spark, tmp_path / "left").dropDuplicates(["entity", "n"])
    right = source(spark, tmp_path / "right").dropDuplicates(["entity", "n"])
    right = right.selectExpr("n AS m", "entity AS other")
    joined = left.join(right, left["n"] % 10 == right["m"])
    query = running(joined.dropDuplicates(["n"]), tmp_path, "joined", "append")
    try:
        query.processAllAvailable()
        operators = {one.number: one for one in internals.state_operators(spark, str(query.id))}
        (job,) = internals.jobs_after(spark, str(query.runId), -1)
        stages = internals.stages_as_planned(spark, internals.job_done(spark, job).stages)
    finally:
        query.stop()
    assert {number: one.receiver for number, one in operators.items()} == {
        0: None,
        1: 0,
        2: 1,
        3: 1,
    }

    def records(number):
        tasks = internals.tasks_of(spark, operators[number].stage(stages))
        return sum(one["taskMetrics"]["shuffleReadMetrics"]["recordsRead"] for one in tasks)

    assert (records(0), records(1)) == (30, 40)
    left, right = sorted((operators[2], operators[3]), key=lambda one: one.stage_rank)
    assert (records(left.number), records(right.number)) == (60, 20)


def test_what_is_broadcast_is_no_stage_of_the_query(spark, tmp_path):
    drop(tmp_path / "in", [{"entity": f"e{n % 30}", "n": n % 30} for n in range(60)])
    table = spark.range(100).selectExpr("id % 30 AS n").groupBy("n").count()
    joined = source(spark, tmp_path / "in").join(sf.broadcast(table), "n")
    query = running(joined.dropDuplicates(["entity"]), tmp_path, "broadcast", "append")
    try:
        query.processAllAvailable()
        (operator,) = internals.state_operators(spark, str(query.id))
        job = max(internals.jobs_after(spark, str(query.runId), -1))
        stages = internals.stages_as_planned(spark, internals.job_done(spark, job).stages)
        tasks = internals.tasks_of(spark, operator.stage(stages))
    finally:
        query.stop()
    assert sum(one["taskMetrics"]["shuffleReadMetrics"]["recordsRead"] for one in tasks) == 60


def test_jobs_know_their_batch(spark, tmp_path):
    drop(tmp_path / "in", *some_files(2))
    seen = []

    def twice(batch, number):
        seen.append((batch.count(), batch.count()))

    counted = source(spark, tmp_path / "in").groupBy("entity").count()
    query = counted.writeStream.outputMode("update").foreachBatch(twice)
    query = query.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()
        jobs = internals.jobs_after(spark, str(query.runId), -1)
        batches = {internals.job_done(spark, job).batch for job in jobs}
    finally:
        query.stop()
    assert batches == {str(number) for number in range(len(seen))}
    assert len(jobs) >= 2 * len(seen)
