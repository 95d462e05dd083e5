"""Shedding in front of aggregations and sinks, on a real local Spark."""

import pytest
from flows import (
    TIMED,
    WAIT_S,
    bag,
    drop,
    run,
    saved_files,
    source,
    sunk,
    timed_files,
    until,
    unwanted,
)
from pyspark.sql import functions as sf
from shed_records import SLACK, counts, given, numbers, spilled

import penstock
from penstock.spark.internals import last_batch

pytestmark = pytest.mark.spark


def test_in_front_of_an_aggregation_counts_are_exact(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(3))
    op = penstock.shed(unwanted(spark, "e1"), arrival="ts", key="entity", protect="n >= 40")
    stream = source(spark, tmp_path / "in", TIMED).transform(op)
    counted = stream.groupBy("entity").count().writeStream.outputMode("complete").format("memory")
    counted = counted.option("checkpointLocation", str(tmp_path / "c")).queryName("in_front")
    query = counted.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    found = {row.entity: row["count"] for row in spark.table("in_front").collect()}
    assert found == {"e0": 15, "e1": 5, "e2": 15, "e3": 15}
    seen = [
        p["observedMetrics"]["penstock shed"] for p in query.recentProgress if p["numInputRows"]
    ]
    assert [(one["received"], one["shed"], one["admitted"]) for one in seen] == [
        (20, 5, 15),
        (20, 5, 15),
        (20, 0, 20),
    ]


def stats_in_front(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(3))
    op = penstock.shed(unwanted(spark, "e1"), arrival="ts", key="entity", name="counted")
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    return op.stats()


def test_in_front_of_a_sink_batches_count_when_the_next_one_begins(spark, tmp_path):
    stats = stats_in_front(spark, tmp_path)
    assert counts(stats.last) == (20, 5, 15)
    assert stats.received in (40, 60)
    assert counts(stats) == (stats.received, stats.received // 4, 3 * stats.received // 4)


def test_in_front_of_a_sink_the_last_batch_counts_too(spark, tmp_path):
    stats = stats_in_front(spark, tmp_path)
    assert (stats.batches, *counts(stats)) == (3, 60, 15, 45)


@pytest.mark.parametrize("spills", [False, True])
def test_in_front_of_a_sink_records_are_dropped_or_kept(spark, tmp_path, spills):
    drop(tmp_path / "in", *timed_files(3))
    more = {"spill": str(tmp_path / "spill")} if spills else {}
    op = penstock.shed(unwanted(spark, "e1"), arrival="ts", key="entity", name="gate", **more)
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    rows = sunk(spark, tmp_path)
    assert numbers(rows) == [n for n in range(60) if n % 4 != 1]
    if spills:
        kept = spilled(spark, tmp_path / "spill")
        assert bag(rows) + bag(kept.collect()) == given(spark, tmp_path / "in")
        assert saved_files(tmp_path / "out-checkpoint", "gate", "batch")


def test_in_front_a_target_sheds_what_is_late_only(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(4))
    op = penstock.shed(SLACK, arrival="ts", protect="n >= 60", spill=str(tmp_path / "spill"))
    # The first two batches have just arrived.
    now = sf.when(sf.col("n") < 40, sf.current_timestamp()).otherwise(sf.col("ts"))
    run(source(spark, tmp_path / "in", TIMED).withColumn("ts", now).transform(op), tmp_path)
    assert numbers(sunk(spark, tmp_path)) == [*range(40), *range(60, 80)]
    assert numbers(spilled(spark, tmp_path / "spill").collect()) == list(range(40, 60))


def test_in_front_idle_times_are_not_taken_for_batches(spark, tmp_path):
    """Spark reports progress of an idle query, too: under the number of the batch to come."""
    drop(tmp_path / "in", *timed_files(1))
    op = penstock.shed(unwanted(spark, "e1"), arrival="ts", key="entity", name="idle")
    setting = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(setting, "1000")
    try:
        stream = source(spark, tmp_path / "in", TIMED).transform(op).writeStream.format("noop")
        query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    finally:
        spark.conf.unset(setting)
    took_ms = []
    try:
        for number in (1, 2, 3):
            query.processAllAvailable()
            progress = next(one for one in reversed(query.recentProgress) if one["numInputRows"])
            took_ms.append(progress["durationMs"]["triggerExecution"])
            if number < 3:
                until(lambda: query.lastProgress["numInputRows"] == 0)
                drop(tmp_path / "in", *timed_files(1, start=number), start=number)
        # A report that is read late learns of the batch before its own, not of a later one.
        assert last_batch(spark, str(query.id)) == ("2", took_ms[2])
        assert last_batch(spark, str(query.id), before="2") == ("1", took_ms[1])
        assert last_batch(spark, str(query.id), before="0") is None
        stats = op.stats()
        assert counts(stats) in [(40, 10, 30), (60, 15, 45)]
        assert counts(stats.last) == (20, 5, 15)
        assert stats.instances[0].busy_ms in [sum(took_ms[:2]), sum(took_ms)]
    finally:
        query.stop()
